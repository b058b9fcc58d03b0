"""Tokens and seconds of a round, for every method, size and depth, as far as they are known by now."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.speculation.interfaces import MarginalCost, RoundResult
from engine.speculation.trees.arrays import State, figure
from engine.speculation.tuning.acceptance_model import BUDGETS, DEPTHS, AcceptanceModel
from engine.speculation.tuning.pass_time import MeasuredPasses

LEARNING_ROUNDS = 18  # so long sizes that are not known are tried where they promise nearly as much as the best
EXPLORATION = 0.015  # of the time after that, which may be lost to exploration
TELLING = 8  # nodes that a tree has at least to tell how probabilities go on from level to level


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice with what is expected of it: tokens and seconds of a round, and the levels of the tree."""

    method: str
    budget: int
    depth: int
    tokens: float
    seconds: float
    levels: float = 0.0

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


@dataclass(slots=True)
class MethodStats:
    """One method's trees: how many tokens they give, how long a pass of the draft takes, and in how many rounds.

    A tree's levels are passes of the draft, each over an even share of its nodes.
    """

    acceptance: AcceptanceModel = field(default_factory=AcceptanceModel)
    drafting: MeasuredPasses = field(default_factory=MeasuredPasses)
    rounds: int = 0


@dataclass(slots=True)
class ThroughputModel:
    """How long passes take here, and every method's trees; outlives an answer.

    A round is drafting and all the rest, which counts as a pass over the tree's rows. `savings`: seconds that may be
    lost to exploration; `turn`: what it has come to.
    """

    rounds: int = 0
    learning_until: int = LEARNING_ROUNDS
    passes: MeasuredPasses = field(default_factory=MeasuredPasses)
    methods: dict[str, MethodStats] = field(default_factory=dict)
    savings: float = 0.0
    turn: int = 0

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        methods = {
            name: {"acceptance": stats.acceptance.state, "drafting": stats.drafting.state, "rounds": stats.rounds}
            for name, stats in self.methods.items()
        }
        rounds = {"rounds": self.rounds, "learning_until": self.learning_until}
        return {**rounds, "passes": self.passes.state, "methods": methods}

    @classmethod
    def restored(cls, state: State) -> "ThroughputModel":
        """As it was kept; raises `ValueError`, `TypeError`, `KeyError` or `AttributeError` for what is no state."""
        rounds, learning_until = (int(figure(state[name], 0)) for name in ("rounds", "learning_until"))
        model = cls(rounds, learning_until, MeasuredPasses.restored(state["passes"]))
        for name, kept in state["methods"].items():
            stats = MethodStats(AcceptanceModel.restored(kept["acceptance"]), MeasuredPasses.restored(kept["drafting"]))
            model.methods[str(name)], stats.rounds = stats, int(figure(kept["rounds"], 0))
        return model

    def observe(self, result: RoundResult, once_seconds: float, is_studied: bool = True) -> None:
        """One round; `once_seconds`: of its drafting, what a change of method took; `is_studied`: its tree, too."""
        tree, name = result.tree, result.choice.method.name
        drafting = max(0.0, result.draft_seconds - once_seconds)
        self.rounds += 1
        if self.passes.observe(len(tree), result.seconds - result.draft_seconds, drafting):
            self.learning_until = self.rounds + LEARNING_ROUNDS
            for stats in self.methods.values():
                stats.drafting = MeasuredPasses()  # the draft is on the same machine
        if not self.is_learning:
            self.savings += EXPLORATION * result.seconds
        if not result.choice.budget:
            return
        stats = self.methods.setdefault(name, MethodStats())
        stats.rounds += 1
        if tree.drafted:
            levels = max(tree.depths)
            stats.drafting.observe(tree.drafted / levels, drafting / levels)
            if is_studied:
                stats.acceptance.observe(tree, result.path, result.budget, result.depth)

    def tries(self, method: str) -> int:
        """Rounds in which a method was asked for a tree."""
        return self.methods[method].rounds if method in self.methods else 0

    @property
    def is_learning(self) -> bool:
        """Whether so little is known that the unknown is worth a try."""
        return self.rounds < self.learning_until

    def plain(self, method: str) -> Plan:
        """One token per pass."""
        return Plan(method, 0, 0, 1.0, self.passes.time(1.0))

    def price(self, plan: Plan, most: int) -> MarginalCost:
        """What a tree of up to `most` nodes costs at the rate of this plan, whose method has drafted."""
        stats, rows = self.methods[plan.method], np.arange(1.0, most + 2)
        rate = plan.rate / stats.acceptance.honesty
        wide = max(plan.budget / max(plan.levels, 1.0), 2.0)
        level, wide_level = rate * (1.0 - self.passes.hidden) * stats.drafting.time.over(np.array([1.0, wide]))
        node = float(wide_level - level) / (wide - 1.0)
        carried = stats.acceptance.carried(max(plan.budget, TELLING))
        passes = rate * self.passes.time.over(rows) + node * (rows - 1.0)
        return MarginalCost(float(level) - node, node, carried, passes)

    def plans(self, method: str, budgets: int, depths: int) -> Iterator[Plan]:
        """Every size and depth up to these limits, for a method that has drafted."""
        stats, sizes = self.methods[method], np.array(BUDGETS, dtype=np.float64)
        tokens, levels = stats.acceptance.tokens(), stats.acceptance.levels()
        drafting = levels * stats.drafting.time.over(sizes[:, None] / levels.clip(1.0))
        seconds = self.passes.time.over(sizes + 1.0)[:, None] + (1.0 - self.passes.hidden) * drafting
        for row, budget in enumerate(BUDGETS):
            for column, depth in enumerate(DEPTHS):
                if budget <= budgets and depth <= depths:
                    expected = (float(each[row, column]) for each in (tokens, seconds, levels))
                    yield Plan(method, budget, depth, *expected)
