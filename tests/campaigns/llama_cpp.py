"""Compares Coppice with llama.cpp on the very same GGUF files: `python -m tests.campaigns.llama_cpp`.

Needs `pip install xllamacpp`, llama.cpp with its own server, which nothing else does. The embedded pair is written as
GGUF files of several types. Counted are: greedy texts that are the same to the last token; tokens that both find
likeliest behind the same text; texts that both cut into the same tokens. `--families`: see `llama_families`; `--rules`:
texts are cut by every rule that GGUF files name.
"""

import argparse
import json
import random
import tempfile
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from engine.loading.pair import open_tokenizer
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.streamable_network import load_layerwise
from engine.protocol.messages import ChatMessage
from engine.text.gguf_tokenizer import ALSO_CALLED, AS_GPT2, AS_GPT2_BY_DIGIT, SPLITS
from engine.text.tokenizer import Tokenizer
from tests.engine.gguf_files import write_gguf

MODELS = Path(__file__).parents[2] / "resources" / "models"
KINDS = ("F32", "BF16", "F16", "Q8_0", "Q4_0", "Q4_K", "Q6_K")
QUESTIONS = (
    "Tell me a story.", "Who lives in the forest?", "A story about a dog and the rain", "Write on.",
    "Once there was a small boat", "What did the queen find?", "Tell me of winter.", "Why is the moon round?",
)  # fmt: skip
CONTEXT = 1024
PIECES = (
    "the", " a", "Ä", "ß", "中", "ー", "🙂", "👨‍👩‍👧", "\n", "  ", "\t", "1", "23", "½", "'s", "'LL", "…", "<|user|>",
    "x²", "e\u0301",
)  # fmt: skip


class Peer:
    """llama.cpp with one model, and with a draft of up to `chain` tokens at a time."""

    def __init__(
        self,
        model: Path,
        threads: int = 1,
        exact: bool = True,
        draft: Path | None = None,
        chain: int = 0,
        repacks: bool = True,
    ) -> None:
        """Load the model; `exact` keeps keys and values, and attends, in 32 bits. Raises `RuntimeError`.

        `repacks`: weights of some types are brought into another order in memory, as llama.cpp does by itself: what is
        larger than the memory it then cannot load. Else it maps the file.
        """
        import xllamacpp

        params: Any = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.n_ctx = CONTEXT
        params.cpuparams.n_threads = threads
        params.verbosity = 1  # what goes wrong
        params.no_extra_bufts = not repacks
        if exact:
            params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
            params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        if draft:
            params.speculative.draft.mparams.path = str(draft)
            params.speculative.draft.cpuparams.n_threads = threads
            params.speculative.draft.n_max = chain
            params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        self._server = xllamacpp.Server(params)

    def likeliest(self, tokens: Sequence[int], count: int) -> list[int]:
        """The next tokens, the likeliest one each time."""
        return list(self.complete(tokens, count, ignore_eos=True)["tokens"])

    def complete(self, tokens: Sequence[int], count: int, **asked: object) -> dict[str, Any]:
        """The server's reply for up to `count` greedy tokens: `tokens`, `timings` and more."""
        same = {"prompt": list(tokens), "n_predict": count, "temperature": 0, "return_tokens": True}
        return dict(self._post("completion", {**same, **asked}))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(self._post("tokenize", {"content": text, "add_special": False, "parse_special": True})["tokens"])

    def _post(self, path: str, content: object) -> Any:
        address = f"{self._server.listening_address}/{path}"
        request = urllib.request.Request(address, json.dumps(content).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.load(reply)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often two programs agreed, and of how many times."""

    agreed: int
    asked: int

    def __str__(self) -> str:
        return f"{self.agreed} of {self.asked} ({100 * self.agreed / self.asked:.2f} %)"


def greedy(context: Context, prompt: Sequence[int], count: int, ends: frozenset[int]) -> list[int]:
    """Coppice's own text, token by token, up to where it ends."""
    tokens = list(prompt)
    for _ in range(count):
        context.prefill(tokens[:-1])
        logits = context.score([tokens[-1]], [-1])
        context.keep([0])
        token = int(logits[0].argmax())
        if token in ends:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


def resident(path: Path) -> Context:
    """A context of Coppice, computed in float32."""
    steps = load_layerwise(open_checkpoint(str(path)), torch.float32, torch.device("cpu"))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return Context(end.value, CONTEXT)


def compare_texts(
    context: Context, peer: Peer, prompts: Sequence[Sequence[int]], count: int, ends: frozenset[int]
) -> tuple[Agreement, Agreement]:
    """Whole greedy texts, and single tokens behind Coppice's text."""
    same, agreed, asked = 0, 0, 0
    for prompt in prompts:
        own = greedy(context, prompt, count, ends)
        same += own == peer.likeliest(prompt, len(own))
        agreed += sum(peer.likeliest([*prompt, *own[:at]], 1) == [own[at]] for at in range(len(own)))
        asked += len(own)
    return Agreement(same, len(prompts)), Agreement(agreed, asked)


def compare_tokens(tokenizer: Tokenizer, peer: Peer, count: int) -> Agreement:
    """Random texts of words, numbers, letters of many scripts and special tokens."""
    rng = random.Random(5)
    words = [piece for token in range(4096) if (piece := tokenizer.piece(token))]
    agreed = 0
    for _ in range(count):
        text = "".join(rng.choice(words if rng.random() < 0.6 else PIECES) for _ in range(rng.randint(1, 30)))
        agreed += peer.encode(text) == tokenizer.encode(text)
    return Agreement(agreed, count)


def compare_rules(wanted: Sequence[str], count: int) -> None:
    """Print for every rule for splitting text how many texts both cut into the same tokens, with one vocabulary."""
    folder = MODELS / "demo-target"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with tempfile.TemporaryDirectory() as made:
        for rule in wanted or sorted({*SPLITS, *ALSO_CALLED, *AS_GPT2, *AS_GPT2_BY_DIGIT, *GGUF_PRE_TOKENIZER_SPLITS}):
            path = write_gguf(Path(made) / "m.gguf", model, tokenizer=folder, splitting=rule)
            own = open_tokenizer(open_checkpoint(str(path)))
            try:
                found = str(compare_tokens(own, Peer(path), count))
            except RuntimeError:
                found = "llama.cpp does not know it"
            print(f"{rule:18} {found}", flush=True)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.llama_cpp", description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each text (default: %(default)s)")
    parser.add_argument("--families", nargs="*", help="tiny models of all architectures, or of these cases")
    parser.add_argument("--texts", type=int, default=10_000, help="texts to cut into tokens (default: %(default)s)")
    parser.add_argument("--rules", nargs="*", help="rules for splitting text: all that are known, or these")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.families is not None:
        from tests.campaigns.llama_families import compare_families  # it needs this module

        compare_families(arguments.families)
        return
    if arguments.rules is not None:
        compare_rules(arguments.rules, arguments.texts)
        return
    folder = MODELS / "demo-target"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = Tokenizer.open(folder)
    prompts = [tokenizer.encode_chat([ChatMessage("user", question)]) for question in QUESTIONS]
    with tempfile.TemporaryDirectory() as made:
        for kind in arguments.kinds:
            path = write_gguf(Path(made) / f"{kind}.gguf", model, kind, tokenizer=folder)
            peer = Peer(path)
            texts, tokens = compare_texts(resident(path), peer, prompts, arguments.tokens, tokenizer.eos_ids)
            print(f"{kind:5} same greedy texts {texts}, same next tokens {tokens}", flush=True)
            if kind == arguments.kinds[0]:
                own = open_tokenizer(open_checkpoint(str(path)))
                print(f"{kind:5} texts of the same tokens {compare_tokens(own, peer, arguments.texts)}", flush=True)


if __name__ == "__main__":
    main()
