"""How many tokens a pass will give, for trees of every size and depth, from the scores of the trees seen so far."""

import numpy as np

from engine.speculation.trees.arrays import Integers, Numbers, State, figure, figures, shortened
from engine.speculation.trees.tree import Path, Tree

BUDGETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
FADING = 0.993  # what a tree counts for when the next one is seen; texts have easy and hard parts, longer than trees
RECENT = 0.95  # the same, for what was really accepted
TOKENS_TO_DOUBT = 20.0  # what the scores promise counts for against what is accepted
MOST_SURE = 0.98  # that one level more is accepted, where nobody drafted it
CARRYING = 4  # levels that tell how chances go on; DEPTHS has every one up to there
TAIL = 1.2  # the power of its rank that a node's chance falls with, beyond the smallest tree that tells


class Expectation:
    """Tokens per pass against budget and depth, and the levels that such trees have, for one way of drafting.

    A node's score is the logarithm of the chance that it is accepted, so a tree of the best n nodes is expected to
    give 1 + their sum of chances. Every tree tells that for all budgets and depths at once: for smaller ones what it
    would have been, for larger ones how it would have gone on. So sizes are always compared on the same trees: text
    that is easy, or hard, while one size is in use makes the others no worse, or better. What was really accepted
    corrects the level of it all.
    """

    def __init__(self) -> None:
        shape = (len(BUDGETS), len(DEPTHS))
        self._sums: Numbers = np.zeros(shape)
        self._levels: Numbers = np.zeros(shape)
        self._trees = 0.0
        self._accepted = self._promised = 0.0

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        parts = ("sums", "levels", "trees", "accepted", "promised")
        return {name: shortened(getattr(self, f"_{name}")) for name in parts}

    @classmethod
    def restored(cls, state: State) -> "Expectation":
        """As it was kept; raises for what is no state, also of other sizes and depths."""
        found, shape = cls(), (len(BUDGETS), len(DEPTHS))
        found._sums, found._levels = (figures(state[name], shape, 0.0) for name in ("sums", "levels"))
        found._trees, found._accepted, found._promised = (
            figure(state[name], 0.0) for name in ("trees", "accepted", "promised")
        )
        return found

    def observe(self, tree: Tree, path: Path, budget: int, depth: int) -> None:
        """A tree that was grown with these limits, and what was accepted of it."""
        chances, depths = _continued(tree, budget, depth)
        sums, levels = np.zeros_like(self._sums), np.zeros_like(self._levels)
        for column, limit in enumerate(DEPTHS):
            within = depths <= limit
            sizes = np.minimum(BUDGETS, within.sum())
            sums[:, column] = np.concatenate([[0.0], chances[within].cumsum()])[sizes]
            levels[:, column] = np.concatenate([[0], np.maximum.accumulate(depths[within])])[sizes]
        self._trees = self._trees * FADING + 1.0
        self._sums += (sums - self._sums) / self._trees
        self._levels += (levels - self._levels) / self._trees
        if tree.child(path.nodes[-1], path.bonus) is None:  # else the answer ended there, whatever the tree had
            self._accepted = self._accepted * RECENT + len(path.nodes) - 1
            self._promised = self._promised * RECENT + float(_chances(tree)[1:].sum())

    def tokens(self) -> Numbers:
        """[len(BUDGETS), len(DEPTHS)]: expected tokens of a pass, the bonus token included."""
        return 1.0 + self.honesty * self._sums

    @property
    def honesty(self) -> float:
        """Tokens that were accepted for every one that the scores promised."""
        return (TOKENS_TO_DOUBT + self._accepted) / (TOKENS_TO_DOUBT + self._promised)

    def carried(self, budget: int) -> float:
        """How much of the chance of reaching a level such trees still find in the next one, on their first levels."""
        found = 1.0 + self._sums[BUDGETS.index(budget)]
        last = DEPTHS.index(CARRYING)
        return float((found[last] - 1.0) / found[last - 1])

    def levels(self) -> Numbers:
        """[len(BUDGETS), len(DEPTHS)]: expected levels of a tree, which drafting takes time for."""
        return self._levels


def _continued(tree: Tree, budget: int, depth: int) -> tuple[Numbers, Integers]:
    """Chances and depths of the drafted nodes and of those that would have followed, the likeliest first."""
    chances, depths = _chances(tree), np.asarray(tree.depths, dtype=np.int64)
    deeper = _deeper(chances, depths) if 0 < depth <= depths.max() < DEPTHS[-1] else None
    wider = _wider(chances, depths, tree, depth) if 0 < budget <= tree.drafted < BUDGETS[-1] else None
    known = [(chances[1:], depths[1:]), *filter(None, (deeper, wider))]
    every, at = (np.concatenate(parts) for parts in zip(*known, strict=True))
    order = np.argsort(-every, kind="stable")
    return every[order], at[order]


def _deeper(chances: Numbers, depths: Integers) -> tuple[Numbers, Integers]:
    """Where the depth cut a tree off: one more node a level, behind the best of the last one.

    To get a level farther is as likely as it was for the best nodes in the tree's lower half.
    """
    deepest = int(depths.max())
    half = deepest // 2
    last, middle = float(chances[depths == deepest].max()), float(chances[depths == half].max())
    sure = min((last / middle) ** (1 / (deepest - half)), MOST_SURE)
    levels = np.arange(deepest + 1, DEPTHS[-1] + 1)
    return last * sure ** (levels - deepest), levels


def _wider(chances: Numbers, depths: Integers, tree: Tree, depth: int) -> tuple[Numbers, Integers]:
    """Where the budget cut a tree off: on all levels, chances fall on with a power of the rank, as those of words do.

    They begin with the least of the tree, and not above what its children leave of any node's own chance.
    """
    left = chances.copy()
    np.subtract.at(left, np.asarray(tree.parents[1:]), chances[1:])
    left[depths >= depth] = 0.0
    begin = max(min(float(chances.min()), float(left.max())), 0.0)
    ranks = np.arange(tree.drafted + 1, BUDGETS[-1] + 1)
    return begin * (tree.drafted / ranks) ** TAIL, 1 + ranks % int(depths.max())


def _chances(tree: Tree) -> Numbers:
    chances: Numbers = np.exp(np.asarray(tree.scores or tree.log_probs))
    return chances
