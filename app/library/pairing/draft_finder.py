"""Finds drafts for a target: those here, suggested or found on the hub, compared by vocabulary beside the window."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.hub.client import HubClient
from app.hub.facts import ModelFacts, fetch_facts
from app.hub.failures import HubError
from app.hub.formats import parameters_in
from app.hub.search import ModelRow
from app.i18n.sentences import error_text, translated
from app.i18n.translation import tr
from app.library.local.heads import HeadFacts, read_candidate, read_target
from app.library.local.models import LocalModel
from app.library.pairing.drafts import Candidate, DraftChoice, Origin, choose_drafts
from app.library.pairing.suggestions import SuggestedModel, Suggestion
from app.library.pairing.vocabulary import VocabularyCache
from app.system.background import Stop
from app.system.paths import resource
from app.ui.jobs import Job, Jobs
from engine.protocol.options import EMBEDDED


@dataclass(frozen=True, slots=True)
class Placed:
    """A candidate and where its tokenizer is: in `folder`, or, without one, on the hub at `revision`."""

    candidate: Candidate
    folder: Path | None = None
    revision: str = ""


@dataclass(frozen=True, slots=True)
class _Read:
    """A candidate as it was read, with its facts if it is on the hub.

    What could not be read is at fault if it is here; what is on the hub may be had later.
    """

    candidate: Candidate
    facts: ModelFacts | None = None
    failure: str = ""


class DraftFinder(QObject):
    """One target at a time. `found` comes at once with what is known, and again when vocabularies have been read."""

    found = Signal(str, tuple)  # the target's source, and the `DraftChoice`s

    def __init__(self, client: HubClient, book: VocabularyCache, cache: Path, parent: QObject | None = None) -> None:
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
        drafts = (self._read(each, read_candidate, from_hub, stop) for each in candidates)
        return self._read(target, read_target, from_hub, stop), *drafts

    def _read(self, placed: Placed, read_heads: Callable[[Path], HeadFacts], from_hub: bool, stop: Stop) -> _Read:
        """The candidate with its vocabulary and what is known of heads, as far as that can be had."""
        stop.check()
        candidate, facts = placed.candidate, None
        try:
            if placed.folder is not None:
                candidate = replace(candidate, heads=read_heads(placed.folder))
                vocabulary = self._book.of_folder(placed.folder)
            elif from_hub:
                facts = fetch_facts(self._client, candidate.source, self._cache, stop, placed.revision)
                candidate = replace(candidate, heads=read_heads(facts.folder))
                vocabulary = self._book.of_remote(self._client, facts, stop)
            else:
                vocabulary = None
        except (HubError, OSError, ValueError) as error:
            why = translated(error.message) if isinstance(error, HubError) else f"{error_text(error).rstrip('.')}."
            failure = tr("Its vocabulary cannot be read: {reason}").format(reason=why)
            if placed.folder is not None:
                candidate = replace(candidate, fault=candidate.fault or failure)
            return _Read(candidate, facts, failure)
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


_DEMO_BYTES = 2_257_720
_BYTES_PER_PARAMETER = 2  # of models whose files nobody has counted
_MOST_FROM_HUB = 6
_LEAST_RATIO = 2


def local_candidate(model: LocalModel) -> Placed:
    """A model that is here; its parameters are guessed from its size and the format of its weights."""
    parameters = parameters_in(model.bytes, model.format)
    return Placed(Candidate(model.source, model.name, parameters, model.bytes), model.place)


def demo_candidate(target: str) -> Placed:
    """The embedded draft, as the engine knows it beside this target."""
    source = "auto" if target == EMBEDDED else EMBEDDED
    parameters = _DEMO_BYTES // _BYTES_PER_PARAMETER
    draft = Candidate(source, tr("Embedded demo draft"), parameters, _DEMO_BYTES)
    return Placed(draft, resource("models", "demo-draft"))


def draft_candidates(
    target: Candidate,
    family: str,
    here: Iterable[LocalModel],
    suggested: Sequence[Suggestion],
    rows: Iterable[ModelRow],
) -> tuple[Placed, ...]:
    """Every model on this computer, then a few of the hub's: a suggested pair's draft first, never one that is here."""
    local = [local_candidate(each) for each in here if not each.problem and each.source != target.source]
    known = {target.source, *(each.candidate.source for each in local)}
    if target.source == EMBEDDED:
        return (demo_candidate(target.source), *local)
    remote: dict[str, Placed] = {}
    for each in _suggested_drafts(target, suggested):
        candidate = Candidate(each.repo, each.repo, each.parameters, each.bytes, None, Origin.SUGGESTED)
        remote.setdefault(each.repo, Placed(candidate))
    for row in rows:
        if row.has_safetensors and row.model_type == family and 0 < row.parameters * _LEAST_RATIO <= target.parameters:
            candidate = Candidate(row.repo, row.repo, row.parameters, row.weight_bytes, None, Origin.HUB)
            remote.setdefault(row.repo, Placed(candidate, revision=row.revision))
    fitting = [each for repo, each in remote.items() if repo not in known]
    return (*local, *fitting[:_MOST_FROM_HUB], demo_candidate(target.source))


def _suggested_drafts(target: Candidate, suggested: Sequence[Suggestion]) -> list[SuggestedModel]:
    """The draft of the target's own pair, then smaller models of the same owner."""
    own = [each.draft for each in suggested if each.target.repo == target.source and each.draft is not None]
    owner = target.source.partition("/")[0]
    models = [model for each in suggested for model in (each.draft, each.target) if model is not None]
    others = [
        model
        for model in models
        if model.repo.partition("/")[0] == owner and model.parameters * _LEAST_RATIO <= target.parameters
    ]
    return own + sorted(others, key=lambda model: model.parameters)
