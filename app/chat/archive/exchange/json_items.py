"""Splits a long list in a JSON file into its items, in memory that does not grow with the file."""

import re
from collections.abc import Iterator
from typing import BinaryIO

_PIECE_BYTES = 1 << 18
_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_MARK_IN_LIST, _MARK = re.compile(rb'["\[\]{},]'), re.compile(rb'["\[\]{}]')
_END_OF_STRING = re.compile(rb'["\\]')


class ItemTooLargeError(Exception):
    """An item is longer than allowed, or has more brackets."""


class UnendedListError(Exception):
    """The file ends before the list does."""


def is_list(file: BinaryIO) -> bool:
    """Whether the first thing in the file is the beginning of a list; the file stands at its beginning afterwards."""
    file.seek(0)
    begin = file.read(_PIECE_BYTES).removeprefix(_BOM).lstrip(_SPACE)
    file.seek(0)
    return begin.startswith(b"[")


def items(file: BinaryIO, most_bytes: int, most_brackets: int) -> Iterator[bytes]:
    """The bytes of each item of the list in a file for which `is_list`; whether they are JSON is not looked at.

    Raises `ItemTooLargeError` for an item of more than so many bytes or opening brackets, and `UnendedListError` behind
    the last item, which may be cut off, where the list has no end. What follows the end of the list is left.
    """
    splitter = _Splitter()
    while piece := file.read(_PIECE_BYTES):
        yield from splitter.feed(piece)
        if splitter.is_over:
            return
        if splitter.pending_bytes > most_bytes or splitter.pending_brackets > most_brackets:
            raise ItemTooLargeError
    yield from splitter.end()
    raise UnendedListError


class _Splitter:
    def __init__(self) -> None:
        self._item: list[bytes] = []  # pieces of the item that is not complete
        self._depth = 0
        self._in_string = self._is_escaped = False
        self.pending_bytes = self.pending_brackets = 0
        self.is_over = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The items that are complete with this piece."""
        begin = place = 0
        while not self.is_over and (found := self._next_mark(piece, place)) >= 0:
            place = found + 1
            mark = piece[found:place]
            if mark == b'"':
                self._in_string = True
            elif mark in b"[{":
                self._depth += 1
                self.pending_brackets += 1
                if self._depth == 1:  # what stands before the list is no item
                    begin = place
                    self._clear()
            elif mark in b"]}":
                self._depth -= 1
            if self._depth == 0 or (mark == b"," and self._depth == 1):
                self._keep(piece[begin:found])
                begin = place
                self.is_over = self._depth == 0
                yield from self.end()
        self._keep(piece[begin:])

    def end(self) -> Iterator[bytes]:
        """The item that is not complete, if there is any."""
        item = b"".join(self._item).strip(_SPACE)
        self._clear()
        if item:
            yield item

    def _clear(self) -> None:
        self._item.clear()
        self.pending_bytes = self.pending_brackets = 0

    def _keep(self, part: bytes) -> None:
        self._item.append(part)
        self.pending_bytes += len(part)

    def _next_mark(self, piece: bytes, place: int) -> int:
        """The next mark outside of strings; -1 if there is none in this piece."""
        while True:
            if self._is_escaped:  # by the last byte of the piece before
                self._is_escaped = False
                place += 1
            if not self._in_string:
                found = (_MARK_IN_LIST if self._depth == 1 else _MARK).search(piece, place)
                return found.start() if found else -1
            found = _END_OF_STRING.search(piece, place)
            if found is None:
                return -1
            place = found.end()
            if found[0] == b'"':
                self._in_string = False
            elif place < len(piece):
                place += 1
            else:
                self._is_escaped = True
                return -1
