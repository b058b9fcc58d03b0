"""What Qt says of itself, for the log; and what it says before it ends the program: that the desktop is gone."""

import logging
from collections.abc import Callable

from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

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
