"""Runs a function at once or a little later, but never more often than a screen can show."""

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

FRAME_MS = 33
_PAUSE_PER_WORK = 3  # work that takes t is followed by a pause of at least 3 t, so that input always gets through


class Throttle(QObject):
    """Calls `work` on request: the first time at once, then at most once per `interval_ms`.

    Requests in between are merged into one call at the end of the interval; none is lost.
    The interval stretches when the work itself is slow.
    """

    def __init__(self, work: Callable[[], None], interval_ms: int = FRAME_MS, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._work = work
        self._interval_ms = interval_ms
        self._requested = False
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._on_timeout)

    def request(self) -> None:
        """Ask for a call."""
        if self._timer.isActive():
            self._requested = True
        else:
            self._run()

    def flush(self) -> None:
        """Do now what was asked for and not yet done."""
        if self._requested:
            self._timer.stop()
            self._run()

    def cancel(self) -> None:
        """Forget what was asked for and not yet done."""
        self._timer.stop()
        self._requested = False

    def _on_timeout(self) -> None:
        if self._requested:
            self._run()

    def _run(self) -> None:
        self._requested = False
        start = time.perf_counter()
        self._work()
        spent_ms = (time.perf_counter() - start) * 1000
        self._timer.start(max(self._interval_ms, int(spent_ms * _PAUSE_PER_WORK)))
