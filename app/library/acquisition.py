"""Downloads the models of a pair, and says when the pair can be loaded."""

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from app.downloads.progress import Progress, Request, State
from app.library.download_link import DownloadLink
from engine.protocol.options import LoadOptions


@dataclass(frozen=True, slots=True)
class Order:
    """A pair that waits for these models of the hub."""

    options: LoadOptions
    missing: frozenset[str]


class Acquisition(QObject):
    """Several pairs may be on their way. `ready` comes for each when its last model is there.

    A download that fails or pauses keeps its pair waiting; one that is cancelled ends the wish.
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
            self._downloads.add(Request(repo))

    def options_for(self, repo: str) -> LoadOptions | None:
        """The pair that a model is being fetched for, if there is one."""
        return next((each.options for each in self._orders if repo in each.missing), None)

    def _on_ended(self, progress: Progress) -> None:
        repo = progress.request.repo_id
        if progress.state is State.CANCELLED:
            self._orders = [each for each in self._orders if repo not in each.missing]
        elif progress.state is State.DONE:
            waiting = [Order(each.options, each.missing - {repo}) for each in self._orders]
            self._orders = [each for each in waiting if each.missing]
            for each in waiting:
                if not each.missing:
                    self.ready.emit(each.options)
