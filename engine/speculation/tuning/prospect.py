"""What each way of speculating costs and gives on this machine, as far as it is known by now."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.speculation.interfaces import RoundResult
from engine.speculation.price import Price
from engine.speculation.trees.arrays import State, figure, shortened
from engine.speculation.tuning.curiosity import Curiosity
from engine.speculation.tuning.curve import SUSPECT, Curve
from engine.speculation.tuning.draft_pace import DraftPace
from engine.speculation.tuning.expectation import BUDGETS, DEPTHS, Expectation
from engine.speculation.tuning.hiding import Hiding
from engine.speculation.tuning.plan import Plan

LEARNING_ROUNDS, RELEARNING_ROUNDS = 18, 10  # so long the unknown is tried where it promises nearly as much
OTHER_MACHINE = 1.3  # passes that take so many times as long, or as short, are another machine's
TELLING = 8  # nodes that a tree has at least to tell how chances go on from level to level
EARNING = 0.98  # what a tree that sized itself counts for when the next one is seen
HOPED_GAIN, TOKENS_TO_HOPE = 1.08, 60.0  # what its freedom is hoped to gain, and what that counts for against tokens


class Record:
    """One method's trees: how many tokens they give, how long it takes to draft them, and what their freedom gains."""

    def __init__(self) -> None:
        self.expectation = Expectation()
        self.pace = DraftPace()
        self.rounds = 0
        self._earned = self._promised = 0.0

    def observe(self, result: RoundResult, draft_seconds: float) -> None:
        """One round by this method; `draft_seconds`: of its tree alone, nothing that is done only once."""
        self.pace.observe(max(result.tree.depths), result.tree.drafted, draft_seconds)

    def earn(self, tokens: int, promised: float) -> None:
        """A tree that sized itself gave so many tokens; one of a fixed size promised others in the same time."""
        self._earned = self._earned * EARNING + tokens
        self._promised = self._promised * EARNING + promised

    @property
    def gain(self) -> float:
        """What trees that size themselves give over what the best fixed size promises."""
        return (TOKENS_TO_HOPE * HOPED_GAIN + self._earned) / (TOKENS_TO_HOPE + self._promised)

    @property
    def error(self) -> float:
        """Standard error of what its trees give, as a part of that: they differ by about as much as they give."""
        return 1.0 / math.sqrt(max(self.rounds, 1))

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        return {
            "expectation": self.expectation.state,
            "pace": self.pace.state,
            "rounds": self.rounds,
            "earned": shortened(self._earned),
            "promised": shortened(self._promised),
        }

    @classmethod
    def restored(cls, state: State) -> "Record":
        """As it was kept; raises for what is no state."""
        record = cls()
        record.expectation = Expectation.restored(state["expectation"])
        record.pace = DraftPace.restored(state["pace"])
        record.rounds = int(figure(state["rounds"], 0))
        record._earned, record._promised = (figure(state[name], 0.0) for name in ("earned", "promised"))
        return record


@dataclass(slots=True)
class Prospects:
    """The machine's pace, and every method's drafting; outlives an answer.

    A round is drafting, a pass of the target over the tree, and the rest. What drafting was hidden in the pass is part
    of the pass, and what of the next tree came of it makes the drafting shorter: both are measured as they are waited
    for, so nothing is counted twice. Drafting before the pass may be hidden, too: passes are known as they would be if
    nothing had been drafted before them, and of the drafting only what is left counts.
    """

    rounds: int = 0
    passes: Curve = field(default_factory=Curve)
    rests: Curve = field(default_factory=Curve)
    hiding: Hiding = field(default_factory=Hiding)
    drafting: dict[str, Record] = field(default_factory=dict)
    curiosity: Curiosity = field(default_factory=Curiosity)
    learning_until: int = LEARNING_ROUNDS
    level: float = 1.0  # of the passes, when the learning began

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        return {
            "rounds": self.rounds,
            "learning_until": self.learning_until,
            "level": shortened(self.level),
            "passes": self.passes.state,
            "rests": self.rests.state,
            "hiding": self.hiding.state,
            "drafting": {name: record.state for name, record in self.drafting.items()},
        }

    @classmethod
    def restored(cls, state: State) -> "Prospects":
        """As it was kept; raises `ValueError`, `TypeError`, `KeyError` or `AttributeError` for what is no state."""
        return cls(
            rounds=int(figure(state["rounds"], 0)),
            learning_until=int(figure(state["learning_until"], 0)),
            level=figure(state["level"], 1e-6, 1e6),
            passes=Curve.restored(state["passes"]),
            rests=Curve.restored(state["rests"]),
            hiding=Hiding.restored(state["hiding"]),
            drafting={str(name): Record.restored(record) for name, record in state["drafting"].items()},
        )

    def observe(self, result: RoundResult, once_seconds: float, is_studied: bool = True) -> None:
        """One round; `once_seconds`: of its drafting, what a change of method took; `is_studied`: its tree, too."""
        rows = len(result.tree)
        self.rounds += 1
        self.curiosity.earn(result.seconds)
        drafted_seconds = max(0.0, result.draft_seconds - once_seconds)
        self.hiding.observe(rows, drafted_seconds, result.target_seconds)
        self.passes.observe(rows, result.target_seconds + self.hiding.share * drafted_seconds)
        self.rests.observe(rows, max(0.0, result.seconds - result.draft_seconds - result.target_seconds))
        if result.tree.drafted:
            drafting = self.drafting.setdefault(result.choice.method.name, Record())
            drafting.observe(result, drafted_seconds)
            self._notice_change(rows)
            if is_studied:
                drafting.expectation.observe(result.tree, result.path, result.budget, result.depth)
        if record := self.drafting.get(result.choice.method.name):
            record.rounds += 1

    def _notice_change(self, rows: int) -> None:
        """If all passes take longer or shorter now, larger trees may have become free, or dear: learn again."""
        change = max(self.passes.level / self.level, self.level / self.passes.level)
        is_due = self.passes.is_settled and self.rounds > self.learning_until + LEARNING_ROUNDS
        if is_due and change > OTHER_MACHINE:
            self.level, self.learning_until = self.passes.level, self.rounds + RELEARNING_ROUNDS
            self.passes.doubt(rows)

    @property
    def is_learning(self) -> bool:
        """Whether so little is known that the unknown is worth a try."""
        return self.rounds < self.learning_until

    def is_drafted(self, method: str) -> bool:
        """Whether this method has grown a tree yet."""
        return method in self.drafting

    def is_tried(self, method: str, has_plain: bool) -> bool:
        """Whether it has grown a tree, and a second one if the first round may have held work that is done once.

        That is so where it took far longer than a pass over one token: by its rows that may be, but it must be seen
        twice. Without such passes (`has_plain`) to compare with it is always seen twice.
        """
        if not self.is_drafted(method) or self.drafting[method].rounds > 1:
            return self.is_drafted(method)
        if not has_plain or not self.passes.is_known_at(1):
            return has_plain
        alone = self.passes.at(1)
        return self.passes.at(self.passes.largest) < SUSPECT * alone and self.drafting[method].pace.longest < alone

    def plain(self, method: str) -> Plan:
        """One token per pass."""
        return Plan(method, 0, 0, 1.0, self.passes.at(1) + self.rests.at(1))

    def earn(self, plan: Plan, result: RoundResult) -> None:
        """A tree sized itself where this plan was the best of a fixed size.

        It is held against what that promised in the time that such trees usually take: a busy minute is no fault.
        """
        record, rows = self.drafting[plan.method], len(result.tree)
        seconds = self.passes.at(rows) + self.rests.at(rows)
        seconds += self._waited(record.pace.seconds(max(result.tree.depths), result.tree.drafted))
        record.earn(len(result.tokens), plan.rate / record.gain * seconds)

    def price(self, plan: Plan, most: int) -> Price:
        """What a tree of up to `most` nodes costs at the rate of this plan, whose method has drafted."""
        drafting = self.drafting[plan.method]
        rate = plan.rate / drafting.gain / drafting.expectation.honesty
        _, level, node = (rate * self._waited(seconds) for seconds in drafting.pace.costs)
        rows = np.arange(1.0, most + 2)
        passes = rate * (self.passes.soberly_over(rows) + self.rests.over(rows)) + node * (rows - 1)
        return Price(level, node, drafting.expectation.carried(max(plan.budget, TELLING)), passes)

    def plans(self, method: str, budgets: int, depths: int) -> Iterator[Plan]:
        """Every size and depth up to these limits, for a method that has drafted.

        What is expected of it is what a tree gives whose size is left to itself where this one would be the best.
        """
        drafting = self.drafting[method]
        sizes = np.array(BUDGETS, dtype=np.float64)
        tokens, levels = drafting.gain * drafting.expectation.tokens(), drafting.expectation.levels()
        target = self.passes.over(sizes + 1.0) + self.rests.over(sizes + 1.0)
        tree, level, node = (self._waited(seconds) for seconds in drafting.pace.costs)
        seconds = (target + tree + node * sizes)[:, None] + level * levels
        figures = zip(tokens.tolist(), seconds.tolist(), levels.tolist(), strict=True)
        for budget, row in zip(BUDGETS, figures, strict=True):
            if budget > budgets:
                return
            for depth, given, taken, deep in zip(DEPTHS, *row, strict=True):
                if depth <= depths:
                    yield Plan(method, budget, depth, given, taken, deep)

    def _waited(self, drafting: float) -> float:
        """What is left of some seconds of drafting once the pass behind it has become shorter."""
        return (1.0 - self.hiding.share) * drafting
