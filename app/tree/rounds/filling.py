"""Reads the figures of rounds that are kept with their conversation, the newest first, between two frames."""

import time
from collections import deque
from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.tree.rounds.history import History, Key

_PORTION = 100  # rounds that are read together
_SLICE_SECONDS = 0.006  # of a turn of the event loop
_PAUSE_MS = 6  # between two of them


class Filling(QObject):
    """Reads nothing while nobody looks. What others have read for themselves is taken, too."""

    wanted = Signal(list)
    """Keys of rounds that are to be brought."""

    filled = Signal()
    """More figures are known."""

    def __init__(self, history: History, parent: QObject) -> None:
        super().__init__(parent)
        self._history = history
        self._is_wanted = False
        self._asked: set[Key] = set()
        self._brought: deque[tuple[Key, bytes | None]] = deque()
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._timer.timeout.connect(self._on_timeout)

    def clear(self) -> None:
        """Another conversation is shown: nothing of this one is wanted any more."""
        self._timer.stop()
        self._asked.clear()
        self._brought.clear()

    def set_wanted(self, is_wanted: bool) -> None:
        """Whether somebody looks; there may be more rounds than before."""
        self._is_wanted = is_wanted
        self._ask()

    def take(self, brought: Sequence[tuple[Key, bytes | None]]) -> None:
        """Kept rounds that somebody wanted; None for those that are lost."""
        self._asked.difference_update(key for key, _ in brought)
        self._brought.extend(brought)
        if self._brought and not self._timer.isActive():
            self._timer.start()

    def _ask(self) -> None:
        if self._is_wanted and not self._asked and not self._brought:
            keys = self._history.without_figures(_PORTION)
            if keys:
                self._asked.update(keys)
                self.wanted.emit(keys)

    def _on_timeout(self) -> None:
        end = time.perf_counter() + _SLICE_SECONDS
        while self._brought and time.perf_counter() < end:
            self._history.read_figures(*self._brought.popleft())
        self.filled.emit()
        if self._brought:
            self._timer.start()
        else:
            self._ask()
