"""The Qt application and its process: files that a desktop hands over, signals, displays, garbage collection.

Garbage is collected in the window's thread alone: what belongs to Qt must not be taken apart in another.
"""

import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from PySide6.QtCore import (
    QEvent,
    QMessageLogContext,
    QObject,
    QSocketNotifier,
    QTimer,
    QtMsgType,
    Signal,
    qInstallMessageHandler,
    qWarning,
)
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication


class Application(QApplication):
    """`file_asked` comes for every such file: macOS sends an event where other systems start the program once more.

    `quit_asked` comes before windows are closed because the system or a signal wants the program to end; who hears it
    can `hold` the end.
    """

    file_asked = Signal(str)
    quit_asked = Signal()

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(list(arguments))
        self._is_held = False

    def hold(self) -> None:
        """Go on after all: a person is asked something first."""
        self._is_held = True

    def event(self, event: QEvent) -> bool:
        """An event of the application itself; those of its widgets do not come by here."""
        if isinstance(event, QFileOpenEvent) and event.file():
            self.file_asked.emit(event.file())
            return True
        if event.type() == QEvent.Type.Quit:
            self._is_held = False
            self.quit_asked.emit()
            if self._is_held:
                event.ignore()
                return True
        return super().event(event)


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
        """Restore the handlers of before."""
        for each, handler in self._former.items():
            signal.signal(each, handler)
        self._former.clear()
        signal.set_wakeup_fd(self._former_descriptor)
        self._again.stop()
        self._notifier.setEnabled(False)
        self._reader.close()
        self._writer.close()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Once more, this one does what the system means by it: a window that hangs can be ended.

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


_log = logging.getLogger("qt")
_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}
_LAST_WORDS = ("connection broke", "connection experienced a fatal error")
"""Of the X11 and the Wayland plugin; what follows is `exit`, with every thread still running."""


class DisplayWatch:
    """Calls `lost` when the X server or the compositor has gone, as at the end of a session; nothing follows that.

    `lost` is the last chance to write down what is not written yet. It is called once, in the window's thread.
    """

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._is_lost = False

    def begin(self) -> None:
        """Hear what Qt says from now on."""
        qInstallMessageHandler(self.on_message)

    def end(self) -> None:
        """Let Qt print it again."""
        qInstallMessageHandler(None)

    def on_message(self, kind: QtMsgType, _context: QMessageLogContext, words: str) -> None:
        """Pass one message on to the log."""
        _log.log(_LEVELS.get(kind, logging.WARNING), "%s", words)
        if any(each in words for each in _LAST_WORDS) and not self._is_lost:
            self._is_lost = True
            self._lost()


@contextmanager
def opening_display(refused: Callable[[str], object]) -> Iterator[None]:
    """While Qt looks for a display: where there is none to be had, `refused` is called with what Qt says of it.

    Qt then ends the program by a signal, which leaves a core file and none of our words; so `refused` has to end it.
    """
    said: list[str] = []

    def on_message(kind: QtMsgType, _context: QMessageLogContext, words: str) -> None:
        if kind is QtMsgType.QtFatalMsg:
            refused("; ".join(" ".join(each.split()).rstrip(".") for each in said) or words)
        said.append(words)

    qInstallMessageHandler(on_message)
    try:
        yield
    finally:
        qInstallMessageHandler(None)
    for words in said:
        qWarning(words)


_INTERVAL_MS = 500


class Garbage(QObject):
    """Python collects in any thread that has just allocated enough, and with it widgets and timers no longer in use.

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
