"""How long drafting takes: so much for a tree, a level and a node, learnt online from noisy measurements."""

from itertools import combinations

import numpy as np

from engine.speculation.trees.arrays import State, figure, figures, shortened

FADING = 0.96  # what an old measurement counts for when the next one arrives
SPIKE = 1.5  # a measurement farther off, by this factor, counts only up to there
FEW = 4  # first measurements, which are checked against each other
CALM = 1.0 + np.diag([0.02, 0.0, 0.001])  # how far to believe, while little is known, that trees and nodes cost nothing
LEAST_SECONDS = 1e-6  # what can be told from nothing
CAUSES = [cause for count in (1, 2, 3) for cause in combinations(range(3), count)]  # that may not be 0, together


class DraftPace:
    """Seconds = a + b levels + c nodes, none below 0: a level is a pass of the draft, and wider ones take longer.

    What a tree takes whatever its size, such as reading what was written meanwhile, must not be laid to its levels:
    where only small trees are seen now and then, deep ones would be thought far too dear, and never tried.

    Least squares of relative errors, so that small trees tell as much as large ones.
    """

    def __init__(self) -> None:
        self._seen = 0.0
        self._products = np.zeros((3, 3))  # of (1, levels, nodes) with each other, and with the seconds
        self._seconds = np.zeros(3)
        self._first: list[tuple[int, int, float]] = []  # levels, nodes and seconds of the first measurements
        self._costs: tuple[float, float, float] | None = None

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        return {
            "seen": shortened(self._seen),
            "products": shortened(self._products),
            "seconds": shortened(self._seconds),
        }

    @classmethod
    def restored(cls, state: State) -> "DraftPace":
        """As it was kept, but for no more than `FEW` measurements; raises for what is no state."""
        pace = cls()
        seen = figure(state["seen"], 0.0)
        share = min(FEW / seen, 1.0) if seen else 1.0
        pace._seen = share * seen
        pace._products = share * figures(state["products"], (3, 3), 0.0)
        pace._seconds = share * figures(state["seconds"], (3,), 0.0)
        return pace

    def observe(self, levels: int, nodes: int, seconds: float) -> None:
        """One tree of at least one level."""
        self._costs = None
        if self._seen == len(self._first) < FEW:
            self._first.append((levels, nodes, seconds))
            self._seen, self._products, self._seconds = 0.0, np.zeros((3, 3)), np.zeros(3)
            for tree in self._first:
                seconds = self._plausible(*tree)
                self._add(*tree[:2], seconds, seconds, 1.0)
            return
        expected = self.seconds(levels, nodes)
        seconds = min(seconds, expected * SPIKE)
        if self._seen > FEW:
            seconds = max(seconds, expected / SPIKE)
        self._add(levels, nodes, seconds, min(seconds, expected), FADING)

    def _plausible(self, levels: int, nodes: int, seconds: float) -> float:
        """Seconds of one of the first trees: no more than in proportion to another one, which bounds a slow start."""
        others = (
            other_seconds * max(1.0, levels / other_levels, nodes / other_nodes)
            for other_levels, other_nodes, other_seconds in self._first
        )
        return min(seconds, SPIKE * min(others))

    def _add(self, levels: int, nodes: int, seconds: float, scale: float, fading: float) -> None:
        """The error counts relative to `scale`, what was expected, or less where a wrong beginning is to be left."""
        scale = max(scale, LEAST_SECONDS)
        size = np.array([1, levels, nodes]) / scale
        self._products = self._products * fading + np.outer(size, size)
        self._seconds = self._seconds * fading + size * seconds / scale
        self._seen = self._seen * fading + 1.0

    def seconds(self, levels: float, nodes: float) -> float:
        """Of drafting such a tree; 0 if nothing was measured."""
        tree, level, node = self.costs
        return tree + level * levels + node * nodes

    @property
    def longest(self) -> float:
        """Seconds of the slowest of the first trees; 0 if none of them was seen here."""
        return max((seconds for _, _, seconds in self._first), default=0.0)

    @property
    def costs(self) -> tuple[float, float, float]:
        """Seconds of a tree, of a level and of a node; 0 if nothing was measured."""
        self._costs = self._costs or self._fitted()
        return self._costs

    def _fitted(self) -> tuple[float, float, float]:
        """The best of all that some of the three explain, if none of these comes out below 0."""
        products, best, least = self._products * CALM, np.zeros(3), 0.0
        for causes in map(list, CAUSES if self._products.any() else ()):
            found = np.linalg.solve(products[np.ix_(causes, causes)], self._seconds[causes])
            error = -float(found @ self._seconds[causes])  # up to what is the same for all
            if (found >= 0.0).all() and error < least:
                best, least = np.zeros(3), error
                best[causes] = found
        tree, level, node = best.tolist()
        return tree, level, node
