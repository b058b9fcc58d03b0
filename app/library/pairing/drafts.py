"""Which of several models can draft for a target, why not the others, and which one to take."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.library.local.heads import NO_HEADS, HeadFacts
from app.library.pairing.vocabulary import Vocabulary
from engine.protocol.options import OWN_HEADS

_BEST_RATIO = 15.0
_LEAST_RATIO, _MOST_RATIO = 8.0, 30.0
_LEAST_COMMON, _NEARLY_ALL = 0.05, 0.99  # of the target's tokens, which are not all equally frequent
_SMALLEST_GAIN = 3.0  # below that, guessing takes about as long as it saves


class Origin(Enum):
    """Where a candidate is; what is here already comes first."""

    LOCAL = "on this computer"
    SUGGESTED = "suggested"
    HUB = "on the hub"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be a target or a draft. `source`: what the engine loads, or the hub's name of it.

    `vocabulary`: None while it is not known; `bytes`: of its weights; `heads`: what its files tell of heads; `fault`:
    why its files cannot be used by anybody, as a sentence; empty if nothing is known against them.
    """

    source: str
    name: str
    parameters: int
    bytes: int
    vocabulary: Vocabulary | None = None
    origin: Origin = Origin.LOCAL
    heads: HeadFacts = NO_HEADS
    fault: str = ""


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """What is thought of one candidate. `reason` is a sentence: why it cannot be used, or what is to be known of it.

    `to_check`: nothing is known against it, but its vocabulary has not been read yet. `common`: the share of the
    target's tokens, from 0 to 1, that a draft with another vocabulary has too; 1 with the same.
    """

    candidate: Candidate
    usable: bool
    reason: str
    recommended: bool = False
    to_check: bool = False
    common: float = 1.0

    @property
    def is_head(self) -> bool:
        """Whether it guesses from what the target has computed, so that no vocabulary of its own matters."""
        return self.candidate.source == OWN_HEADS or self.candidate.heads.is_head

    @property
    def hint(self) -> str:
        """More about it, for those who ask."""
        if self.usable and self.is_head:
            return tr(
                "A head is one small layer that guesses the next tokens from what the model has computed itself. The "
                "answer stays exactly the model's."
            )
        if not self.usable or self.common == 1.0:
            return ""
        return tr(
            "Its guesses are translated token by token, and it can only guess what both have. The answer stays exactly "
            "the target's."
        )


def choose_drafts(target: Candidate, candidates: Iterable[Candidate]) -> tuple[DraftChoice, ...]:
    """An opinion on every candidate: those of the target's vocabulary first, the useless ones last.

    At most one is recommended, of the target's vocabulary: a good model that is here; else a head, the target's own
    before others; else a model to download.
    """
    choices = [(_opinion_of_head if each.heads.is_head else _opinion)(target, each) for each in candidates]
    heads = _own_heads(target) + [each for each in choices if _is_head_here(each)]
    choices = [each for each in choices if each not in heads]
    choices.sort(
        key=lambda each: (not each.usable, each.to_check, -int(10 * each.common), _rank(target, each.candidate))
    )
    before = next((at for at, each in enumerate(choices) if not _is_good_and_here(target, each)), len(choices))
    choices[before:before] = heads
    if choices and (_is_head_here(choices[0]) or _is_good(target, choices[0])):
        choices[0] = replace(choices[0], recommended=True)
    return tuple(choices)


def _own_heads(target: Candidate) -> list[DraftChoice]:
    if not target.heads.brings_heads:
        return []
    draft = Candidate(OWN_HEADS, tr("Its own heads"), 0, 0)
    return [DraftChoice(draft, True, tr("They came with the model: there is nothing to download."))]


def _opinion_of_head(target: Candidate, head: Candidate) -> DraftChoice:
    if head.fault:
        return DraftChoice(head, False, head.fault)
    if not target.heads.hidden:
        return DraftChoice(head, True, tr("It is a head, and the model's size is not known yet."), to_check=True)
    if head.heads.fits(target.heads):
        return DraftChoice(head, True, tr("It is a head that was made for a model of this size."))
    return DraftChoice(head, False, tr("It is a head that was made for a model of another size."))


def _opinion(target: Candidate, draft: Candidate) -> DraftChoice:
    if fault := tr("It is the target itself.") if draft.source == target.source else draft.fault:
        return DraftChoice(draft, False, fault)
    ratio = _ratio(target, draft)
    if ratio is not None and ratio <= 1:
        return DraftChoice(draft, False, tr("It is not smaller than the target."))
    common = 1.0
    if draft.vocabulary and target.vocabulary and draft.vocabulary.fingerprint != target.vocabulary.fingerprint:
        common = min(_NEARLY_ALL, target.vocabulary.share_in(draft.vocabulary))
    if common < _LEAST_COMMON:
        few = tr("It has another vocabulary: only about {percent} % of the target's tokens are in it.")
        return DraftChoice(draft, False, few.format(percent=int(100 * common)), common=common)
    if not draft.vocabulary or not target.vocabulary:
        return DraftChoice(draft, True, tr("Its vocabulary has not been compared yet."), to_check=True)
    return DraftChoice(draft, True, _remark(ratio, common), common=common)


def _remark(ratio: float | None, common: float) -> str:
    percent = int(100 * common)
    if ratio is None:
        other = tr("It has another vocabulary, with about {percent} % of the target's tokens.").format(percent=percent)
        return tr("It has the same vocabulary.") if common == 1.0 else other
    size = tr("It has the same vocabulary, and is {ratio:.0f} times smaller").format(ratio=Number(ratio))
    if common < 1.0:
        size = tr("It has about {percent} % of the target's tokens, and is {ratio:.0f} times smaller").format(
            percent=percent, ratio=Number(ratio)
        )
    size = size if ratio >= 2 else tr("It is hardly smaller")
    if ratio < _SMALLEST_GAIN:
        return tr("{size}: guessing would take about as long as it saves.").format(size=size)
    if ratio > _MOST_RATIO:
        return tr("{size}: quick, but its guesses may often be wrong.").format(size=size)
    return f"{size}."


def _is_good(target: Candidate, choice: DraftChoice) -> bool:
    """Whether it is known to mean the same by its tokens, and to be small enough to pay."""
    ratio = _ratio(target, choice.candidate)
    is_same = choice.usable and not choice.to_check and choice.common == 1.0
    return is_same and ratio is not None and ratio >= _SMALLEST_GAIN


def _is_head_here(choice: DraftChoice) -> bool:
    known = choice.usable and not choice.to_check
    return known and choice.is_head and choice.candidate.origin is Origin.LOCAL


def _is_good_and_here(target: Candidate, choice: DraftChoice) -> bool:
    return choice.candidate.origin is Origin.LOCAL and _is_good(target, choice)


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
