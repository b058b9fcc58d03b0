"""How large trees are whose shape must stand before anything is drawn, where every node brings experts of its own."""

from dataclasses import dataclass

import numpy as np

from engine.speculation.experts.routed_sets import expected_distinct
from engine.speculation.trees.tree_program import MOST_LEVELS, AcceptanceVector, program_for


@dataclass(frozen=True, slots=True)
class Mixture:
    """A target whose layers have `count` experts, of which a token is routed to `chosen`.

    `share`: of what a pass over one token reads, what its experts are; `draft`: what a pass of the draft reads,
    in passes over one token.
    """

    count: int
    chosen: int
    share: float
    draft: float

    def relative_seconds(self, rows: float) -> float:
        """Of a pass over so many rows that are routed independently, in passes over one.

        As if reading weights were all that takes time, and each expert were read that some row touches.
        """
        touched = float(expected_distinct(self.count, self.chosen, np.array([rows]))[0])
        return 1.0 - self.share + self.share * touched / self.chosen


def size_for(mixture: Mixture, acceptance: AcceptanceVector, most: int, deepest: int) -> tuple[int, int]:
    """The nodes and levels that cost the least time per token, of at most `most` drafted nodes in `deepest` levels.

    They follow from the models and the acceptance alone, so that the same seed gives the same text on any machine.
    """
    program = program_for(acceptance, most + 1, min(deepest + 1, MOST_LEVELS))
    return program.best_size(lambda _: mixture.draft, mixture.relative_seconds, deepest, most)
