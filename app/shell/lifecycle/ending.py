"""Wishes of the system that the program end: Ctrl+C on a terminal, a signal, a terminal or a session that is closed."""

import signal
import socket
from types import FrameType

from PySide6.QtCore import QObject, QSocketNotifier, QTimer, Signal

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
_MOST_BYTES = 64
_AGAIN_MS = 200


class Ending(QObject):
    """`asked` comes in an event loop after a signal, and again until `release`; the same signal again ends the program.

    Python runs its handlers between two of its instructions, and Qt's loop waits outside of Python: so each signal
    writes a byte into a socket that wakes up the loop. `asked` comes again because a program that is about to start has
    nothing yet that could be quit.
    """

    asked = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)
        self._notifier = QSocketNotifier(self._reader.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_woken)
        self._former_descriptor = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._former = {
            each: signal.signal(each, self._on_signal)
            for each in (getattr(signal, name) for name in _NAMES if hasattr(signal, name))
            if signal.getsignal(each) is not signal.SIG_IGN  # `nohup` means it
        }
        self._again = QTimer(self, interval=_AGAIN_MS)
        self._again.timeout.connect(self.asked)

    def release(self) -> None:
        """Leave signals to whoever had them before."""
        for each, handler in self._former.items():
            signal.signal(each, handler)
        self._former.clear()
        signal.set_wakeup_fd(self._former_descriptor)
        self._again.stop()
        self._notifier.setEnabled(False)
        self._reader.close()
        self._writer.close()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Once more, this one does what the system means by it: nobody has to wait for a window that hangs.

        Not so SIGHUP: a terminal that is closed can send it twice, a session that ends sends it right behind SIGTERM.
        """
        if signal.Signals(number).name != "SIGHUP":
            signal.signal(number, signal.SIG_DFL)

    def _on_woken(self) -> None:
        """The bytes are the numbers of signals."""
        try:
            numbers = self._reader.recv(_MOST_BYTES)
        except BlockingIOError:
            return
        if not self._again.isActive() and any(each in self._former for each in numbers):
            self._again.start()
            self.asked.emit()
