"""Chooses method, size and depth of every tree by measuring: what gives the most tokens per second here and now."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from engine.speculation.interfaces import Choice, MarginalCost, Method, RoundResult, Routing
from engine.speculation.tuning.pass_time import ENOUGH, STEP, UNUSUAL, PassTime
from engine.speculation.tuning.reader import Reader
from engine.speculation.tuning.reasons import reason_of
from engine.speculation.tuning.throughput_model import BUDGETS, RECENT, Plan, ThroughputModel

FIRST_BUDGET = 24  # where nothing is expected of passes: two over more rows might take as long as a short answer
DOUBLING = 1.5  # tokens by which a pass gives more with a tree twice as large, before any was seen
RISK = 0.2  # of its seconds, that exploring a plan is taken to lose at least
PLAN_EVERY = 0.1  # seconds: planning takes time, too


class Auto:
    """A `Strategy` over methods whose text is the target's own for the same seed, so that no choice shows in the text.

    Every round it takes what promises the most tokens per second, and leaves the tree's size to the tree itself, at its
    `MarginalCost`. It begins with each method in turn, at the size that `expected` favours; without that at a modest
    one, and with one token per pass. Then it explores now and then, at a bounded cost. `model` may come from an
    earlier answer.
    """

    def __init__(
        self,
        methods: Sequence[Method],
        plain: Method | None,
        model: ThroughputModel,
        largest: int,
        deepest: int,
        clock: Callable[[], float] = time.perf_counter,
        routing: Callable[[], Routing | None] = lambda: None,
        expected: PassTime | None = None,
        is_trial: bool = False,
    ) -> None:
        """`methods`, the likeliest best one first; `plain` writes a token per pass; None: there is always a tree.

        `largest`, `deepest`: no tree has more nodes, or levels. `routing`: of a mixture, what its routers chose last.
        `expected`: how passes should compare by their rows, as long as they were not measured. `is_trial`: what passes
        over one row take is wanted, too, whatever it is expected to be.
        """
        self._names, self._plain, self._model = [method.name for method in methods], plain, model
        self._methods = {method.name: method for method in (*methods, *filter(None, [plain]))}
        self._largest, self._deepest = largest, deepest
        self._held = largest  # nodes that memory seems to have room for
        self._clock, self._routing = clock, routing
        self._first = min(largest, _first_budget(expected) if expected else FIRST_BUDGET)
        model.passes.expect(expected)
        self._plain_rounds = ENOUGH if is_trial else 0 if expected else 1
        self._asked = 0  # nodes
        self._reader = Reader()
        self._best: Plan | None = None  # of the last planning
        self._price: tuple[Plan, MarginalCost] | None = None
        self._once_seconds = self._planned = 0.0  # of a change of method; since the last planning

    def prefill(self, tokens: Sequence[int]) -> None:
        """Let the method of the first round read the prompt."""
        self._read(self._methods[self._next().method], tokens)

    def choose(self, tokens: Sequence[int], room: int) -> Choice:
        """What promises most, no deeper than the answer may grow: the last token is the target's own.

        No tree where there is no memory for the method to read on.
        """
        self._reader.rest()
        if not (self._plain or self._able):
            return self._without_tree(self._clock())
        plan = self._next()
        method, begin = self._methods[plan.method], self._clock()
        if method is not self._reader.method and not self._read(method, tokens[:-1]):
            return self._without_tree(begin)
        self._once_seconds = self._clock() - begin
        most, depth, price = plan.budget, min(self._deepest, room - 1), None
        if plan.is_free and plan.budget:
            most = min(self._reach, STEP * plan.budget)
            if not self._price or self._price[0] is not plan:
                self._price = plan, self._model.price(plan, most)
            price = self._price[1]
        self._asked = most
        return Choice(method, most, depth, price)

    def _read(self, method: Method, tokens: Sequence[int]) -> bool:
        """Have a method read the text, and plan anew where memory ran out for it."""
        could = self._reader.read(method, tokens)
        self._best = self._best if could else None
        return could

    def _without_tree(self, begin: float) -> Choice:
        """The root alone, and no pass of a draft; since `begin` the time was spent on something else than drafting."""
        self._asked, self._once_seconds = 0, self._clock() - begin
        return Choice(self._plain or self._methods[self._names[0]], 0, 0, is_short=True)

    def keep_drafting(self) -> bool:
        """Let the chosen method guess on."""
        return self._reader.method.keep_drafting() if self._reader.method else False

    def learn(self, result: RoundResult) -> None:
        """Every round tells something about the machine, and about the method that drafted."""
        self._model.observe(result, self._once_seconds, self._planned == 0.0, self._routing())
        self._planned += result.seconds
        if result.choice.budget < self._asked:
            self._held = max(1, result.choice.budget)
        elif self._asked >= self._held:
            self._held = min(self._largest, 2 * self._held)  # what limits it may have been raised

    @property
    def reason(self) -> str:
        """Why it chooses as it does, in words for people; empty as long as there is nothing to compare."""
        model, plain = self._model, self._plain
        is_known = model.passes.count(1.0) and all(model.methods[name].rounds for name in self._names)
        if self._reader.words or not plain or not is_known:
            return self._reader.words
        tree = max((plan for plan in self._plans() if plan.budget), key=attrgetter("rate"))
        return reason_of(tree, model.plain(plain.name))

    def _next(self) -> Plan:
        """What to do in this round. Methods are compared once each was measured twice: once may hold a slow start."""
        model, since, self._planned = self._model, self._planned, 0.0
        if self._plain and not self._able:
            return model.plain(self._plain.name)
        for name in self._able:
            if model.methods[name].rounds < ENOUGH or not model.passes.largest:
                return Plan(name, min(self._first, self._held), is_free=False)
            if self._plain and model.passes.count(1.0) < self._plain_rounds:
                return model.plain(self._plain.name)
        if self._best and since < PLAN_EVERY and model.rounds > RECENT:  # before that each round tells much
            self._planned = since
            return self._best
        plans = self._plans()
        best = self._best = max(plans, key=attrgetter("rate"))
        return self._explored(plans, best) or best

    @property
    def _able(self) -> list[str]:
        """The methods that may be chosen now, but for the plain one."""
        return [name for name in self._names if self._reader.may_read(name)]

    def _plans(self) -> list[Plan]:
        plans = [plan for name in self._able for plan in self._model.plans(name, self._reach)]
        return [*plans, self._model.plain(self._plain.name)] if self._plain else plans

    @property
    def _reach(self) -> int:
        """Nodes of the largest tree that may be chosen by now."""
        passes = self._model.passes
        is_steep = passes.time(passes.largest) > UNUSUAL * passes.time(1.0)
        return min(self._held, int(passes.largest * (2 if is_steep else STEP)))

    def _explored(self, plans: Sequence[Plan], best: Plan) -> Plan | None:
        """The next in turn of what may have been misjudged, once enough time was saved for what it may lose."""
        model, trials = self._model, list(_trials(plans, best))
        plan = trials[model.turn % len(trials)]
        loss = max(plan.seconds - plan.tokens / best.rate, RISK * plan.seconds)
        if model.savings < loss:
            return None
        model.savings, model.turn = model.savings - loss, model.turn + 1
        return plan


def _trials(plans: Sequence[Plan], best: Plan) -> Iterator[Plan]:
    """Trees larger and smaller than the best, and the best of every other method."""
    sizes = {plan.budget: plan for plan in reversed(plans) if plan.budget and plan.method == best.method}
    wanted = (2 * best.budget, best.budget, best.budget // 2, 4 * best.budget)
    yield from (replace(sizes[budget], is_free=False) for budget in wanted if budget in sizes)
    for name in sorted({plan.method for plan in plans} - {best.method}):
        yield max((plan for plan in plans if plan.method == name), key=attrgetter("rate"))


def _first_budget(expected: PassTime) -> int:
    """What is best if tokens grow with the logarithm of a tree's size."""
    return max(BUDGETS, key=lambda budget: (1.0 + DOUBLING * math.log2(1.0 + budget)) / expected(budget + 1.0))
