"""Reads files for the window in a thread of its own."""

import threading
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from PySide6.QtCore import QObject, Signal

from app.chat.composer.attachments.reading import read_attachment
from app.chat.composer.attachments.refusal import Refused
from app.chat.history.attachment import Attachment
from app.i18n.translation import tr
from app.system.background import attempt, start


class AttachmentReader(QObject):
    """Files are read one after the other, in the order they were given; answers come as signals.

    The thread is nobody's to wait for: at the end a file that takes its time is left unread.
    """

    was_read = Signal(object, object)  # path, Attachment
    was_refused = Signal(object, str)  # path, reason

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._paths: SimpleQueue[Path | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def read(self, path: Path) -> None:
        """Ask for `was_read` or `was_refused`."""
        self._paths.put(path)
        if self._thread is None:
            self._thread = start("attachments", self._run)

    def close(self) -> None:
        """Read nothing more; returns at once."""
        self._is_closed = True
        self._paths.put(None)

    def _run(self) -> None:
        while (path := self._paths.get()) is not None and not self._is_closed:
            answer = attempt(partial(_read, path), _unexpected)
            try:
                if isinstance(answer, Attachment):
                    self.was_read.emit(path, answer)
                else:
                    self.was_refused.emit(path, answer)
            except RuntimeError:  # the window is gone, and this with it
                return


def _read(path: Path) -> Attachment | str:
    """The attachment, or why there is none."""
    try:
        return read_attachment(path)
    except Refused as refusal:
        return str(refusal)


def _unexpected(error: BaseException) -> str:
    reason = str(error) or type(error).__name__
    return tr("It cannot be read because of an error in this program ({error}).").format(error=reason)
