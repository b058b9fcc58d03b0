"""Finds drafts for a target: reads vocabularies beside the window, those on this computer first, then the hub's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.hub.client import HubClient
from app.hub.facts import ModelFacts, fetch_facts
from app.hub.trouble import HubError
from app.i18n.known_sentences import translated
from app.i18n.translation import tr
from app.library.pairing.drafts import Candidate, DraftChoice, choose_drafts
from app.library.pairing.vocabulary import VocabularyBook
from app.system.background import Stop
from app.ui.jobs import Job, Jobs


@dataclass(frozen=True, slots=True)
class Placed:
    """A candidate and where its tokenizer is: in `folder`, or, without one, on the hub at `revision`."""

    candidate: Candidate
    folder: Path | None = None
    revision: str = ""


@dataclass(frozen=True, slots=True)
class _Read:
    """A candidate as it was read, with its facts if it is on the hub."""

    candidate: Candidate
    facts: ModelFacts | None = None
    failure: str = ""


class DraftFinder(QObject):
    """One target at a time. `found` comes at once with what is known, and again when vocabularies have been read."""

    found = Signal(str, tuple)  # the target's source, and the `DraftChoice`s

    def __init__(self, client: HubClient, book: VocabularyBook, cache: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._book = book
        self._cache = cache
        self._jobs = Jobs(2, "vocabularies", self)
        self._job: Job | None = None
        self.facts: dict[str, ModelFacts] = {}  # of the candidates that are on the hub

    def look(self, target: Placed, candidates: Sequence[Placed], may_ask_hub: bool) -> None:
        """Compare with all of these; without `may_ask_hub` only with what is on this computer."""
        self.cancel()
        self._start(target, tuple(candidates), False, may_ask_hub)

    def cancel(self) -> None:
        """Nobody looks at that target any more."""
        if self._job is not None:
            self._job.cancel()
            self._job = None

    def close(self) -> None:
        """End the threads."""
        self.cancel()
        self._jobs.close()

    def _start(self, target: Placed, candidates: tuple[Placed, ...], from_hub: bool, then_hub: bool) -> None:
        self._job = self._jobs.start(lambda stop: self._read_all(target, candidates, from_hub, stop))
        self._job.done.connect(lambda read: self._on_read(target, candidates, read, then_hub))

    def _read_all(
        self, target: Placed, candidates: tuple[Placed, ...], from_hub: bool, stop: Stop
    ) -> tuple[_Read, ...]:
        return tuple(self._read(each, from_hub, stop) for each in (target, *candidates))

    def _read(self, placed: Placed, from_hub: bool, stop: Stop) -> _Read:
        """The candidate with its vocabulary, as far as that can be had."""
        stop.check()
        candidate, facts = placed.candidate, None
        try:
            if placed.folder is not None:
                vocabulary = self._book.of_folder(placed.folder)
            elif from_hub:
                facts = fetch_facts(self._client, candidate.source, self._cache, stop, placed.revision)
                vocabulary = self._book.of_remote(self._client, facts, stop)
            else:
                vocabulary = ""
        except (HubError, OSError, ValueError) as error:
            why = translated(error.message) if isinstance(error, HubError) else f"{error}."
            return _Read(candidate, facts, tr("Its vocabulary cannot be read: {reason}").format(reason=why))
        size = candidate.bytes or (facts.weight_bytes if facts else 0)
        return _Read(replace(candidate, vocabulary=vocabulary, bytes=size), facts)

    def _on_read(self, target: Placed, candidates: tuple[Placed, ...], read: tuple[_Read, ...], then_hub: bool) -> None:
        self._job = None
        self.facts |= {each.candidate.source: each.facts for each in read if each.facts is not None}
        failures = {each.candidate.source: each.failure for each in read if each.failure}
        choices: tuple[DraftChoice, ...] = tuple(
            replace(each, reason=failures.get(each.candidate.source, each.reason)) if each.to_check else each
            for each in choose_drafts(read[0].candidate, [each.candidate for each in read[1:]])
        )
        self.found.emit(target.candidate.source, choices)
        if then_hub and any(each.folder is None for each in (target, *candidates)):
            self._start(target, candidates, True, False)
