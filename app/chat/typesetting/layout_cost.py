"""Estimates the work of laying out a text, limits the length of texts, and measures time budgets."""

import math
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the parser takes its time to read, and is not needed for the first picture
    from markdown_it.token import Token

_MARKS = "*_`[]~\\&<|"
_PER_MARK = 10
_PER_DOLLAR = 30  # two of them are a formula
_PER_LINE = 40
_PER_ODD_LETTER = 12
_PER_TOKEN = 45  # of the parser: an item of a list takes three of them
_PER_LINE_OF_CODE = 20
# Letters that are written from right to left, or that are seen only by what they do to others, cost a layout of
# their own whenever they meet another kind.
_ODD_LETTER = re.compile(
    r"[\u0300-\u036f\u0590-\u08ff\u200b-\u200f\u202a-\u202e\u2060-\u206f\ue000-\uf8ff\ufb1d-\ufeff\U00010000-\U0010ffff]"
)

# How much text can be laid out at once before a person would notice; what is longer is shown, or kept, otherwise.
_SHOWN, _SHOWN_LINES = 8_000, 80
_WRITTEN, _WRITTEN_LINE, _WRITTEN_LINES = 200_000, 20_000, 4_000
_LETTERS_PER_ODD = 8  # usual letters that one of another alphabet counts for, which can need a layout of its own

Clock = Callable[[], float]  # seconds, only ever forward


def layout_cost(text: str) -> int:
    """The work of laying out Markdown that is not parsed yet, in letters of plain text that would take as long."""
    marks = _PER_MARK * sum(map(text.count, _MARKS)) + _PER_DOLLAR * text.count("$")
    odd = 0 if text.isascii() else len(_ODD_LETTER.findall(text))
    return len(text) + marks + _PER_LINE * text.count("\n") + _PER_ODD_LETTER * odd


def layout_cost_of_tokens(tokens: "list[Token]") -> int:
    """The same of Markdown that is parsed."""
    total = 0
    for token in tokens:
        total += _PER_TOKEN * (token.nesting >= 0)
        if token.type in ("fence", "code_block"):
            total += len(token.content) + _PER_LINE_OF_CODE * token.content.count("\n")
        elif token.type == "inline":
            total += layout_cost(token.content)
    return total


def prefix_within(text: str, most: int) -> int:
    """How many of the first characters are no heavier than `most`; at least one, and near enough the most."""
    length = min(len(text), most)
    while length > 1 and (heavy := layout_cost(text[:length])) > most:
        length = max(1, min(length - 1, length * most // heavy))
    return length


def is_long(text: str) -> bool:
    """Whether it is too much for one document that is laid out at once."""
    return text.count("\n") > _SHOWN_LINES or _weighted_length(text) > _SHOWN


def is_writable(text: str, lines_before: int = 0) -> bool:
    """Whether a text field can hold it: with every letter it lays out a whole line again."""
    if len(text) > _WRITTEN or lines_before + text.count("\n") > _WRITTEN_LINES:
        return False
    return _weighted_length(text) <= _WRITTEN_LINE or all(
        _weighted_length(line) <= _WRITTEN_LINE for line in text.split("\n")
    )


def _weighted_length(text: str) -> int:
    if text.isascii():
        return len(text)
    usual = len(text.encode("latin-1", "ignore"))
    return usual + _LETTERS_PER_ODD * (len(text) - usual)


class Budget:
    """A span of time that starts when it is made; work is done in small steps, with a look at `is_spent` after each."""

    def __init__(self, seconds: float = math.inf, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def is_spent(self) -> bool:
        """Whether the rest has to wait."""
        return self._clock() >= self._end
