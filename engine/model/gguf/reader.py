"""Reads the head of a GGUF file value by value, never more than is there and never more than a limit."""

import struct
from typing import BinaryIO

from engine.errors import ModelError
from engine.model.json_file import shown
from engine.protocol.sentences import say

MAX_HEADER_BYTES = 192 << 20  # the largest vocabularies with their merges take a tenth of it
MAX_TEXT_BYTES = 16 << 20  # of all single strings together: names, chat templates
MAX_KEY_BYTES = 65_535  # the format's own limit
MAX_NAME_BYTES = 256  # of a tensor; llama.cpp takes 63
MAX_STRINGS = 1 << 22  # in all lists together
WINDOW_BYTES = 1 << 20

STRING, ARRAY = 8, 9
# Types of metadata values: their letter in `struct`.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

FETCH_AGAIN = say("It is damaged or was not downloaded completely: download it again.")


class HeadReader:
    """Goes through the head of a file. Every method raises `ModelError` where the file ends or lies."""

    def __init__(self, file: BinaryIO, name: object) -> None:
        """`file` stands at its beginning; `name` is what sentences call it."""
        self._file = file
        self._name = name
        self._window = b""
        self._at = 0  # in the window
        self._begin = 0  # of the window in the file
        self._text_bytes = 0
        self._strings = 0
        self.size = file.seek(0, 2)
        file.seek(0)

    @property
    def position(self) -> int:
        """Bytes from the beginning of the file."""
        return self._begin + self._at

    def take(self, count: int) -> bytes:
        """The next bytes; `count` at most a few megabytes."""
        self.require(count)
        if self._at + count > len(self._window):
            self._refill(count)
        self._at += count
        return self._window[self._at - count : self._at]

    def skip(self, count: int) -> None:
        """Pass over bytes without reading them."""
        self.require(count)
        if self._at + count <= len(self._window):
            self._at += count
            return
        self._begin, self._at, self._window = self.position + count, 0, b""
        self._file.seek(self._begin)

    def require(self, count: int) -> None:
        """Raise `ModelError` unless so many bytes follow and a header may be as long."""
        if count > self.size - self.position:
            raise self.damaged(say("{file} ends before its header does.", file=self._name))
        if self.position + count > MAX_HEADER_BYTES:
            raise self.damaged(
                say("{file} has a header of more than {size} MB.", file=self._name, size=MAX_HEADER_BYTES >> 20)
            )

    def number(self, letter: str) -> int | float | bool:
        """The next number; `letter` is its type for `struct`."""
        (value,) = struct.unpack("<" + letter, self.take(struct.calcsize("<" + letter)))
        return value  # type: ignore[no-any-return]

    def size_of(self, letter: str, most: int, what: str) -> int:
        """The next whole number, which may not be more than `most`; `what` is counted, for the sentence."""
        value = int(self.number(letter))
        if value > most:
            raise self.damaged(say("{file} claims {count} {things}.", file=self._name, count=value, things=what))
        return value

    def text(self, most: int = MAX_TEXT_BYTES) -> str:
        """The next string, which may not be longer than `most` bytes."""
        length = self.size_of("Q", most, say("bytes of text"))
        self._text_bytes += length
        if self._text_bytes > MAX_TEXT_BYTES:
            raise self.damaged(
                say("{file} has more than {size} MB of text.", file=self._name, size=MAX_TEXT_BYTES >> 20)
            )
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise self.damaged(say("{file} has text that is not UTF-8.", file=self._name)) from None

    def skip_strings(self, count: int) -> None:
        """Pass over so many strings, every one of them inside the file."""
        self._strings += count
        if self._strings > MAX_STRINGS:
            raise self.damaged(say("{file} lists more than {count} strings.", file=self._name, count=MAX_STRINGS))
        self.require(8 * count)
        for _ in range(count):
            (length,) = struct.unpack("<Q", self.take(8))
            self.skip(length)

    def damaged(self, sentence: str) -> ModelError:
        """The refusal of the file."""
        return ModelError(sentence, FETCH_AGAIN)

    def unknown_type(self, key: str) -> ModelError:
        """The refusal of a value of no known type."""
        return self.damaged(say("{file} has the entry {entry} of an unknown type.", file=self._name, entry=shown(key)))

    def _refill(self, count: int) -> None:
        self._begin, self._at = self.position, 0
        self._file.seek(self._begin)
        self._window = self._file.read(max(count, WINDOW_BYTES))
        if len(self._window) < count:
            raise self.damaged(say("{file} ends before its header does.", file=self._name))
