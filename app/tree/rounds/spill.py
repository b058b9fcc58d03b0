"""Where rounds of a recording go that memory has no room for: a temporary file."""

import logging
import tempfile
from typing import IO, Protocol

_log = logging.getLogger(__name__)

Key = tuple[int, int]
"""A round's request and its number in it."""


class Spill(Protocol):
    """What stands behind a history in memory."""

    def put(self, key: Key, packed: bytes) -> None:
        """Memory gives this round up."""

    def get(self, key: Key) -> bytes | None:
        """A round that memory gave up; None if it is not here."""

    def clear(self) -> None:
        """Nothing of it is wanted any more."""


class FileSpill:
    """A file without a name, gone with the program. Where the disk is full, rounds are lost."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._places: dict[Key, tuple[int, int]] = {}  # begin and length

    def put(self, key: Key, packed: bytes) -> None:
        """Write it at the end, once."""
        if key in self._places:
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="coppice-rounds-")  # noqa: SIM115  # lives as long as this
            begin = self._file.seek(0, 2)
            self._file.write(packed)
            self._places[key] = (begin, len(packed))
        except OSError as error:
            _log.warning("A round of the recording could not be kept: %s", error)

    def get(self, key: Key) -> bytes | None:
        """Read it; None if it could not be kept."""
        if key not in self._places or self._file is None:
            return None
        begin, length = self._places[key]
        try:
            self._file.seek(begin)
            return self._file.read(length)
        except OSError as error:
            _log.warning("A round of the recording could not be read: %s", error)
            return None

    def clear(self) -> None:
        """Give the disk its room back."""
        self._places.clear()
        if self._file:
            self._file.close()
            self._file = None
