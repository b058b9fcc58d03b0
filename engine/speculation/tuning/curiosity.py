"""How often what is not expected to be the best is looked at all the same: it may have been misjudged."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.speculation.tuning.plan import Plan

LOST = 0.015
LOST_BY_FREE = 0.02  # the part of a round that a look loses at least if its tree may size itself,
LOST_BY_FIXED = 0.1  # and if it may not


@dataclass(frozen=True, slots=True)
class Look:
    """A plan to try, under a name that stays the same while the plan changes.

    `is_free`: its tree may size itself; `hope`: how many times as much it may give as it promises.
    """

    name: str
    plan: Plan
    is_free: bool = False
    hope: float = 1.0

    def loss(self, best: Plan) -> float:
        """Seconds that are expected to be lost by it."""
        plan = self.plan
        least = LOST_BY_FREE if self.is_free else LOST_BY_FIXED
        return max(least * plan.seconds, plan.seconds - self.hope * plan.tokens / best.rate, 1e-9)


class Curiosity:
    """Everything there is to look at has a purse of its own, and the time that may be lost is shared out evenly.

    So what is cheap to look at is looked at often, and what is dear seldom; neither keeps the other waiting.
    """

    def __init__(self) -> None:
        self._purses: dict[str, float] = {}  # seconds
        self._names: Sequence[str] = ()

    def earn(self, seconds: float) -> None:
        """So much time has gone by."""
        for name in self._names:
            self._purses[name] += LOST * seconds / len(self._names)

    def forget(self) -> None:
        """All purses are empty."""
        self._purses, self._names = {}, ()

    def choose(self, looks: Sequence[Look], best: Plan) -> Look | None:
        """What least was lost by so far of those that can be paid for, if any; it is paid."""
        for look in looks:
            self._purses.setdefault(look.name, 0.0)
        self._names = [look.name for look in looks]
        affordable = [look for look in looks if self._purses[look.name] >= look.loss(best)]
        due = max(affordable, key=lambda look: self._purses[look.name], default=None)
        if due:
            self._purses[due.name] -= due.loss(best)
        return due
