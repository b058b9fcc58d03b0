"""The hub as the window asks it, beside its own thread: searches, facts of models, and the access token."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.hub.client import HubClient
from app.hub.facts import ModelFacts, fetch_facts, prune_facts
from app.hub.failures import HubError, Reason
from app.hub.search import SearchPage, SearchQuery, SearchResults, search
from app.hub.tokens import Token, TokenOrigin, Tokens
from app.i18n.sentences import error_text, translated
from app.library.variants import VariantChoice, list_variants
from app.system.background import Stop
from app.ui.jobs import Job, Jobs, Work
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

    def __init__(self, client: HubClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._jobs = Jobs(4, "search", self)  # several: one that is cancelled may still wait for the hub
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


_AT_A_TIME = 3


class FactsController(QObject):
    """Fetches what is wanted now and forgets what no longer is; each model ends in `arrived` or `failed`, once."""

    arrived = Signal(ModelFacts)
    failed = Signal(str, CoppiceError)  # the model's name on the hub

    def __init__(self, client: HubClient, cache: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._cache = cache
        self._jobs = Jobs(_AT_A_TIME, "facts", self)
        self._jobs.start(lambda _stop: prune_facts(cache))
        self._running: dict[str, Job] = {}
        self._wanted: list[tuple[str, str]] = []
        self.known: dict[str, ModelFacts] = {}
        self.failures: dict[str, CoppiceError] = {}

    def want(self, models: Iterable[tuple[str, str]]) -> None:
        """The models in view, as (name, commit), the most urgent first; an empty commit is the newest one."""
        self._wanted = [
            (repo, revision)
            for repo, revision in models
            if repo not in self.known and repo not in self.failures and repo not in self._running
        ]
        self._start_next()

    def retry(self) -> None:
        """Let what has failed be wanted again, when the connection or the token has changed."""
        self.failures.clear()

    def close(self) -> None:
        """Cancel everything, and end the threads."""
        self._wanted.clear()
        self._jobs.close()

    def _start_next(self) -> None:
        while self._wanted and len(self._running) < _AT_A_TIME:
            repo, revision = self._wanted.pop(0)
            job = self._jobs.start(_fetch(self._client, self._cache, repo, revision))
            self._running[repo] = job
            job.done.connect(lambda facts, asked=repo: self._on_arrived(asked, facts))
            job.failed.connect(lambda error, asked=repo: self._on_failed(asked, error))

    def _on_arrived(self, repo: str, facts: ModelFacts) -> None:
        del self._running[repo]
        self.known[repo] = facts
        self.arrived.emit(facts)
        self._start_next()

    def _on_failed(self, repo: str, error: CoppiceError) -> None:
        del self._running[repo]
        self.failures[repo] = error
        if isinstance(error, HubError) and error.reason is Reason.OFFLINE:
            self._wanted.clear()  # the others would only wait for the same silence
        self.failed.emit(repo, error)
        self._start_next()


def _fetch(client: HubClient, cache: Path, repo: str, revision: str) -> Work:
    return lambda stop: fetch_facts(client, repo, cache, stop, revision)


class VariantsController(QObject):
    """Asks what variants a repository holds; one at a time is of interest, the one that is looked at."""

    arrived = Signal(str)  # the repository
    failed = Signal(str, CoppiceError)

    def __init__(self, client: HubClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._jobs = Jobs(2, "variants", self)
        self._running: tuple[str, Job] | None = None
        self.known: dict[str, tuple[VariantChoice, ...]] = {}
        self.failures: dict[str, CoppiceError] = {}

    def want(self, repo: str) -> None:
        """Look at this one, unless its variants are known or it has failed; what was looked at before is given up."""
        if self._running is not None and self._running[0] != repo:
            self._running[1].cancel()
            self._running = None
        if repo in self.known or repo in self.failures or self._running is not None:
            return
        job = self._jobs.start(lambda stop: list_variants(self._client, repo, stop))
        self._running = (repo, job)
        job.done.connect(lambda choices: self._on_arrived(repo, choices))
        job.failed.connect(lambda error: self._on_failed(repo, error))

    def retry(self) -> None:
        """Let what has failed be wanted again."""
        self.failures.clear()

    def close(self) -> None:
        """End the threads."""
        if self._running is not None:
            self._running[1].cancel()
        self._jobs.close()

    def _on_arrived(self, repo: str, choices: tuple[VariantChoice, ...]) -> None:
        self._running = None
        self.known[repo] = choices
        self.arrived.emit(repo)

    def _on_failed(self, repo: str, error: CoppiceError) -> None:
        self._running = None
        self.failures[repo] = error
        self.failed.emit(repo, error)


_SHOWN_LETTERS = 4
_LEAST_TO_SHOW = 12


class HubTokenController(QObject):
    """`told`: the token with all but its last letters hidden, where it comes from, and whether it can be removed."""

    told = Signal(str, str, bool)
    failed = Signal(str)

    def __init__(self, tokens: Tokens, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tokens = tokens
        self._jobs: Jobs | None = None

    def look(self) -> None:
        """Find the token."""
        self._start(lambda: None)

    def keep(self, secret: str) -> None:
        """Put it into the keyring."""
        self._start(partial(self._tokens.keep, secret))

    def forget(self) -> None:
        """Take it out of the keyring; another one may stay, as in the environment."""
        self._start(self._tokens.forget)

    def close(self) -> None:
        """End the thread."""
        if self._jobs is not None:
            self._jobs.close()

    def _start(self, change: Callable[[], None]) -> None:
        """Tell of the token, once it is changed."""

        def work(_stop: Stop) -> Token:
            change()
            return self._tokens.current()

        if self._jobs is None:
            self._jobs = Jobs(1, "token", self)
        job: Job = self._jobs.start(work)
        job.done.connect(self._on_found)
        job.failed.connect(self._on_failed)

    def _on_found(self, token: Token) -> None:
        origin = translated(token.origin.value)
        self.told.emit(masked(token.secret), origin, token.origin is TokenOrigin.KEYRING)

    def _on_failed(self, error: CoppiceError) -> None:
        self.failed.emit(error_text(error))


def masked(secret: str) -> str:
    """Dots and the last letters, by which its owner knows it; of a short one, dots alone."""
    if not secret:
        return ""
    return "••••••••" + (secret[-_SHOWN_LETTERS:] if len(secret) >= _LEAST_TO_SHOW else "")
