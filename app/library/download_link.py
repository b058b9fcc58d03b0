"""The downloads as the window sees them: what they are doing, in one signal, at most ten times a second."""

import threading

from PySide6.QtCore import QObject, QTimer, Signal

from app.downloads.progress import Progress, Request, State
from app.downloads.queue import DownloadQueue
from app.system.background import start

INTERVAL_MS = 100


class DownloadLink(QObject):
    """Belongs to the window's thread. `changed` carries every listed download, as a tuple of `Progress`.

    `ended` comes once for each that is done, failed or cancelled, or that pauses by itself, for want of space say.
    While nothing is running, nothing is looked at; so what is done here must be done through here.
    """

    changed = Signal(tuple)
    ended = Signal(Progress)

    def __init__(self, queue: DownloadQueue, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._queue = queue
        self._shown: tuple[Progress, ...] = ()
        self._restoring: threading.Thread | None = None
        self._timer = QTimer(self, interval=INTERVAL_MS)
        self._timer.timeout.connect(self._look)

    @property
    def downloads(self) -> tuple[Progress, ...]:
        """What `changed` carried last."""
        return self._shown

    def restore(self) -> None:
        """List what earlier sessions have not finished; it is there a moment later, paused."""
        self._restoring = start("earlier downloads", self._queue.restore)
        self._timer.start()

    def add(self, request: Request) -> int:
        """Queue a download; returns the id that its `Progress` carries."""
        number = self._queue.add(request)
        self._follow()
        return number

    def pause(self, number: int) -> None:
        """Stop it and keep what has arrived."""
        self._queue.pause(number)
        self._follow()

    def resume(self, number: int) -> None:
        """Go on, also after a failure or a cancel."""
        self._queue.resume(number)
        self._follow()

    def cancel(self, number: int) -> None:
        """Stop it and remove what is partial."""
        self._queue.cancel(number)
        self._follow()

    def forget(self, number: int) -> None:
        """Take one that is over off the list."""
        self._queue.forget(number)
        self._follow()

    def close(self) -> None:
        """Stop everything and keep what has arrived, for the end of the application; takes a moment."""
        self._timer.stop()
        self._queue.close()

    def _follow(self) -> None:
        self._timer.start()  # a change shows after one interval: several in one are one signal

    def _look(self) -> None:
        restoring = self._restoring is not None and self._restoring.is_alive()
        before = {each.id: each.state for each in self._shown}
        now = self._queue.snapshot()
        if not restoring and not any(each.state.is_running or each.state is State.QUEUED for each in now):
            self._timer.stop()
        if now == self._shown:
            return
        self._shown = now
        self.changed.emit(now)
        for each in now:
            if _has_ended(each, before.get(each.id)):
                self.ended.emit(each)


def _has_ended(progress: Progress, before: State | None) -> bool:
    """Whether it has come to an end since; what earlier sessions have left is paused without a word."""
    stopped_itself = progress.state is State.PAUSED and bool(progress.message)
    return before is not progress.state and (progress.state.is_over or stopped_itself)
