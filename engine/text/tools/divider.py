"""Divides an answer's text into content and calls of tools, as it comes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from engine.text.pieces import Piece
from engine.text.tools.character_reader import CharacterReader, Malformed, Reading
from engine.text.tools.schemas import Schema


class Reader(Protocol):
    """Reads the calls behind the mark of a format."""

    def read(self, characters: CharacterReader, tools: Mapping[str, Schema]) -> Reading[None]:
        """Read what follows the mark; raises `Malformed` where it is no call, or ends before its time."""


class IgnoredMark:
    """Reads nothing: a mark around several calls, which says nothing that those do not."""

    def read(self, characters: CharacterReader, _tools: Mapping[str, Schema]) -> Reading[None]:
        """Nothing follows the mark."""
        characters.forget()
        yield from ()


class CallDivider:
    """Finds the calls by the marks before them; a `Divider`.

    What is no call is content, to the last character: calls that are malformed, and marks that nothing follows. Of a
    call that was cut off by the end, nothing is.
    """

    def __init__(
        self,
        readers: Mapping[str, Reader],
        closers: Sequence[str],
        first: Reader | None,
        tools: Mapping[str, Schema],
        make_id: Callable[[], str],
    ) -> None:
        """`readers`: by the mark before the calls that they read; no mark begins another one.

        `closers`: what may stand behind a call and is no content. `first`: reads calls at the beginning of the content,
        which no mark tells of.
        """
        self._readers, self._closers, self._first, self._tools = readers, closers, first, tools
        self._characters = CharacterReader(make_id)
        self._reading = self._read()
        next(self._reading)

    @property
    def open_place(self) -> int:
        """Where the text ends that is certainly content, if what stands behind it may be a call; otherwise -1."""
        return self._characters.said if self._characters.is_open else -1

    def places(self, length: int) -> list[tuple[int, int]]:
        """Where each call stands in the text, of so many characters in all, with its marks and what is beside it."""
        return [(begin, *(ends or (length,))) for begin, *ends in self._characters.places]

    def push(self, text: str) -> list[Piece]:
        """Take more text; returns what it certainly is."""
        for character in text:
            self._reading.send(character)
        return self._characters.take_pieces()

    def flush(self) -> list[Piece]:
        """The end: returns what was held back."""
        with suppress(StopIteration):
            self._reading.send("")
        return self._characters.take_pieces()

    def _read(self) -> Reading[None]:
        characters, mark = self._characters, ""
        if self._first:
            yield from characters.peek()
            yield from self._calls(self._first)
        while mark := (yield from characters.copy_until(tuple(self._readers), characters.say)):
            yield from self._calls(self._readers[mark])
        characters.end()

    def _calls(self, reader: Reader) -> Reading[None]:
        characters, before = self._characters, self._characters.calls
        try:
            yield from reader.read(characters, self._tools)
        except Malformed:
            if characters.is_over and characters.calls > before:
                characters.forget_rest()
            else:
                characters.say_what_was_read()
            return
        if reader is not IGNORED_MARK:
            yield from self._close()

    def _close(self) -> Reading[None]:
        """Pass over what belongs to the call that was read, and the whitespace behind it."""
        characters, found = self._characters, True
        while found:
            yield from characters.peek()
            characters.forget()
            found = bool((yield from characters.match(self._closers)))


IGNORED_MARK = IgnoredMark()
