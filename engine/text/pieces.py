"""What an answer's text is made of, as it comes: reasoning, content, and calls of tools."""

from dataclasses import dataclass
from typing import Protocol

from engine.protocol.reasoning import Marks


@dataclass(frozen=True, slots=True)
class Thought:
    """More of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """More of what the answer says."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The answer calls a tool; `place` counts its calls from 0."""

    place: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the arguments of a call: JSON, cut anywhere."""

    place: int
    text: str


Piece = Thought | Content | CallBegun | CallArguments


class Divider(Protocol):
    """Divides the content of an answer as it comes."""

    def push(self, text: str) -> list[Piece]:
        """Take more text; returns what it certainly is."""

    def flush(self) -> list[Piece]:
        """The end: returns what was held back."""


class AllContent:
    """Where nothing can be called, all text is content."""

    def push(self, text: str) -> list[Piece]:
        """The text itself."""
        return [Content(text)] if text else []

    def flush(self) -> list[Piece]:
        """Nothing is held back."""
        return []


class AnswerPieces:
    """Tells reasoning from the answer behind it, whose text it hands on to `behind`."""

    def __init__(self, marks: Marks, behind: Divider) -> None:
        """`marks`: what stands around the reasoning in the text of an answer."""
        self._begin, self._end = marks.begin.strip(), marks.end
        self._behind = behind
        self._held = ""
        self._state = "before"
        self._is_new = False  # nothing but line ends has come behind the last mark

    def push(self, text: str) -> list[Piece]:
        """Take more text; returns what it certainly is."""
        self._held += text
        if self._state == "before":
            here = self._held.lstrip()
            if len(here) < len(self._begin) and self._begin.startswith(here):
                return []
            self._state = "inside" if here.startswith(self._begin) else "behind"
            self._is_new = self._state == "inside"
            if self._state == "inside":
                self._held = here[len(self._begin) :]
        if self._state == "inside":
            return self._inside()
        text, self._held = self._without_line_ends(), ""
        return self._behind.push(text) if text else []

    def flush(self) -> list[Piece]:
        """The end: returns what was held back."""
        held, self._held = self._without_line_ends(), ""
        rest: list[Piece] = []
        if held:
            rest = [Thought(held)] if self._state == "inside" else self._behind.push(held)
        return [*rest, *self._behind.flush()]

    def _inside(self) -> list[Piece]:
        self._held = self._without_line_ends()
        thought, found, answer = self._held.partition(self._end)
        if found:
            self._state, self._is_new, self._held = "behind", True, ""
            return [*([Thought(thought)] if thought else []), *self.push(answer)]
        kept = next(n for n in range(len(self._end), -1, -1) if self._held.endswith(self._end[:n]))
        shown, self._held = self._held[: len(self._held) - kept], self._held[len(self._held) - kept :]
        return [Thought(shown)] if shown else []

    def _without_line_ends(self) -> str:
        """What is held; line ends right behind a mark belong to neither side of it."""
        text = self._held.lstrip("\n") if self._is_new else self._held
        self._is_new = self._is_new and not text
        return text
