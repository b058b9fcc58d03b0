"""Which models come into question as drafts for a target: those that are here, those suggested, those found."""

from collections.abc import Iterable, Sequence

from app.hub.search import ModelRow
from app.i18n.translation import tr
from app.library.draft_finder import Placed
from app.library.local.models import LocalModel
from app.library.pairing.drafts import Candidate, Origin
from app.library.suggestions import SuggestedModel, Suggestion
from app.system.paths import resource
from engine.protocol.options import EMBEDDED

_DEMO_BYTES = 2_257_720
_BYTES_PER_PARAMETER = 2  # of models whose files nobody has counted
_MOST_FROM_HUB = 6
_LEAST_RATIO = 2


def local_candidate(model: LocalModel) -> Placed:
    """A model that is here; its parameters are guessed from its size."""
    parameters = model.bytes // _BYTES_PER_PARAMETER
    return Placed(Candidate(model.source, model.name, parameters, model.bytes, ""), model.folder)


def demo_candidate(target: str) -> Placed:
    """The embedded draft, as the engine knows it beside this target."""
    source = "auto" if target == EMBEDDED else EMBEDDED
    parameters = _DEMO_BYTES // _BYTES_PER_PARAMETER
    draft = Candidate(source, tr("Embedded demo draft"), parameters, _DEMO_BYTES, "")
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
        candidate = Candidate(each.repo, each.repo, each.parameters, each.bytes, "", Origin.SUGGESTED)
        remote.setdefault(each.repo, Placed(candidate))
    for row in rows:
        if row.usable and row.model_type == family and 0 < row.parameters * _LEAST_RATIO <= target.parameters:
            candidate = Candidate(row.repo, row.repo, row.parameters, row.weight_bytes, "", Origin.HUB)
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
