"""How many tokens a pass will give, for trees of every size and depth, from the scores of the trees seen so far."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine.speculation.tree import Path, Tree

BUDGETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
FADING = 0.985  # what a tree counts for when the next one is seen; texts have easy and hard parts, longer than trees
RECENT = 0.95  # the same, for what was really accepted
TOKENS_TO_DOUBT = 20.0  # what the scores promise counts for against what is accepted
LEAST_GAIN, MOST_GAIN = 0.3, 0.95  # beyond the sizes seen: the gain of a step of BUDGETS over that of the step before


class Expectation:
    """Tokens per pass against budget and depth, for one way of drafting.

    A node's score is the logarithm of the chance that it is accepted, so a tree of the best n nodes is expected to
    give 1 + their sum of chances. Every tree tells that for all smaller budgets and depths at once. Beyond the
    largest tree the gains go on shrinking as they did. What was really accepted corrects the level of it all.

    A large tree begins where the one before it failed, at a hard place, and a small one often in the middle of an easy
    one. So for smaller budgets than its own a tree counts the less, the smaller they are.
    """

    def __init__(self) -> None:
        shape = (len(BUDGETS), len(DEPTHS))
        self._gains: NDArray[np.float64] = np.zeros(shape)  # of a budget over the one before it in BUDGETS
        self._weights: NDArray[np.float64] = np.zeros(shape)
        self._accepted = self._promised = 0.0
        self._table: NDArray[np.float64] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no tree was seen yet."""
        return not self._weights.any()

    def observe(self, tree: Tree, path: Path, budget: int, depth: int) -> None:
        """A tree that was grown with these limits, and what was accepted of it."""
        chances = np.exp(np.asarray((tree.scores or tree.log_probs)[1:]))
        depths = np.asarray(tree.depths[1:])
        deepest = int(depths.max(initial=0))
        for column, limit in enumerate(DEPTHS):
            if limit > depth and deepest >= depth:
                break  # a deeper tree might have had more
            within = np.sort(chances[depths <= limit])[::-1]
            # A tree that stayed smaller than its budget had nothing more to offer.
            known = budget if limit >= deepest else len(within)
            rows = sum(size <= known for size in BUDGETS)
            if not rows:
                continue
            sums = np.concatenate([[0.0], within.cumsum()])
            reached = sums[np.minimum(BUDGETS[:rows], len(within))]
            said = np.sqrt(np.minimum(1.0, np.asarray(BUDGETS[:rows]) / budget))
            self._weights[:rows, column] = weights = self._weights[:rows, column] * FADING + said
            self._gains[:rows, column] += (np.diff(reached, prepend=0.0) - self._gains[:rows, column]) * said / weights
        self._table = None
        if tree.child(path.nodes[-1], path.bonus) is None:  # else the answer ended there, whatever the tree had
            self._accepted = self._accepted * RECENT + len(path.nodes) - 1
            self._promised = self._promised * RECENT + float(chances.sum())

    def tokens(self) -> NDArray[np.float64]:
        """[len(BUDGETS), len(DEPTHS)]: expected tokens of a pass, the bonus token included."""
        if self._table is None:
            level = (TOKENS_TO_DOUBT + self._accepted) / (TOKENS_TO_DOUBT + self._promised)
            self._table = 1.0 + level * np.maximum.accumulate(self._extended().cumsum(axis=0), axis=1)
        return self._table

    def _extended(self) -> NDArray[np.float64]:
        """The gains, also of budgets that were not seen."""
        gains = self._gains.copy()
        for column in range(len(DEPTHS)):
            seen = int((self._weights[:, column] > 0).sum())
            ratio = 0.8
            if seen >= 4 and gains[seen - 4 : seen - 2, column].sum() > 0:  # two steps are a doubling
                ratio = float(gains[seen - 2 : seen, column].sum() / gains[seen - 4 : seen - 2, column].sum()) ** 0.5
            ratio = min(max(ratio, LEAST_GAIN), MOST_GAIN)
            for before, row in pairwise(range(max(seen - 1, 0), len(BUDGETS))):
                gains[row, column] = gains[before, column] * ratio
        return gains
