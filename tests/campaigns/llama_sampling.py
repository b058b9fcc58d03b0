"""Compares how tokens are drawn with llama.cpp, behind random texts: `python -m tests.campaigns.llama_sampling`.

Needs `pip install xllamacpp`. The embedded target is written as a GGUF file in 32 bits. Of each case a text that
repeats itself, DRY with its breakers, XTC (which always acts) and the temperature are chosen by its seed; what is
compared are the probabilities that the next token is drawn with.
"""

import argparse
import random
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from engine.loading.pair import open_tokenizer
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.protocol.options import SEQUENCE_BREAKERS, SamplingOptions
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.text.sequence_breakers import breakers_of
from engine.text.tokenizer import Tokenizer
from tests.campaigns.llama_cpp import CONTEXT, MODELS, Peer, resident
from tests.engine.gguf_files import write_gguf

LIKELIEST = 50  # tokens whose probabilities are compared
ROUNDING = 1e-3  # of a probability: what rounding moves it by, at most
WORDS = (" the", " cat", " dog", ".", "\n", ":", " story", " a", "s", " ran", '"', " and")
BREAKERS = (SEQUENCE_BREAKERS, ("story",), ("the cat", "\n"), (" ",), ("s a",))


def random_text(numbers: random.Random) -> str:
    """Words of a few kinds, with parts that were there before."""
    words: list[str] = [numbers.choice(WORDS) for _ in range(numbers.randint(3, 40))]
    for _ in range(numbers.randint(1, 4)):
        begin = numbers.randrange(len(words))
        words += words[begin : begin + numbers.randint(2, 12)]
    return "".join(words)


def random_options(numbers: random.Random) -> SamplingOptions:
    """DRY, or XTC, or both."""
    return SamplingOptions(
        temperature=numbers.choice((0.6, 1.0, 1.5)),
        dry_multiplier=numbers.choice((0.0, 0.8, 2.5)),
        dry_base=numbers.choice((1.0, 1.75, 3.0)),
        dry_allowed_length=numbers.choice((1, 2, 4)),
        dry_penalty_last_n=numbers.choice((-1, -1, 12, 40)),
        dry_sequence_breakers=numbers.choice(BREAKERS),
        xtc_probability=numbers.choice((0.0, 1.0)),
        xtc_threshold=numbers.choice((0.02, 0.1, 0.3)),
    )


def own(context: Context, tokenizer: Tokenizer, tokens: list[int], options: SamplingOptions) -> torch.Tensor:
    """Coppice's probabilities of the next token: float32 [vocabulary]."""
    context.prefill(tokens[:-1])
    logits = context.score([tokens[-1]], [-1])[0].float()
    context.keep([0])
    breakers = breakers_of(tokenizer, options.dry_sequence_breakers)
    drawing = Sampler(options, tokens, Uniforms(options.seed), breakers=breakers).ahead([], 0, logits.device)
    return drawing.distribution(logits, ())


def theirs(peer: Peer, tokens: list[int], options: SamplingOptions) -> dict[int, float]:
    """llama.cpp's, of the likeliest tokens."""
    asked: dict[str, Any] = {
        name: getattr(options, name) for name in SamplingOptions.__slots__ if name[:4] in ("dry_", "xtc_")
    }
    asked["dry_sequence_breakers"] = [*options.dry_sequence_breakers]
    asked["dry_penalty_last_n"] = CONTEXT if options.dry_penalty_last_n < 0 else options.dry_penalty_last_n
    plain = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0, "temperature": options.temperature}
    told = peer.complete(tokens, 1, **plain, **asked, n_probs=LIKELIEST, post_sampling_probs=True)
    likely = told["completion_probabilities"][0]["top_probs"]
    return {each["id"]: each["prob"] for each in likely}


def main() -> None:
    """Print what differs, and how many cases there were."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.llama_sampling", description=__doc__)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--count", type=int, default=500, help="cases (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = MODELS / "demo-target"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    wrong = acted = 0
    with tempfile.TemporaryDirectory() as made, torch.inference_mode():
        path = write_gguf(Path(made) / "F32.gguf", model, "F32", tokenizer=folder)
        context, peer, tokenizer = resident(path), Peer(path), open_tokenizer(open_checkpoint(str(path)))
        for seed in range(arguments.first, arguments.first + arguments.count):
            numbers = random.Random(seed)
            tokens, options = tokenizer.encode_raw(random_text(numbers)), random_options(numbers)
            found, expected = own(context, tokenizer, tokens, options), theirs(peer, tokens, options)
            plain = own(context, tokenizer, tokens, SamplingOptions(temperature=options.temperature))
            acted += float((plain - found).abs().max()) > ROUNDING
            off = max(abs(float(found[token]) - its) for token, its in expected.items())
            if off > ROUNDING:
                wrong += 1
                print(f"{seed}: off by {off:.3g}, {options}, {tokenizer.text_of(tokens)!r}", flush=True)
    print(f"{arguments.count} cases, in {acted} of which DRY or XTC did something, {wrong} of them wrong")


if __name__ == "__main__":
    main()
