"""Brings the figures of a stored conversation back: newest rounds first, a little in every turn of the event loop."""

import logging
import time
from collections import deque
from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine.round_packing import DamagedRoundError, unpack
from app.telemetry.history import History

_log = logging.getLogger(__name__)

Key = tuple[int, int]
"""A round's request and its number in it."""

_PORTION = 100  # rounds that are read and put before the others together
_SLICE_SECONDS = 0.006  # of a turn of the event loop
_PAUSE_MS = 6  # between two of them


class Restoring(QObject):
    """Reads nothing as long as nobody looks. How long questions were read is not kept, so rounds follow each other."""

    wanted = Signal(list)
    """Keys of rounds that are to be brought."""

    restored = Signal(int, float)
    """So many older rounds stand in the history now, before those that were there, and they took so many seconds."""

    def __init__(self, history: History, parent: QObject) -> None:
        super().__init__(parent)
        self._history = history
        self._is_wanted = False
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._timer.timeout.connect(self._on_timeout)
        self.clear()

    @property
    def left(self) -> int:
        """Rounds that are still to be read."""
        return len(self._keys) + len(self._asked)

    def clear(self) -> None:
        """Another conversation is shown: nothing of this one is wanted any more."""
        self._timer.stop()
        self._keys: list[Key] = []  # oldest first
        self._asked: list[Key] = []
        self._brought: deque[tuple[Key, bytes]] = deque()
        self._older = History(_PORTION)

    def begin(self, keys: Sequence[Key]) -> None:
        """The conversation has these rounds, oldest first."""
        self.clear()
        self._keys = list(keys[-self._history.capacity :])
        self._ask()

    def set_wanted(self, is_wanted: bool) -> None:
        """Whether somebody looks at the figures."""
        self._is_wanted = is_wanted
        self._ask()

    def take(self, brought: Sequence[tuple[Key, bytes | None]]) -> None:
        """Rounds that were wanted; None for those that are lost."""
        if self._asked and [key for key, _ in brought] == self._asked and not self._brought:
            self._brought.extend((key, packed) for key, packed in brought if packed is not None)
            self._timer.start()

    def _ask(self) -> None:
        if self._is_wanted and self._keys and not self._asked:
            self._asked = self._keys[-_PORTION:]
            del self._keys[-_PORTION:]
            self._older = History(_PORTION)
            self.wanted.emit(self._asked)

    def _on_timeout(self) -> None:
        end = time.perf_counter() + _SLICE_SECONDS
        while self._brought and time.perf_counter() < end:
            key, packed = self._brought.popleft()
            try:
                self._older.add(unpack(packed, key[0]))
            except (DamagedRoundError, ValueError) as error:
                _log.warning("Round %d has no figures: %s", key[1], error)
        if self._brought:
            self._timer.start()
            return
        self._history.put_before(self._older)
        self._asked = []
        self.restored.emit(self._older.count, self._older.seconds)
        self._ask()
