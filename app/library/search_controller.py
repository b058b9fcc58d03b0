"""The search as the dialog sees it: one question at a time, pages as they are asked for, and states for everything."""

from dataclasses import dataclass
from enum import Enum

from PySide6.QtCore import QObject, Signal

from app.hub.client import HubClient
from app.hub.failures import HubError, Reason
from app.hub.search import SearchPage, SearchQuery, SearchResults, search
from app.ui.jobs import Job, Jobs
from engine.errors import CoppiceError


class SearchPhase(Enum):
    """Where a search stands."""

    IDLE = "idle"
    SEARCHING = "searching"
    DONE = "done"
    OFFLINE = "offline"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SearchState:
    """`more`: there is another page; `error`: why there is not, when offline or failed."""

    phase: SearchPhase = SearchPhase.IDLE
    more: bool = False
    error: CoppiceError | None = None


class SearchController(QObject):
    """Searches the hub; a new question makes the answers to the one before unheard. Debouncing is the caller's."""

    cleared = Signal()
    rows_added = Signal(int, int)  # first place, and the one behind the last
    state_changed = Signal(SearchState)

    def __init__(self, client: HubClient, parent: QObject | None = None, at_a_time: int = 4) -> None:
        super().__init__(parent)
        self._client = client
        self._jobs = Jobs(at_a_time, "search", self)  # several: one that is cancelled may still wait for the hub
        self._job: Job | None = None
        self._query = SearchQuery()
        self.results = SearchResults()
        self.state = SearchState()

    def search(self, query: SearchQuery) -> None:
        """Ask a new question; what was found before is forgotten."""
        self.cancel()
        self._query = query
        self.results.clear()
        self.cleared.emit()
        self._ask("")

    def more(self) -> None:
        """The next page, if there is one; also after a failure, which then is tried again."""
        if self.state.phase is SearchPhase.SEARCHING:
            return
        if self.results.next_page or not len(self.results):
            self._ask(self.results.next_page)

    def cancel(self) -> None:
        """Give up what is being asked."""
        if self._job is not None:
            self._job.cancel()
            self._job = None
            self._change(SearchState(SearchPhase.IDLE, more=bool(self.results.next_page)))

    def close(self) -> None:
        """End the threads."""
        self.cancel()
        self._jobs.close()

    def _ask(self, next_page: str) -> None:
        client, query = self._client, self._query
        self._job = self._jobs.start(lambda stop: search(client, query, stop, next_page))
        self._job.done.connect(self._on_page)
        self._job.failed.connect(self._on_failed)
        self._change(SearchState(SearchPhase.SEARCHING))

    def _on_page(self, page: SearchPage) -> None:
        self._job = None
        added = self.results.add(page)
        if added:
            self.rows_added.emit(added.start, added.stop)
        self._change(SearchState(SearchPhase.DONE, more=bool(self.results.next_page)))

    def _on_failed(self, error: CoppiceError) -> None:
        self._job = None
        offline = isinstance(error, HubError) and error.reason is Reason.OFFLINE
        phase = SearchPhase.OFFLINE if offline else SearchPhase.FAILED
        self._change(SearchState(phase, more=bool(self.results.next_page), error=error))

    def _change(self, state: SearchState) -> None:
        if state != self.state:
            self.state = state
            self.state_changed.emit(state)
