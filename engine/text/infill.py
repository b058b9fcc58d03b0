"""The prompt for what stands in the gap of a text: the text around it, between the marks of the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from engine.errors import InputError
from engine.protocol.sentences import say
from engine.text.infill_marks import InfillMarks
from engine.text.tokenizer import Tokenizer

REPOSITORY = "repository\n"  # its name, which no program tells
HERE = "file\n"  # and that of the file with the gap
SNIPPET = "\n\n--- snippet ---\n\n"  # before another file, for models that have no mark for it


@dataclass(frozen=True, slots=True)
class OtherFile:
    """What of another file may help."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A text with a gap, and what stands in other files, the most telling last."""

    prefix: str
    suffix: str
    others: tuple[OtherFile, ...] = ()


def require_marks(tokenizer: Tokenizer) -> InfillMarks:
    """The marks of the model; raises `InputError` where it has none."""
    if tokenizer.infill is None:
        words = say("This model was not made to fill in the middle of a text.")
        raise InputError(words, say("Load a model of code that was, or send the text without a suffix."))
    return tokenizer.infill


def write_infill(tokenizer: Tokenizer, gap: Gap, most_tokens: int | None = None) -> list[int]:
    """The tokens to read before the middle is written. No mark that stands in the texts becomes one.

    `most_tokens`: what is farthest from the gap is left out beyond that, other files first; of the text around it three
    quarters belong to what comes before, unless there is room. Raises `InputError` where the model has no marks.
    """
    marks = require_marks(tokenizer)
    opening, middle = tokenizer.opening(), [] if marks.middle is None else [marks.middle]
    before, behind = tokenizer.encode_typed(gap.prefix), tokenizer.encode_typed(gap.suffix, is_onward=True)
    left = None
    if most_tokens is not None:
        room = max(0, most_tokens - len(opening) - len(middle) - 2)
        behind = behind[: max(room // 4, room - len(before))]
        before = before[max(0, len(before) - room + len(behind)) :]
        left = room - len(before) - len(behind)
    prefix, suffix = [marks.prefix, *before], [marks.suffix, *behind]
    around = [*suffix, *prefix] if marks.is_suffix_first else [*prefix, *suffix]
    return [*opening, *_written_files(tokenizer, marks, gap.others, left), *around, *middle]


def _written_files(
    tokenizer: Tokenizer, marks: InfillMarks, others: Sequence[OtherFile], most_tokens: int | None
) -> list[int]:
    """The other files, the last of them where there is no room for all, and what stands before the file with the gap.

    With marks for them as Qwen 2.5 Coder reads repositories (Hui et al. 2024, arXiv 2409.12186).
    """
    if marks.repository is None or marks.file is None:
        begin, end = list[int](), list[int]()
        written = [tokenizer.encode_typed(SNIPPET + each.text, is_onward=True) for each in others]
    else:
        begin = [marks.repository, *tokenizer.encode_typed(REPOSITORY, is_onward=True)]
        end = [marks.file, *tokenizer.encode_typed(HERE, is_onward=True)]
        told = (f"{each.name}\n{each.text}" for each in others)
        written = [[marks.file, *tokenizer.encode_typed(text, is_onward=True)] for text in told]
    if most_tokens is not None:
        written = _last_ones(written, most_tokens - len(begin) - len(end))
    return [*begin, *(token for each in written for token in each), *end] if written else []


def _last_ones(files: list[list[int]], most_tokens: int) -> list[list[int]]:
    """As many as have so many tokens together."""
    count = sum(tokens <= most_tokens for tokens in accumulate(map(len, reversed(files))))
    return files[len(files) - count :]
