"""What engines elsewhere tell in figures, within bounds: they may send any number, and none must make counting fail."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from engine.protocol.messages import Seconds, Statistics, Steps

MOST = 2**31 - 1  # of anything that is counted: Qt's translations take no larger count
MOST_SECONDS = 1e9
KEPT_STEPS = 4096  # of an answer; of those before them only the sums are kept
LONGEST = 64  # accepted tokens of a step; those with more are counted as so many


def plausible(statistics: Statistics) -> Statistics:
    """The same figures, each at least 0, finite, and small enough to be shown."""
    counts: dict[str, Any] = {
        each.name: _count(value)
        for each in fields(Statistics)
        if isinstance(value := getattr(statistics, each.name), int)
    }
    seconds = {each.name: _seconds(getattr(statistics.seconds, each.name)) for each in fields(Seconds)}
    first = _seconds(statistics.first_token_seconds)
    return replace(statistics, **counts, first_token_seconds=first, seconds=Seconds(**seconds))


def acceptance_of(told: Statistics) -> float | None:
    """Accepted tokens of those that were drafted, from 0 to 1, by the sums of an answer; None where they are not told.

    A pass gives one token of its own besides those that were accepted.
    """
    if not told.drafted_nodes or not told.passes:
        return None
    return min(1.0, max(0, told.new_tokens - told.passes) / told.drafted_nodes)


class StepHistory:
    """The steps of one answer. `newest`: (drafted, accepted) of each, oldest first; sums are of all there were.

    `by_accepted` [LONGEST + 1]: steps by how many drafted tokens they accepted. `reached` and `went_on` [LONGEST]:
    steps that had a drafted token at each place behind accepted ones, and those in which it was accepted.
    """

    def __init__(self) -> None:
        self.newest: deque[tuple[int, int]] = deque(maxlen=KEPT_STEPS)
        self.count = 0
        self.drafted = 0
        self.accepted = 0
        self.by_accepted = [0] * (LONGEST + 1)
        self.reached = [0] * LONGEST
        self.went_on = [0] * LONGEST

    def add(self, told: Steps) -> None:
        """Take what an engine told; a step never accepts more than it drafted."""
        for drafted, accepted in zip(_counts(told.drafted), _counts(told.accepted), strict=False):
            self._add(drafted, min(drafted, accepted))

    def _add(self, drafted: int, accepted: int) -> None:
        self.newest.append((drafted, accepted))
        self.count += 1
        self.drafted += drafted
        self.accepted += accepted
        self.by_accepted[min(accepted, LONGEST)] += 1
        for place in range(min(accepted + 1, drafted, LONGEST)):
            self.reached[place] += 1
            self.went_on[place] += place < accepted

    @property
    def tokens_per_step(self) -> float:
        """What a step gave to the answer: the accepted tokens, and the target's own; 0 without any step."""
        return 1 + self.accepted / self.count if self.count else 0.0

    @property
    def acceptance(self) -> float:
        """Of all drafted tokens, those accepted, from 0 to 1."""
        return self.accepted / self.drafted if self.drafted else 0.0


def _counts(told: Iterable[object]) -> Iterable[int]:
    return (_count(each) for each in told)


def _count(told: object) -> int:
    """A number of things as it can be one: 0 for what is none."""
    if isinstance(told, float) and math.isfinite(told):
        told = int(told)
    return min(max(told, 0), MOST) if isinstance(told, int) else 0


def _seconds(told: object) -> float:
    if not isinstance(told, int | float) or math.isnan(told):
        return 0.0
    return float(min(max(told, 0), MOST_SECONDS))
