"""Facts of the models that a person looks at, fetched a few at a time, newest wish first."""

from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.hub.client import HubClient
from app.hub.facts import ModelFacts, fetch_facts, prune_facts
from app.hub.failures import HubError, Reason
from app.ui.jobs import Job, Jobs, Work
from engine.errors import CoppiceError

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
