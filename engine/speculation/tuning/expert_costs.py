"""What nodes cost by the experts that only they touch, learnt from passes of a target that is a mixture."""

from dataclasses import dataclass

import numpy as np

from engine.speculation.experts.accuracy import Accuracy
from engine.speculation.experts.predictor import MOST_ROWS, RoutingPredictor
from engine.speculation.experts.routed_sets import Shares, expected_distinct, routed_sets
from engine.speculation.experts.selection import worthwhile
from engine.speculation.interfaces import RoundResult, Routing
from engine.speculation.trees.arrays import Numbers
from engine.speculation.trees.tree import Tree
from engine.speculation.tuning.expert_time import ExpertTime

MOST_EXPLAINED = 0.5  # of a pass's seconds, that experts beyond the usual ones may account for
CANDIDATES = 128  # the likeliest nodes, among which a tree is chosen: with more, passes touch nearly all experts


class ExpertCosts:
    """Learns from every pass over a tree; of a target without experts there is nothing to learn, and nothing changes.

    Trees that know experts are grown once experts are known to cost something (`ExpertTime`), and as long as their
    prediction is better than that of independent routing (`Accuracy`).
    """

    def __init__(self) -> None:
        self.time = ExpertTime()
        self.accuracy = Accuracy()
        self.predictor: RoutingPredictor | None = None
        self._scale = 1.0  # layers of the mixture for every one that is looked at

    def observe(self, result: RoundResult, record: Routing | None, seconds: float) -> float:
        """A round and what the target's routers chose in it; `seconds`: of its pass, as if nothing had been drafted.

        Returns by how many seconds the pass took longer than others of its size for the experts that it touched: a
        text that needs more of them is no other machine.
        """
        routed = routed_sets(record, len(result.tree))
        if routed is None:
            return 0.0
        layers, rows = len(routed.chosen), np.array([routed.rows])
        shape, self._scale = (layers, routed.count, routed.experts_per_token), routed.scale
        if self.predictor is None or self.predictor.shape != shape:
            self.predictor, self.accuracy, self.time = RoutingPredictor(*shape), Accuracy(), ExpertTime()
        independent = float(expected_distinct(*shape[1:], rows)[0]) * layers * routed.scale
        self.time.observe(routed.rows, routed.distinct, seconds, independent)
        if self.time.seconds_per_expert == 0.0:
            return 0.0  # where experts cost nothing, nobody needs to know them, and learning takes time
        tokens = result.tree.tokens
        expected = self.predictor.expected(tokens[:MOST_ROWS])
        self.accuracy.observe(expected, routed.sets(MOST_ROWS), routed.experts_per_token)
        if routed.rows <= MOST_ROWS:
            foretold = float((1.0 - (1.0 - expected).prod(0)).sum()) * routed.scale
            self.time.foretell(routed.rows, routed.distinct / foretold)
        self.predictor.learn(tokens, routed, result.path.nodes[-1])
        usual = float(self.time.typical(rows, layers * routed.scale, *shape[1:])[0])
        return min(self.time.seconds_per_expert * (routed.distinct - usual), MOST_EXPLAINED * seconds)

    @property
    def is_known(self) -> bool:
        """Whether nodes have prices of their own."""
        return self.predictor is not None and self.accuracy.is_better and self.time.seconds_per_expert > 0.0

    def touched(self, tree: Tree) -> Shares:
        """float32 [nodes, figures]: how likely each node is to touch each expert, as many times as counts for."""
        assert self.predictor
        return self.predictor.expected(tree.tokens).reshape(len(tree), -1)

    def scale(self, rows: int) -> Numbers:
        """float64 [rows]: experts of the mixture for every one foretold, in passes over 1 to so many rows."""
        return self._scale * self.time.foretold(np.arange(1, rows + 1))

    def typical(self, rows: int) -> Numbers:
        """float64 [rows]: experts that passes over 1 to so many rows touch, as those that were timed did."""
        assert self.predictor
        layers, count, chosen = self.predictor.shape
        return self.time.typical(np.arange(1, rows + 1), layers * self._scale, count, chosen)


@dataclass(frozen=True, slots=True)
class ExpertPrices:
    """`NodePrices` of a mixture; `rate`: tokens that could have been written in a second."""

    costs: ExpertCosts
    rate: float

    def worthwhile(self, tree: Tree, rows: Numbers) -> list[int] | None:
        """See `NodePrices`: a pass costs what others of its size did, and more where it touches more experts."""
        costs = self.costs
        if not costs.is_known:
            return None
        scores = np.array(tree.scores or tree.log_probs)
        likeliest = np.sort(np.argsort(-scores[1:], kind="stable")[:CANDIDATES] + 1)
        among = tree.cut(likeliest.tolist())
        chances = np.exp(scores[[0, *likeliest]])
        each = self.rate * costs.time.seconds_per_expert
        beside = rows - each * costs.typical(len(rows))
        chosen = worthwhile(chances, among.parents, costs.touched(among), each * costs.scale(len(rows)), beside)
        return [int(likeliest[node - 1]) for node in chosen]
