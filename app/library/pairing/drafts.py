"""Which of several models can draft for a target, why not the others, and which one to take."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from app.i18n.number_text import Number
from app.i18n.translation import tr

_BEST_RATIO = 15.0
_LEAST_RATIO, _MOST_RATIO = 8.0, 30.0
_SMALLEST_GAIN = 3.0  # below that, guessing takes about as long as it saves


class Origin(Enum):
    """Where a candidate is; what is here already comes first."""

    LOCAL = "on this computer"
    SUGGESTED = "suggested"
    HUB = "on the hub"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be a target or a draft. `source`: what the engine loads, or the hub's name of it.

    `vocabulary`: its fingerprint (see `vocabulary.fingerprint`), empty while it is not known; `bytes`: of its weights.
    """

    source: str
    name: str
    parameters: int
    bytes: int
    vocabulary: str
    origin: Origin = Origin.LOCAL


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """What is thought of one candidate. `reason` is a sentence: why it cannot be used, or what is to be known of it.

    `to_check`: nothing is known against it, but its vocabulary has not been read yet.
    """

    candidate: Candidate
    usable: bool
    reason: str
    recommended: bool = False
    to_check: bool = False


def choose_drafts(
    target: Candidate, candidates: Iterable[Candidate], room_bytes: int | None = None
) -> tuple[DraftChoice, ...]:
    """An opinion on every candidate, best first, the useless ones last; at most one is recommended.

    `room_bytes`: what is left beside the target where the draft must be; None if that is not known.
    """
    choices = [_opinion(target, each, room_bytes) for each in candidates]
    choices.sort(key=lambda choice: (not choice.usable, choice.to_check, _rank(target, choice.candidate)))
    if choices and choices[0].usable and not choices[0].to_check and _is_good(target, choices[0].candidate):
        best = choices[0]
        choices[0] = DraftChoice(best.candidate, True, best.reason, recommended=True)
    return tuple(choices)


def _opinion(target: Candidate, draft: Candidate, room_bytes: int | None) -> DraftChoice:
    if draft.source == target.source:
        return DraftChoice(draft, False, tr("It is the target itself."))
    ratio = _ratio(target, draft)
    if ratio is not None and ratio <= 1:
        return DraftChoice(draft, False, tr("It is not smaller than the target."))
    if draft.vocabulary and target.vocabulary and draft.vocabulary != target.vocabulary:
        return DraftChoice(draft, False, tr("It has another vocabulary than the target."))
    if room_bytes is not None and draft.bytes > room_bytes:
        return DraftChoice(draft, False, tr("It does not fit beside the target."))
    if not draft.vocabulary or not target.vocabulary:
        return DraftChoice(draft, True, tr("Its vocabulary has not been compared yet."), to_check=True)
    return DraftChoice(draft, True, _remark(ratio))


def _remark(ratio: float | None) -> str:
    if ratio is None:
        return tr("It has the same vocabulary.")
    same = tr("It has the same vocabulary, and is {ratio:.0f} times smaller")
    size = same.format(ratio=Number(ratio)) if ratio >= 2 else tr("It is hardly smaller")
    if ratio < _SMALLEST_GAIN:
        return tr("{size}: guessing would take about as long as it saves.").format(size=size)
    if ratio > _MOST_RATIO:
        return tr("{size}: quick, but its guesses may often be wrong.").format(size=size)
    return f"{size}."


def _is_good(target: Candidate, draft: Candidate) -> bool:
    ratio = _ratio(target, draft)
    return ratio is not None and ratio >= _SMALLEST_GAIN


def _rank(target: Candidate, draft: Candidate) -> tuple[int, bool, float]:
    """Within the good range first, those that would not pay last; then what is here, then the nearest to the best."""
    ratio = _ratio(target, draft)
    if ratio is None:
        return 1, draft.origin is not Origin.LOCAL, math.inf
    distance = 2 if ratio < _SMALLEST_GAIN else int(not _LEAST_RATIO <= ratio <= _MOST_RATIO)
    return distance, draft.origin is not Origin.LOCAL, abs(math.log(ratio / _BEST_RATIO))


def _ratio(target: Candidate, draft: Candidate) -> float | None:
    """How many times smaller the draft is; None where a size is not known."""
    return target.parameters / draft.parameters if target.parameters and draft.parameters else None
