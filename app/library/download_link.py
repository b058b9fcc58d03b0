"""The downloads as the window sees them: what they are doing, in one signal, at most ten times a second."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from app.downloads.progress import Progress, Request, State
from app.downloads.queue import DownloadQueue
from app.i18n.translation import tr
from app.system.background import start
from engine.protocol.options import LoadOptions

INTERVAL_MS = 100


class DownloadLink(QObject):
    """Belongs to the window's thread. `changed` carries every listed download, as a tuple of `Progress`.

    `ended` comes once for each that is done, failed or cancelled, or that pauses by itself, for want of space say.
    While nothing is running, nothing is looked at; so what is done here must be done through here.
    """

    changed = Signal(tuple)
    restored = Signal(tuple)  # what earlier sessions have not finished is among these now
    ended = Signal(Progress)

    def __init__(self, queue: DownloadQueue, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._queue = queue
        self.downloads: tuple[Progress, ...] = ()  # what `changed` carried last
        self._restoring: threading.Thread | None = None
        self._timer = QTimer(self, interval=INTERVAL_MS)
        self._timer.timeout.connect(self._look)

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
        before = {each.id: each.state for each in self.downloads}
        now = self._queue.snapshot()
        if not restoring and not any(each.state.is_running or each.state is State.QUEUED for each in now):
            self._timer.stop()
        if now != self.downloads:
            self._tell(now, before)
        if self._restoring is not None and not restoring:
            self._restoring = None
            self.restored.emit(now)

    def _tell(self, now: tuple[Progress, ...], before: Mapping[int, State]) -> None:
        self.downloads = now
        self.changed.emit(now)
        for each in now:
            if _has_ended(each, before.get(each.id)):
                self.ended.emit(each)


def _has_ended(progress: Progress, before: State | None) -> bool:
    """Whether it has come to an end since; what earlier sessions have left is paused without a word."""
    stopped_itself = progress.state is State.PAUSED and bool(progress.message)
    return before is not progress.state and (progress.state.is_over or stopped_itself)


@dataclass(frozen=True, slots=True)
class Order:
    """A pair that waits for these models of the hub."""

    options: LoadOptions
    missing: frozenset[str]


class PairDownloads(QObject):
    """Several pairs may be on their way. `ready` comes for each when its last model is there.

    A download that fails or pauses keeps its pair waiting; one that is cancelled is given up with its pair.
    """

    ready = Signal(LoadOptions)

    def __init__(self, downloads: DownloadLink, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._downloads = downloads
        self._orders: list[Order] = []
        downloads.ended.connect(self._on_ended)

    def get(self, repos: tuple[str, ...], options: LoadOptions) -> None:
        """Download what is missing of a pair, the target first."""
        self._orders = [each for each in self._orders if each.options.target != options.target]
        self._orders.append(Order(options, frozenset(repos)))
        for repo in repos:
            self._downloads.add(Request.of(repo))

    def _on_ended(self, progress: Progress) -> None:
        repo = progress.request.source
        if progress.state is State.CANCELLED:
            self._orders = [each for each in self._orders if repo not in each.missing]
        elif progress.state is State.DONE:
            waiting = [Order(each.options, each.missing - {repo}) for each in self._orders]
            self._orders = [each for each in waiting if each.missing]
            for each in waiting:
                if not each.missing:
                    self.ready.emit(each.options)


class DownloadIndicator(QToolButton):
    """Hidden while there is nothing to tell."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("quiet")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        self.setToolTip(tr("Show the downloads"))
        self.setAccessibleName(tr("Downloads"))
        self.hide()

    def show_downloads(self, downloads: tuple[Progress, ...]) -> None:
        """Follow the queue."""
        words = in_short(downloads)
        self.setText(words)
        self.setAccessibleName(tr("Downloads: {words}").format(words=words) if words else tr("Downloads"))
        self.setVisible(bool(words))


def in_short(downloads: tuple[Progress, ...]) -> str:
    """Such as `2 downloads, 43 %`; what stands still or has failed is said, what is over is not."""
    going = [each for each in downloads if each.state.is_running or each.state is State.QUEUED]
    paused = [each for each in downloads if each.state is State.PAUSED]
    failed = [each for each in downloads if each.state is State.FAILED]
    if going:
        total = sum(each.bytes_total for each in going)
        share = f", {sum(each.bytes_done for each in going) / total:.0%}".replace("%", " %") if total else ""
        still = tr(", stalled") if all(each.state is State.STALLED for each in going) else ""
        return f"{_counted(going)}{share}{still}"
    if failed:
        return tr("{downloads} failed").format(downloads=_counted(failed))
    return tr("{downloads} paused").format(downloads=_counted(paused)) if paused else ""


def _counted(downloads: list[Progress]) -> str:
    count = len(downloads)
    return tr("1 download") if count == 1 else tr("{count} downloads").format(count=count)
