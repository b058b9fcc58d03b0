"""How long drafting takes: so much for every level, so much for every node, learnt online from noisy measurements."""

import numpy as np

from engine.speculation.figures import State, figure, figures, shortened

FADING = 0.96  # what an old measurement counts for when the next one arrives
SPIKE = 1.5  # a measurement farther off, by this factor, counts only up to there
KNOWN = 3.0  # measurements before anything is taken for a spike
CALM = 1e-3  # how far to believe, as long as little is known, that a node costs nothing
LEAST_SECONDS = 1e-6  # what can be told from nothing


class DraftPace:
    """Seconds = a levels + b nodes, a and b from 0 on: a level is a pass of the draft, and wider ones take longer.

    Least squares of relative errors, so that small trees tell as much as large ones.
    """

    def __init__(self) -> None:
        self._seen = 0.0
        self._products = np.zeros((2, 2))  # of (levels, nodes) with each other, and with the seconds
        self._seconds = np.zeros(2)

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
        """As it was kept; raises for what is no state."""
        pace = cls()
        pace._seen = figure(state["seen"], 0.0)
        pace._products, pace._seconds = figures(state["products"], (2, 2), 0.0), figures(state["seconds"], (2,), 0.0)
        return pace

    def observe(self, levels: int, nodes: int, seconds: float) -> None:
        """One tree of at least one level."""
        expected = self.seconds(levels, nodes)
        if self._seen > KNOWN:
            seconds = min(max(seconds, expected / SPIKE), expected * SPIKE)
        size = np.array([levels, nodes]) / max(expected or seconds, LEAST_SECONDS)
        self._products = self._products * FADING + np.outer(size, size)
        self._seconds = self._seconds * FADING + size * seconds / max(expected or seconds, LEAST_SECONDS)
        self._seen = self._seen * FADING + 1.0

    def seconds(self, levels: float, nodes: float) -> float:
        """Of drafting such a tree; 0 if nothing was measured."""
        level, node = self.costs
        return level * levels + node * nodes

    @property
    def costs(self) -> tuple[float, float]:
        """Seconds of a level and of a node; 0 if nothing was measured."""
        (levels, both), (_, nodes) = self._products
        if not levels:
            return 0.0, 0.0
        by_levels, by_nodes = self._seconds
        nodes *= 1.0 + CALM
        determinant = levels * nodes - both**2
        node = (by_nodes * levels - by_levels * both) / determinant
        if node <= 0.0:
            return float(by_levels / levels), 0.0
        level = (by_levels * nodes - by_nodes * both) / determinant
        return (float(level), float(node)) if level > 0.0 else (0.0, float(by_nodes / nodes))
