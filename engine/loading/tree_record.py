"""What trees of every size would have given over all answers of a pair, so that a plan foretells the mean of them.

The automatic choice adapts to the text at hand and soon forgets the one before; a plan must not.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from engine.speculation.interfaces import RoundResult
from engine.speculation.trees.arrays import Numbers, State, figures, shortened
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.tuning.throughput_model import BUDGETS, DEPTHS, PRIOR_TOKENS, AcceptanceModel

FADING = 0.998  # what a tree counts for when the next one is seen: 500 trees are some dozens of answers
EVERY = 0.05  # seconds of decoding between two trees that are looked at, which takes 0.3 ms


class TreeRecord:
    """Tokens per pass against budget and depth, as in an `AcceptanceModel`, of answers instead of the last trees.

    Every round counts, also the one that an answer ends in: its tokens are what comes, too.
    """

    def __init__(self) -> None:
        self._sums = np.zeros((len(BUDGETS), len(DEPTHS)))  # of the probabilities of drafted nodes
        self.levels = np.zeros_like(self._sums)
        self._trees = self._accepted = self._promised = 0.0
        self._waited = EVERY

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        sizes = {"sums": shortened(self._sums), "levels": shortened(self.levels)}
        return {**sizes, "counts": shortened([self._trees, self._accepted, self._promised])}

    @classmethod
    def restored(cls, state: State) -> "TreeRecord":
        """As it was kept; raises for what is no state."""
        record, shape = cls(), (len(BUDGETS), len(DEPTHS))
        record._sums, record.levels = figures(state["sums"], shape, 0.0), figures(state["levels"], shape, 0.0)
        record._trees, record._accepted, record._promised = figures(state["counts"], (3,), 0.0).tolist()
        return record

    @property
    def trees(self) -> float:
        """How many it rests on, less what faded."""
        return self._trees

    @property
    def tokens(self) -> Numbers:
        """[len(BUDGETS), len(DEPTHS)]: tokens of a pass, the bonus token included."""
        honesty = (PRIOR_TOKENS + self._accepted) / (PRIOR_TOKENS + self._promised)
        return 1.0 + honesty * self._sums

    def observe(self, result: RoundResult) -> None:
        """A round, if it drafted, and if the last one that was looked at is some time ago."""
        self._waited += result.seconds
        if result.tree.drafted and self._waited >= EVERY:
            self._waited = 0.0
            self.add(result.tree, result.path, result.budget, result.depth)

    def add(self, tree: Tree, path: Path, budget: int, depth: int) -> None:
        """A tree that was grown with these limits, and what was accepted of it."""
        alone = AcceptanceModel()
        alone.observe(tree, path, budget, depth)
        self._trees = self._trees * FADING + 1.0
        self._sums += ((alone.tokens - 1.0) / alone.honesty - self._sums) / self._trees
        self.levels += (alone.levels - self.levels) / self._trees
        self._accepted = self._accepted * FADING + len(path.nodes) - 1
        promised = float(np.exp(tree.scores or tree.log_probs)[1:].sum())
        self._promised = self._promised * FADING + promised


def recorded(results: Iterable[RoundResult], record: TreeRecord | None, method: str) -> Iterator[RoundResult]:
    """The same rounds; the trees of one method are recorded, if there is a record."""
    for result in results:
        if record is not None and result.choice.method.name == method:
            record.observe(result)
        yield result
