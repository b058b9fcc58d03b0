"""Random conversations with random pairs, held against transformers and against plain autoregression.

`python -m tests.campaigns.conversations [--first SEED] [--count N] [--only FAMILY ...]`. Of each case everything is
chosen by its seed: the family, what drafts, where the layers are, and what is asked, turn after turn: new questions,
edited ones, the same again, two chats by turns, answers that are stopped, a pair that is loaded anew while its texts
are on disk; with every method, size of tree and way of sampling, pictures where the target reads them, and keys and
values in 8 bits now and then. The target computes in float32. Then

- every log-probability that is told is transformers' own behind the same text, and greedy tokens are its likeliest
  (not with 8 bits);
- text that does not depend on the tree is that of a second engine without a draft, whose layers stay in memory.

Texts may part where two tokens are equally likely but for rounding, or the number drawn falls between two. What fails
is printed with all that was asked; `--first SEED --count 1` repeats it.
"""

import argparse
import inspect
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
import transformers

from engine.engine import Engine, load
from engine.errors import Cancellation
from engine.loading.estimate import Estimator
from engine.loading.measurements.rates_file import NAME as RATES
from engine.loading.pair import open_pair
from engine.model.pictures.reader import PictureReader
from engine.picture_tokens import beside_rows, is_row, row_number, without_rows
from engine.protocol.messages import Appraise, Finished, Round
from engine.protocol.options import (
    Constraint,
    GenerateOptions,
    LoadOptions,
    Place,
    SamplingOptions,
    SpeculationOptions,
)
from engine.protocol.pictures import Picture
from engine.text.prompt import Prompt
from tests.campaigns.random_pairs import RandomPair, random_pair, text_families
from tests.engine.model.pictures.shown_pictures import joined
from tests.engine.picture_models import picture

DRAFTLESS = ("auto", "lookup", "none")
SAME_TEXT = (
    "auto",
    "specexec",
    "lookup",
    "none",
)  # methods that take the target's tokens one by one, as without a tree
METHODS = (*SAME_TEXT, "auto", "specexec", "sequoia", "specinfer", "chain")
LENGTHS = (1, 3, 10, 40, 90, 200)
LONGEST = 500  # tokens of a text: tiny configs allow 512
LEFT = 60  # tokens of a chat that has become too long
ROUNDING = 5e-4  # of the deviation of logits: what rounding moves them by, at most
OF_CODES = 2e-2  # the same where rounding may give keys and values another code of 8 bits
OF_BOTH = 1e-1  # and what these move rows to, that are rounded to 8 bits themselves
CHATS = 2
PICTURES = ((56, 84), (84, 56), (56, 56))  # sizes


@dataclass(slots=True)
class Loaded:
    """An engine, and how its requests are stopped."""

    engine: Engine
    cancellation: Cancellation = field(default_factory=Cancellation)


@dataclass(frozen=True, slots=True)
class Said:
    """The tokens of an answer, and their log-probabilities."""

    tokens: list[int]
    log_probs: list[float]


@contextmanager
def loaded(options: LoadOptions, keeps_texts: bool) -> Iterator[Loaded]:
    """An engine that is closed afterwards."""
    cancellation = Cancellation()
    steps = load(1, open_pair(options), cancellation, keeps_texts)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found = Loaded(end.value, cancellation)
            break
    try:
        yield found
    finally:
        found.engine.close()


class Conversations:
    """Some chats with one pair. `asked` says what was done so far."""

    def __init__(self, numbers: random.Random, pair: RandomPair, cache: Path) -> None:
        self.asked: list[str] = [pair.title]
        self._numbers, self._pair, self._cache = numbers, pair, str(cache)
        self._chats: list[list[int]] = [[] for _ in range(CHATS)]
        self._pictures: dict[int, Picture] = {}  # by the first of their rows
        self._kv = numbers.choice(("auto", "auto", "auto", "8"))
        if pair.title.startswith("deep"):  # many layers make more of an error than can be told from a fault
            self._kv = "auto"
        self._tolerance = OF_CODES if self._kv == "8" else ROUNDING
        # What is rounded is compared with what is rounded; transformers has nothing of the kind.
        self._activations = numbers.choice(("exact", "int8")) if pair.reference is None else "exact"
        if self._kv == "8" and self._activations == "int8":
            self._tolerance = OF_BOTH
        self._request = 1
        self._estimator = Estimator(loaded=True)

    def hold(self) -> None:
        """Ask some things; raises `AssertionError` where an answer is wrong."""
        plain = replace(self._options(), draft="none", place="device", context_tokens=0, ram_limit_bytes=0)
        with loaded(plain, False) as reference:
            for _ in range(self._numbers.randrange(1, 4)):
                options = self._options()
                self.asked.append(str(options))
                with loaded(options, True) as asked:
                    asked.engine.keep_on_disk(self._cache, self._numbers.choice((0, 1 << 30)))
                    for _ in range(self._numbers.randrange(1, 5)):
                        self._turn(asked, reference)

    def _options(self) -> LoadOptions:
        """What drafts for itself only does so where its layers stream."""
        places: tuple[Place, ...] = ("ssd",) if self._pair.draft == "self" else ("ram", "ssd", "auto", "auto", "device")
        options = LoadOptions(
            self._pair.target,
            self._pair.draft,
            weights="float32",
            place=self._numbers.choice(places),
            cache_dir=self._cache,
            kv=self._kv,
            activations=self._activations,
            overlap=self._numbers.random() < 0.7,
            budget=self._numbers.choice((0, 0, 8, 64)),
            context_tokens=self._numbers.choice((0, 300, 400)),
        )
        return self._cramped(options) if options.place == "auto" and self._numbers.random() < 0.7 else options

    def _cramped(self, options: LoadOptions) -> LoadOptions:
        """The same with so little memory that some layers stay and others stream, where there is such a limit."""
        least, most = 0, 1 << 30
        while most - least > 1 << 12:
            limited = replace(options, ram_limit_bytes=(least + most) // 2)
            found = self._estimator.estimate(Appraise(1, limited))
            if found.verdict == "ssd" and any(each.layers for each in found.tiers if each.tier != "ssd"):
                return limited
            if found.verdict in {"no", "ssd"}:
                least = limited.ram_limit_bytes
            else:
                most = limited.ram_limit_bytes
        return options

    def _turn(self, asked: Loaded, reference: Loaded) -> None:
        numbers, number = self._numbers, self._numbers.randrange(CHATS)
        chat, options = self._chats[number], self._generate_options(number)
        what = numbers.choice(("ask", "ask", "again", "edit", "rest"))
        if what == "rest":
            self.asked.append("rest")
            while asked.engine.rest(lambda: None):
                pass
            return
        if what == "edit" and len(chat) > 1:
            del chat[beside_rows(chat, numbers.randrange(1, len(chat))) :]
        if what != "again" or not chat:
            self._write_on(chat, asked.engine)
        if len(chat) + options.max_new_tokens > min(asked.engine.context_tokens, LONGEST):
            del chat[: beside_rows(chat, len(chat) - LEFT)]
            while is_row(chat[0]):  # of whole pictures, which a text does not begin with
                del chat[0]
        rounds = numbers.choice((0, 0, 0, 1, 2))
        self.asked.append(
            f"{what}, chat {number}, {len(chat)} tokens, stopped after {rounds or 'no'} rounds, {options}"
        )
        said = self._answer(asked, chat, options, rounds)
        if self._pair.reference is not None and options.constraint is None and self._kv == "auto":
            self._compare_with_transformers(asked.engine, chat, said, options)
        if options.sampling.temperature == 0 or options.speculation.method in SAME_TEXT:
            alone = replace(options, speculation=SpeculationOptions(method="none"), conversation="")
            _compare(said, self._answer(reference, chat, alone), self._tolerance, options.sampling.temperature > 0)
        chat += said.tokens

    def _write_on(self, chat: list[int], engine: Engine) -> None:
        """Words, sometimes behind ones that the chat has already: then looking up finds something. Perhaps pictures."""
        numbers, words = self._numbers, self._pair.words
        if len(chat) > 8 and numbers.random() < 0.3:
            begin = numbers.randrange(len(chat) - 4)
            chat += without_rows(chat[begin : begin + 40])
        while self._pair.sees and numbers.random() < 0.5:
            shown = picture(numbers.randrange(4), *numbers.choice(PICTURES))
            (written,) = engine.write_pictures((shown,))
            self._pictures[written.rows[0]] = shown
            chat += [numbers.randrange(*words), *written.rows]
        chat += [numbers.randrange(*words) for _ in range(numbers.choice(LENGTHS))]

    def _generate_options(self, chat: int) -> GenerateOptions:
        numbers = self._numbers
        sampling = SamplingOptions()
        if numbers.random() < 0.5:
            sampling = SamplingOptions(
                temperature=numbers.choice((0.6, 1.0)),
                top_p=numbers.choice((1.0, 0.9)),
                top_k=numbers.choice((0, 40)),
                seed=numbers.randrange(1 << 20),
            )
        if numbers.random() < 0.25:
            sampling = replace(
                sampling,
                repetition_penalty=numbers.choice((1.0, 1.3)),
                presence_penalty=numbers.choice((0.0, 0.5)),
                frequency_penalty=numbers.choice((0.0, 0.4)),
                bias=numbers.choice(((), ((77, 5.0), (99, -5.0)))),
            )
        if numbers.random() < 0.25:
            sampling = replace(
                sampling,
                dry_multiplier=numbers.choice((0.0, 0.8)),
                dry_allowed_length=numbers.choice((0, 1, 2)),
                dry_penalty_last_n=numbers.choice((-1, 16)),
                xtc_probability=numbers.choice((0.0, 0.5)),
                xtc_threshold=numbers.choice((0.01, 0.1)),
            )
        speculation = SpeculationOptions(
            method=numbers.choice(DRAFTLESS if self._pair.draft == "none" else METHODS),
            budget=numbers.choice((0, 1, 4, 16, 64)),
            depth=numbers.choice((2, 5, 32)),
            lookup=numbers.random() < 0.7,
            batch=numbers.choice((4, 128)),
            width=numbers.choice((1, 4, 32)),
        )
        constraint = Constraint("regex", "[a-z ]{1,30}") if numbers.random() < 0.12 else None
        return GenerateOptions(
            sampling,
            speculation,
            max_new_tokens=numbers.choice((1, 2, 8, 20, 40)),
            ignore_eos=constraint is None,
            constraint=constraint,
            top_log_probs=numbers.choice((0, 0, 3)),
            verdicts=numbers.random() < 0.3,
            conversation=f"chat {chat}",
        )

    def _answer(self, loaded: Loaded, prompt: Sequence[int], options: GenerateOptions, rounds: int = 0) -> Said:
        """`rounds`: after how many it is stopped, 0 for never."""
        self._request += 1
        said, last = Said([], []), None
        loaded.cancellation.begin(self._request)
        pictures = tuple(self._pictures[first] for first in _pictures_in(prompt))
        for event in loaded.engine.generate(self._request, Prompt(tuple(prompt), pictures=pictures), options):
            last = event
            if isinstance(event, Round):
                tokens = memoryview(event.tree.tokens).cast("i")
                found = [*(tokens[node] for node in event.accepted[1:]), event.bonus]
                said.tokens.extend(found[: event.new_tokens])
                said.log_probs.extend(memoryview(event.log_probs).cast("f"))
                rounds -= 1
                if not rounds:
                    loaded.cancellation.cancel(self._request)
        assert isinstance(last, Finished), f"the last event is {last}"
        assert len(said.tokens) == len(said.log_probs), "a log-probability for each token"
        return said

    def _compare_with_transformers(
        self, engine: Engine, prompt: Sequence[int], said: Said, options: GenerateOptions
    ) -> None:
        """One pass of transformers over the whole text."""
        given = self._given(engine, [*prompt, *said.tokens])
        if not said.tokens or not given:
            return
        with torch.inference_mode():
            logits = self._pair.reference(**given, use_cache=False).logits[0]
        logits = logits[len(prompt) - 1 : -1].float()
        tolerance = ROUNDING * max(1.0, float(logits.std(-1).max()))
        rows = torch.arange(len(said.tokens))
        own = torch.log_softmax(logits, -1)[rows, said.tokens]
        off = float((own - torch.tensor(said.log_probs)).abs().max())
        assert off < tolerance, f"log-probabilities are off by {off:.3g} from transformers'"
        if options.sampling == SamplingOptions():
            lost = float((logits.max(-1).values - logits[rows, said.tokens]).max())
            assert lost < tolerance, f"a greedy token lies {lost:.3g} below transformers' likeliest"

    def _given(self, engine: Engine, tokens: list[int]) -> dict[str, torch.Tensor]:
        """What transformers' own model takes; nothing where the text has what stands for a picture there."""
        firsts = _pictures_in(tokens)
        if not self._pair.sees:
            return {"input_ids": torch.tensor([tokens])}
        reader = engine._loaded.pictures._target
        assert isinstance(reader, PictureReader)
        token = reader._encoder.token
        if token in tokens:
            return {}
        known = inspect.signature(type(self._pair.reference).forward).parameters
        types = torch.tensor([[int(is_row(each)) for each in tokens]])
        found = {"input_ids": torch.tensor([[token if is_row(each) else each for each in tokens]])}
        found |= {name: types for name in ("mm_token_type_ids", "token_type_ids") if name in known}
        parts = [reader._read(self._pictures[first].data)[1] for first in firsts]
        names = [name for name in parts[0] if name in known] if parts else []
        return found | {name: joined([part[name] for part in parts]) for name in names}


def _pictures_in(tokens: Sequence[int]) -> list[int]:
    """The first rows of the pictures in a text, in their order."""
    return [token for token in tokens if is_row(token) and not row_number(token)]


def _compare(said: Said, expected: Said, tolerance: float, is_drawn: bool = False) -> None:
    """An answer, perhaps stopped, with that of the engine that has no draft.

    A number that is drawn may fall on the border of two tokens, which are neighbours in the vocabulary.
    """
    pairs = list(zip(said.tokens, expected.tokens, strict=False))
    alike = next((place for place, (ours, other) in enumerate(pairs) if ours != other), len(pairs))
    assert len(said.tokens) <= len(expected.tokens), "the text is longer than without a tree"
    offs = [abs(ours - other) for ours, other in zip(said.log_probs, expected.log_probs, strict=False)]
    off = max(offs[:alike], default=0.0)
    assert off < tolerance, f"log-probabilities are off by {off:.3g} from those without a tree"
    if alike < len(pairs) and not (is_drawn and abs(pairs[alike][0] - pairs[alike][1]) == 1):
        assert offs[alike] < tolerance, f"the text is another one from token {alike} on"


def run_case(seed: int, families: list[str], variant: str = "", rates: Path | None = None) -> tuple[list[str], str]:
    """What was asked, and what was wrong, empty if nothing; `rates`: a folder in which what is measured is kept."""
    asked: list[str] = []
    with tempfile.TemporaryDirectory(prefix="coppice-conversations-") as name:
        folder, numbers = Path(name), random.Random(seed)
        cache = folder / "cache"
        cache.mkdir()
        if rates and (rates / RATES).exists():
            shutil.copy(rates / RATES, cache)
        try:
            conversations = Conversations(numbers, random_pair(numbers, folder, families, variant), cache)
            asked = conversations.asked
            conversations.hold()
        except Exception as error:  # noqa: BLE001 # whatever it is, it is printed, and the next case begins
            wrong = isinstance(error, AssertionError)
            return asked, str(error) if wrong else "".join(traceback.format_exception(error))
        if rates and (cache / RATES).exists():
            shutil.copy(cache / RATES, rates)
    return asked, ""


def main() -> int:
    """Run the cases, and print each that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.conversations", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", nargs="*", metavar="FAMILY", help="of which families targets are")
    parser.add_argument("--variant", default="", help="plain, quiet, deep, heads, gguf or pictures")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # tiny models: threads would wait for each other
    families, failed, begun = arguments.only or text_families(), 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="coppice-rates-") as rates:
        for seed in range(arguments.first, arguments.first + arguments.count):
            asked, wrong = run_case(seed, families, arguments.variant, Path(rates))
            failed += bool(wrong)
            print(f"{seed}: {wrong or 'as expected'}", *(asked if wrong else asked[:1]), sep="\n    ", flush=True)
    print(f"{arguments.count} cases, {failed} of them wrong, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
