"""Rounds that were, packed: as many as memory has room for, the others in a temporary file."""

import logging
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Protocol

from app.engine.round_packing import DamagedRoundError, pack, unpack
from app.tree.rounds.figures import UNKNOWN, Figures
from engine.protocol.messages import Round

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
            with suppress(OSError):  # a full disk refuses what is still to be written, which nobody wants now
                self._file.close()
            self._file = None


MEMORY_BYTES = 96 << 20


class History:
    """Rounds in the order they came, of which at most `memory_bytes` are in memory.

    What memory gives up goes to `spill`. Without one, it is kept elsewhere: such a round is `missing` until it is
    brought, or until it is known to be lost. The `figures` of every round stay in memory.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES, spill: Spill | None = None) -> None:
        self.figures = Figures()
        self._most = memory_bytes
        self._spill = spill
        self._keys: list[Key] = []
        self._places: dict[Key, int] = {}
        self._packed: OrderedDict[Key, bytes] = OrderedDict()  # what was used last stands last
        self._lost: set[Key] = set()
        self._in_memory = 0  # bytes

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def memory_bytes(self) -> int:
        """What the rounds take in memory now."""
        return self._in_memory

    def append(self, newest: Round) -> None:
        """Keep a round, all but its text. Of two alike, as some recordings have them, the second gets another id."""
        key = (newest.id, newest.index)
        if key in self._places:
            key = (-1 - len(self._keys), newest.index)
        self._places[key] = len(self._keys)
        self._keys.append(key)
        self.figures.append(newest)
        self._hold(key, pack(newest))

    def put_before(self, keys: Sequence[Key]) -> int:
        """Put rounds that are kept elsewhere before all that came; returns how many are new here."""
        older = [each for each in keys if each not in self._places]
        self._keys[:0] = older
        self._places = {key: place for place, key in enumerate(self._keys)}
        self.figures.put_before(older)
        return len(older)

    def bring(self, key: Key, packed: bytes | None) -> None:
        """A round that was missing; None: it is lost."""
        if key not in self._places or key in self._packed:
            return
        if packed is None:
            self._lose(key)
        else:
            self._lost.discard(key)
            self._hold(key, packed)

    def find(self, key: Key) -> int | None:
        """The place of a round."""
        return self._places.get(key)

    def key(self, place: int) -> Key:
        """Request and number of the round at a place."""
        return self._keys[place]

    def round(self, place: int) -> Round | None:
        """The round number `place`, from 0; None if it is missing or lost."""
        key = self._keys[place]
        packed = self._packed.get(key)
        if packed is not None:
            self._packed.move_to_end(key)
        elif self._spill:
            packed = self._spill.get(key)
        if packed is None:
            return None
        return self._unpacked(key, packed)

    def read_figures(self, key: Key, packed: bytes | None) -> None:
        """Take the figures of a round that is kept elsewhere; the round itself is not wanted. None: it is lost."""
        place = self._places.get(key)
        if place is None or self.figures.rows[place]["state"] != UNKNOWN:
            return
        if packed is None:
            self.figures.lose(place)
        else:
            self._unpacked(key, packed)

    def without_figures(self, most: int) -> list[Key]:
        """The newest rounds, oldest first, whose figures are not known yet."""
        places = (self.figures.rows["state"] == UNKNOWN).nonzero()[0][-most:]
        return [self._keys[place] for place in places.tolist()]

    def missing(self, first: int, end: int) -> list[Key]:
        """Those of the rounds `first` to `end - 1` that would have to be brought."""
        if self._spill:
            return []
        keys = self._keys[max(0, first) : max(0, end)]
        return [each for each in keys if each not in self._packed and each not in self._lost]

    def clear(self) -> None:
        """Forget everything."""
        self._keys.clear()
        self._places.clear()
        self.figures.clear()
        self._packed.clear()
        self._lost.clear()
        self._in_memory = 0
        if self._spill:
            self._spill.clear()

    def _unpacked(self, key: Key, packed: bytes) -> Round | None:
        try:
            found = unpack(packed, key[0])
        except DamagedRoundError as error:
            _log.warning("Round %d cannot be read: %s", key[1], error)
            self._lose(key)
            return None
        self.figures.learn(self._places[key], found)
        return found

    def _lose(self, key: Key) -> None:
        self._lost.add(key)
        self.figures.lose(self._places[key])

    def _hold(self, key: Key, packed: bytes) -> None:
        self._in_memory += len(packed) - len(self._packed.get(key, b""))
        self._packed[key] = packed
        while self._in_memory > self._most and len(self._packed) > 1:
            oldest, given_up = self._packed.popitem(last=False)
            self._in_memory -= len(given_up)
            if self._spill:
                self._spill.put(oldest, given_up)
