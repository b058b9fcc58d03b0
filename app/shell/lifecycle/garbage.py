"""Garbage is looked for in the window's thread alone: what belongs to Qt must not be taken apart in another."""

import gc

from PySide6.QtCore import QObject, QTimer

_INTERVAL_MS = 500


class Garbage(QObject):
    """Python collects in whichever thread has just allocated enough, and with it widgets and timers that nobody needs.

    Qt wants those to end in the thread where they live: a program with threads that allocate would crash now and then.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._timer = QTimer(self, interval=_INTERVAL_MS)
        self._timer.timeout.connect(self.collect)

    def begin(self) -> None:
        """From now on it is done here, now and then; needs an event loop."""
        gc.disable()
        self._timer.start()

    def end(self) -> None:
        """Leave it to Python again."""
        self._timer.stop()
        gc.enable()

    def collect(self) -> None:
        """Look through the oldest generation that is due, and with it through all younger ones."""
        counts, thresholds = gc.get_count(), gc.get_threshold()
        due = [number for number in (2, 1, 0) if counts[number] > thresholds[number] > 0]
        if due:
            gc.collect(due[0])
