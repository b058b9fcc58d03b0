"""The clock of a race: both answers are replayed from their beginning, each at its own speed."""

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.ui.throttle import FRAME_MS


class Playback(QObject):
    """A place between 0 and `duration` seconds, which moves on by itself while it plays."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds, only ever forward."""
        super().__init__(parent)
        self._clock = clock
        self._last = 0.0
        self._timer = QTimer(self, interval=FRAME_MS)
        self._timer.timeout.connect(self.advance)
        self.duration = 0.0
        self.seconds = 0.0
        self.pace = 1.0

    @property
    def is_playing(self) -> bool:
        """Whether it moves."""
        return self._timer.isActive()

    @property
    def is_at_end(self) -> bool:
        """Whether everything is there."""
        return self.seconds >= self.duration

    def set_duration(self, seconds: float) -> None:
        """The slower answer takes so long; who stood at the end stands there again."""
        was_at_end = self.is_at_end
        self.duration = seconds
        self.seconds = seconds if was_at_end else min(self.seconds, seconds)
        self.changed.emit()

    def play(self) -> None:
        """Go on; from the beginning, if it is at the end."""
        if self.is_at_end:
            self.seconds = 0.0
        self._last = self._clock()
        self._timer.start()
        self.changed.emit()

    def pause(self) -> None:
        """Stand still."""
        self._timer.stop()
        self.changed.emit()

    def go_to(self, seconds: float) -> None:
        """Move to a place."""
        self.seconds = min(max(0.0, seconds), self.duration)
        self.changed.emit()

    def set_pace(self, pace: float) -> None:
        """Replay so many times as fast as it was."""
        self.pace = pace

    def advance(self) -> None:
        """Move on by the time that has passed."""
        now = self._clock()
        self.seconds = min(self.seconds + (now - self._last) * self.pace, self.duration)
        self._last = now
        if self.is_at_end:
            self._timer.stop()
        self.changed.emit()
