"""What drafting and verifying cost in tokens, so that a tree can tell by itself how large it is worth being."""

from dataclasses import dataclass, field

import numpy as np

from engine.speculation.trees.arrays import Numbers
from engine.speculation.trees.monotone import isotonic


@dataclass(frozen=True, eq=False, slots=True)
class MarginalCost:
    """Tokens that could have been written in the time that something takes, at the rate that is paid for it.

    A tree's worth is the tokens to be expected of it, its chances summed up, less its price. Where the rate is the best
    that can be had, no other trees give more tokens per second than those of the highest worth (Dinkelbach, 1967). So
    every tree is as large as its own text lets it be, and an error in the rate costs little.

    `level`: of one draft pass, and `node`: of a node in it; `carried`: how much of the chance of reaching a level is
    still found in the next one; `rows`: float64 [n + 1], rising, of a pass of the target over the root and 0 to n
    nodes, with what drafting these nodes takes.
    """

    level: float
    node: float
    carried: float
    rows: Numbers
    _hull: Numbers = field(init=False)  # the lower convex hull of `rows`

    def __post_init__(self) -> None:
        slopes = isotonic(np.diff(self.rows).tolist(), [1.0] * (len(self.rows) - 1))
        object.__setattr__(self, "_hull", self.rows[0] + np.concatenate([[0.0], np.cumsum(slopes)]))

    def best_size(self, chances: Numbers) -> int:
        """How many of the likeliest nodes are worth a row of the target's pass; chances: float64 [n], descending."""
        return _most_worth(chances, self.rows)

    def hopeful_size(self, chances: Numbers) -> int:
        """The same while more nodes are to come: a row that is dear if it is the last must not end the tree early.

        So what the first nodes cost more is shared by all that may follow.
        """
        return _most_worth(chances, self._hull)

    def is_worth_reading(self, chances: Numbers) -> bool:
        """Whether one more draft pass is expected to pay, over nodes that are reached with these chances.

        Of what it finds behind a node, only what is more than the least that a row costs.
        """
        found = (self.carried * chances - np.diff(self._hull[:2]).sum()).clip(0.0)
        return float(found.sum()) > self.level + self.node * len(chances)


def _most_worth(chances: Numbers, rows: Numbers) -> int:
    gains = np.concatenate([[0.0], chances[: len(rows) - 1].cumsum()])
    return int((gains - rows[: len(gains)]).argmax())
