"""Tokens and seconds of a round, for every method, size and depth, as far as they are known by now."""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.speculation.experts.costs import ExpertCosts, ExpertPrices
from engine.speculation.interfaces import MarginalCost, RoundResult, Routing
from engine.speculation.trees.arrays import Integers, Numbers, State, figure, figures, shortened
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.tuning.pass_time import MeasuredPasses

BUDGETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
FADING = 0.98  # what a tree counts for when the next one is seen; texts have easy and hard parts, longer than trees
PRIOR_TOKENS = 20.0  # accepted as promised, that the scores begin with
TAIL = 1.2  # the power of its rank that a node's probability falls with, beyond the smallest tree that tells
TELLING = 8  # nodes that a tree has at least to tell how probabilities go on from level to level
EXPLORATION = 0.015  # of the time, which may be lost to exploration
RECENT = 32  # trees that tell what the next ones may be
CLOSER = 5  # steps towards the rate of trees that size themselves; each squares what is left of the error
SLOWEST = 3.0  # times what its pass and its levels take: a round that was longer had to wait for something else
STEADY = 0.998  # what a round counts for when the next one is seen, where it is asked what they take in the mean


class AcceptanceModel:
    """Tokens per pass against budget and depth, and the levels that such trees have, for one way of drafting.

    A node's score is the logarithm of the probability that it is accepted, so a tree of the best n nodes is expected to
    give 1 + their sum of probabilities. Every tree tells that for all budgets and depths at once: for smaller ones what
    it would have been, for larger ones how it would have gone on. So sizes are compared on the same trees, and easy
    text while one size is in use makes no other look worse. What was really accepted scales it all.
    """

    def __init__(self) -> None:
        self._sums = np.zeros((len(BUDGETS), len(DEPTHS)))  # of the probabilities of drafted nodes
        self.levels = np.zeros_like(self._sums)  # to be expected of trees; drafting takes time for each
        self._trees = self._accepted = self._promised = 0.0

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        return {name.strip("_"): shortened(value) for name, value in vars(self).items()}

    @classmethod
    def restored(cls, state: State) -> "AcceptanceModel":
        """As it was kept; raises for what is no state, also of other sizes and depths."""
        model = cls()
        for name, empty in list(vars(model).items()):
            setattr(model, name, figures(state[name.strip("_")], np.shape(empty), 0.0)[()])
        return model

    def observe(self, tree: Tree, path: Path, budget: int, depth: int) -> Numbers:
        """A tree that was grown with these limits, and what was accepted of it.

        Returns [2, len(BUDGETS)]: what trees of all sizes would have promised there, and their levels.
        """
        own = np.exp(tree.scores or tree.log_probs)
        likelihoods, depths = _continued(tree, own, budget, depth)
        self._trees = self._trees * FADING + 1.0
        for column, limit in enumerate(DEPTHS):
            within = depths <= limit
            sizes = np.minimum(BUDGETS, within.sum())
            sums = np.concatenate([[0.0], likelihoods[within].cumsum()])[sizes]
            levels = np.concatenate([[0], np.maximum.accumulate(depths[within])])[sizes]
            self._sums[:, column] += (sums - self._sums[:, column]) / self._trees
            self.levels[:, column] += (levels - self.levels[:, column]) / self._trees
        if tree.child(path.nodes[-1], path.bonus) is None:  # else the answer ended there, whatever the tree had
            self._accepted = self._accepted * FADING + len(path.nodes) - 1
            self._promised = self._promised * FADING + float(own[1:].sum())
        return np.stack([sums, levels])

    @property
    def tokens(self) -> Numbers:
        """[len(BUDGETS), len(DEPTHS)]: expected tokens of a pass, the bonus token included."""
        return 1.0 + self.honesty * self._sums

    @property
    def honesty(self) -> float:
        """Tokens that were accepted for every one that the scores promised."""
        return (PRIOR_TOKENS + self._accepted) / (PRIOR_TOKENS + self._promised)

    def carried(self, budget: int) -> float:
        """How much of the probability of reaching a level such trees still find in the next one, the fourth."""
        third, fourth = self._sums[BUDGETS.index(budget), 2:4]
        return float(fourth / (1.0 + third))


def _continued(tree: Tree, likelihoods: Numbers, budget: int, depth: int) -> tuple[Numbers, Integers]:
    """Probabilities and depths of all nodes known and of those that would have followed, the likeliest first."""
    depths, drafted = np.asarray(tree.depths, dtype=np.int64), likelihoods
    if tree.left_out:
        scores, at = np.array(tree.left_out).T
        likelihoods, depths = np.append(likelihoods, np.exp(scores)), np.append(depths, at.astype(np.int64))
        budget, depth = len(depths) - 1, int(depths.max())
    deepest, known = int(depths.max()), [(likelihoods[1:], depths[1:])]
    if 0 < depth <= deepest < DEPTHS[-1]:
        # One more node a level, which is as likely as it was for the best nodes in the lower half to get a level on.
        half, levels = deepest // 2, np.arange(deepest + 1, DEPTHS[-1] + 1)
        last, middle = (float(likelihoods[depths == level].max()) for level in (deepest, half))
        known.append((last * (last / middle) ** ((levels - deepest) / (deepest - half)), levels))
    if 0 < budget < len(depths) <= BUDGETS[-1]:
        # They fall on with a power of the rank, as words' do, from what children leave of a node's own probability on.
        left = drafted.copy()
        np.subtract.at(left, np.asarray(tree.parents[1:], dtype=np.int64), drafted[1:])
        begin = max(min(likelihoods.min(), np.where(depths[: len(left)] < depth, left, 0.0).max()), 0.0)
        ranks = np.arange(len(depths), BUDGETS[-1] + 1)
        known.append((begin * ((len(depths) - 1) / ranks) ** TAIL, 1 + ranks % deepest))
    every, at = (np.concatenate(parts) for parts in zip(*known, strict=True))
    order = np.argsort(-every, kind="stable")
    return every[order], at[order]


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice, and what is expected of its round. Where it `is_free`, the tree sizes itself; else it is so large."""

    method: str
    budget: int
    tokens: float = 1.0
    seconds: float = 1.0
    levels: float = 0.0
    is_free: bool = True

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


@dataclass(slots=True)
class MethodStats:
    """One method's trees: how many tokens they give, how long a pass of the draft takes, and in how many rounds.

    A tree's levels are passes of the draft, each over an even share of its nodes. `recent`: what trees of all sizes
    would have been where the last ones were, see `AcceptanceModel.observe`; `came`: tokens of late, and their seconds.
    """

    acceptance: AcceptanceModel = field(default_factory=AcceptanceModel)
    drafting: MeasuredPasses = field(default_factory=MeasuredPasses)
    rounds: int = 0
    recent: deque[Numbers] = field(default_factory=lambda: deque(maxlen=RECENT))
    came: tuple[float, float] = (0.0, 0.0)


@dataclass(slots=True)
class ThroughputModel:
    """How long passes take here, and every method's trees; outlives an answer.

    A round is drafting and all the rest, which counts as a pass over the tree's rows. `savings`: seconds that may be
    lost to exploration; `turn`: what it has come to. `experts`: of a target that is a mixture. `took`, `expected`:
    seconds of the last rounds, and those that were expected of them.
    """

    rounds: int = 0
    passes: MeasuredPasses = field(default_factory=MeasuredPasses)
    methods: defaultdict[str, MethodStats] = field(default_factory=lambda: defaultdict(MethodStats))
    savings: float = 0.0
    turn: int = 0
    experts: ExpertCosts = field(default_factory=ExpertCosts)
    took: float = 0.0
    expected: float = 0.0

    @property
    def beyond(self) -> float:
        """How many times their passes and levels rounds take, however large their trees are; 1 before any.

        The usual pass is what counts for a choice, and the mean is longer: some rounds are slow.
        """
        return self.took / self.expected if self.took and self.expected else 1.0

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        methods = {
            name: {"acceptance": stats.acceptance.state, "drafting": stats.drafting.state, "rounds": stats.rounds}
            for name, stats in self.methods.items()
        }
        mean = shortened([self.took, self.expected])
        return {"rounds": self.rounds, "passes": self.passes.state, "methods": methods, "mean": mean}

    @classmethod
    def restored(cls, state: State) -> "ThroughputModel":
        """As it was kept; raises `ValueError`, `TypeError`, `KeyError` or `AttributeError` for what is no state."""
        model = cls(int(figure(state["rounds"], 0)), MeasuredPasses.restored(state["passes"]))
        model.took, model.expected = figures(state.get("mean", [0.0, 0.0]), (2,), 0.0).tolist()
        for name, kept in state["methods"].items():
            trees, drafting = AcceptanceModel.restored(kept["acceptance"]), MeasuredPasses.restored(kept["drafting"])
            model.methods[str(name)] = MethodStats(trees, drafting, int(figure(kept["rounds"], 0)))
        return model

    def observe(
        self, result: RoundResult, once_seconds: float, is_studied: bool = True, routing: Routing | None = None
    ) -> None:
        """One round; `once_seconds`: what a change of method took; `is_studied`: its tree, too; `routing`: if any."""
        tree, drafting = result.tree, max(0.0, result.draft_seconds - once_seconds)
        self.rounds += 1
        seconds = result.seconds - result.draft_seconds
        if routing is not None:
            seconds -= self.experts.observe(result, routing, seconds + self.passes.hidden * drafting)
            self.savings += seconds * (self.rounds == 1 and self.experts.predictor is not None)  # no plan knows routers
        if self.passes.observe(len(tree), max(seconds, 0.0), drafting):
            for stats in self.methods.values():
                stats.drafting, stats.came = MeasuredPasses(), (0.0, 0.0)  # the draft is on the same machine
        self.savings += EXPLORATION * result.seconds
        expected = self.passes.time(len(tree))
        if result.choice.budget and result.choice.depth:  # else there was to be no tree, which says nothing of trees
            stats = self.methods[result.choice.method.name]
            stats.rounds += 1
            if levels := max(tree.depths):
                stats.drafting.observe(tree.drafted / levels, drafting / levels)
                expected += (1.0 - self.passes.hidden) * levels * stats.drafting.time(tree.drafted / levels)
            if is_studied:
                stats.recent.append(stats.acceptance.observe(tree, result.path, result.budget, result.depth))
            stats.came = (stats.came[0] * FADING + len(result.tokens), stats.came[1] * FADING + expected)
        self.took = self.took * STEADY + min(max(result.seconds - once_seconds, 0.0), SLOWEST * expected)
        self.expected = self.expected * STEADY + expected

    def plain(self, method: str) -> Plan:
        """One token per pass."""
        return Plan(method, 0, 1.0, self.passes.time(1.0))

    def price(self, plan: Plan, most: int) -> MarginalCost:
        """What a tree of up to `most` nodes costs at the rate of this plan, whose method has drafted.

        Or at what came of late, if that is less: a promise alone would make time so dear that no tree grew.
        """
        stats, rows = self.methods[plan.method], np.arange(1.0, most + 2)
        came = (plan.tokens + stats.came[0]) / (plan.seconds + stats.came[1])
        rate = min(plan.rate, came) / stats.acceptance.honesty
        wide = max(plan.budget / max(plan.levels, 1.0), 2.0)
        level, wide_level = rate * (1.0 - self.passes.hidden) * stats.drafting.time.over(np.array([1.0, wide]))
        node = float(wide_level - level) / (wide - 1.0)
        passes = rate * self.passes.time.over(rows) + node * (rows - 1.0)
        carried = stats.acceptance.carried(max(plan.budget, TELLING))
        prices = ExpertPrices(self.experts, rate) if self.experts.predictor else None
        return MarginalCost(float(level) - node, node, carried, passes, prices)

    def plans(self, method: str, most: int) -> Iterator[Plan]:
        """Every size up to `most`, for a method that has drafted; and trees that size themselves."""
        acceptance, sizes = self.methods[method].acceptance, np.array([size for size in BUDGETS if size <= most])
        tokens, levels = acceptance.tokens[: len(sizes), -1], acceptance.levels[: len(sizes), -1]
        for size, *each in np.stack([sizes, tokens, self.seconds(method, sizes, levels), levels], axis=1).tolist():
            yield Plan(method, int(size), *each)
        if self.methods[method].recent:
            yield self._free(method, sizes)

    def _free(self, method: str, sizes: Integers) -> Plan:
        """Trees that size themselves, as the last ones would have; `budget`: the usual size, where there is any.

        Each at the size that is worth most at the rate that they give together (Dinkelbach, 1967): easy text pays for
        larger trees than hard text. Where none pays, one level was drafted all the same.
        """
        stats, sizes = self.methods[method], np.array([0, *sizes])
        sums, levels = np.pad(np.stack(stats.recent, 1)[..., : len(sizes) - 1], ((0, 0), (0, 0), (1, 0)))
        tokens, seconds = 1.0 + stats.acceptance.honesty * sums, self.seconds(method, sizes, levels.clip(1.0))
        rate, each = 0.0, np.arange(len(tokens))
        for _ in range(CLOSER):
            best = (tokens - rate * seconds).argmax(axis=1)
            rate = tokens[each, best].sum() / seconds[each, best].sum()
        usual = round(float(best[best > 0].mean())) if best.any() else 1
        gain, time, level = (part.mean() for part in (tokens[each, best], seconds[each, best], levels[:, usual]))
        return Plan(method, int(sizes[usual]), float(gain), float(time), float(level))

    def seconds(self, method: str, sizes: Integers, levels: Numbers) -> Numbers:
        """Of rounds with trees of these sizes and levels, arrays that go together."""
        nodes: Numbers = sizes.astype(np.float64)
        drafting = levels * self.methods[method].drafting.time.over(nodes / levels.clip(1.0))
        return self.passes.time.over(nodes + 1.0) + (1.0 - self.passes.hidden) * drafting
