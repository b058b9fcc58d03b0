"""Small tools for writing English by rule: alternatives, slots, articles, plurals, decks of facts."""

import random
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
Turn = tuple[str, str]
"""What the user says, and what the assistant answers."""

TEXTS = Path(__file__).parent.parent / "texts"
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
IRREGULAR = {"mouse": "mice", "wolf": "wolves", "fox": "foxes", "sheep": "sheep", "salmon": "salmon"}
IRREGULAR |= {"butterfly": "butterflies", "fish": "fish", "dress": "dresses", "scarf": "scarves"}
# A group without "|" is left alone: it is a Markdown link or a Python list.
ALTERNATIVES = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")
SLOT = re.compile(r"\{(\w+)\}")


class Deck(Generic[T]):
    """Deals every item once in random order before any comes again, so that all facts are learned equally."""

    def __init__(self, items: Iterable[T], rng: random.Random) -> None:
        self._items = list(items)
        self._rng = rng
        self._left: list[T] = []

    def __len__(self) -> int:
        return len(self._items)

    def deal(self) -> T:
        if not self._left:
            self._left = self._items.copy()
            self._rng.shuffle(self._left)
        return self._left.pop()


def expand(template: str, rng: random.Random, slots: Mapping[str, str] | None = None) -> str:
    """Choose one of every "[a|b]" and fill every known "{slot}"; unknown slots stay as they are."""
    known = slots or {}
    while True:
        chosen = ALTERNATIVES.sub(lambda group: rng.choice(group[1].split("|")), template)
        if chosen == template:
            break
        template = chosen
    return SLOT.sub(lambda slot: known.get(slot[1], slot[0]), template)


def read_lines(name: str) -> list[str]:
    return [line for line in (TEXTS / name).read_text(encoding="utf-8").splitlines() if line]


def read_rows(name: str) -> list[list[str]]:
    return [line.split("|") for line in read_lines(name)]


def read_blocks(name: str) -> dict[str, str]:
    """Text under "# heading" lines, by heading; the text keeps its inner blank lines."""
    text = (TEXTS / name).read_text(encoding="utf-8")
    # A Python comment inside a block is never at the start of a line that follows a blank one.
    parts = re.split(r"(?:\A|\n\n)# (.+)\n", text)[1:]
    return {heading: body.strip("\n") for heading, body in zip(parts[::2], parts[1::2], strict=True)}


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def article(noun: str) -> str:
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun


def plural(noun: str) -> str:
    return IRREGULAR.get(noun, noun + "s")


def series(words: list[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def as_typed(question: str, rng: random.Random) -> str:
    """A question as people type it: sometimes without capitals, without its last mark, or with a "please"."""
    if rng.random() < 0.12:
        question = question.lower()
    if rng.random() < 0.12:
        question = question.rstrip("?.!")
    if rng.random() < 0.05 and question.startswith(("Tell", "Explain", "Write", "Give", "List", "Name", "Spell")):
        question = "Please " + question[0].lower() + question[1:]
    return question
