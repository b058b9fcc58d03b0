"""Chooses method, size and depth of every tree by measuring: what gives the most tokens per second here and now."""

import time
from collections.abc import Callable, Mapping, Sequence

from engine.protocol.sentences import Amount, opening, say
from engine.speculation.interfaces import Choice, Method, RoundResult
from engine.speculation.price import Price
from engine.speculation.tuning.curiosity import Look
from engine.speculation.tuning.plan import Plan
from engine.speculation.tuning.prospect import Prospects

FIRST_BUDGET = 64  # in the middle of what may be best, on a scale of doublings
NARROW_BUDGET = 8  # the first tree of every further method
STEP = 4  # no budget is chosen that is more than so many times what was ever tried
TO_STAY, TO_KEEP_METHOD = 1.015, 1.03  # how much better another choice must be, of the same method and of another
WORTH_A_TRY = 0.8  # of the best rate, while learning
PLAN_EVERY = 0.1  # seconds: thinking takes time, too


class Auto:
    """A `Strategy` over methods whose text is the target's own for the same seed, so that no choice shows in the text.

    Every round it takes what promises the most tokens per second, and leaves the tree's size to the tree itself, at the
    price of time (`Price`). In the first rounds it tries each method once, one token per pass too, and then the sizes
    beside the best; later it looks again now and then, at a cost that vanishes. `prospects` is what it knows, and may
    come from an earlier answer.
    """

    def __init__(
        self,
        methods: Sequence[Method],
        plain: Method | None,
        prospects: Prospects,
        largest: int,
        deepest: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`methods`, the likeliest best one first; `plain` writes a token per pass; None: there is always a tree.

        `largest`, `deepest`: no tree has more nodes, or levels.
        """
        self._methods: Mapping[str, Method] = {method.name: method for method in methods}
        self._plain = plain
        self._prospects = prospects
        self._largest, self._deepest = largest, deepest
        self._clock = clock
        self._asked = 0  # nodes
        self._reader: Method | None = None  # who has read the text so far
        self._once_seconds = 0.0
        self._used: Plan | None = None  # what was chosen last as the best, not to look at it
        self._free: Plan | None = None  # the plan whose trees size themselves, at this price
        self._price: Price | None = None
        self._planned = 0.0  # so many seconds ago

    def prefill(self, tokens: Sequence[int]) -> None:
        """Let the method of the first round read the prompt."""
        self._reader = self._method(self._next())
        self._reader.prefill(tokens)

    def choose(self, tokens: Sequence[int], room: int) -> Choice:
        """What promises most, no deeper than the answer may grow: the last token is the target's own.

        A size that is chosen only to see what it gives is kept.
        """
        plan = self._next()
        method = self._method(plan)
        begin = self._clock()
        if method is not self._reader:
            method.prefill(tokens[:-1])
            self._reader = method
        self._once_seconds = self._clock() - begin
        choice = Choice(method, plan.budget, min(plan.depth, room - 1))
        if plan is self._free:
            choice = Choice(method, self._most(plan), min(self._deepest, room - 1), self._price)
        self._asked = choice.budget
        return choice

    def keep_drafting(self) -> bool:
        """Let the chosen method guess on."""
        return self._reader.keep_drafting() if self._reader else False

    def learn(self, result: RoundResult) -> None:
        """Every round tells something about the machine, and about the method that drafted."""
        if result.choice.price and self._free:
            self._prospects.earn(self._free, result)
        self._prospects.observe(result, self._once_seconds, is_studied=self._planned == 0.0)
        self._planned += result.seconds
        if result.choice.budget < self._asked:
            self._largest = max(1, result.choice.budget)  # memory holds no more

    @property
    def reason(self) -> str:
        """Why it chooses as it does, in words for people; empty as long as there is nothing to compare."""
        known, plain = self._prospects, self._plain
        if not plain or not known.passes.is_known_at(1) or not all(map(known.is_drafted, self._methods)):
            return ""
        alone = known.plain(plain.name)
        tree = max((plan for plan in self._plans() if plan.budget), key=_rate)
        cost = say(
            "{tokens} tokens in {times} times the time of one",
            tokens=Amount(f"{tree.tokens:.1f}"),
            times=Amount(f"{tree.seconds / alone.seconds:.1f}"),
        )
        size = say(
            "{nodes}, {levels} deep ({method})",
            nodes=_nodes(tree.budget),
            levels=say("1 level") if tree.depth == 1 else say("{count} levels", count=tree.depth),
            method=tree.method,
        )
        if alone.rate > tree.rate:
            return say(
                "A tree does not pay here: the best, {size}, would give {cost}; so one token per pass.",
                size=size,
                cost=cost,
            )
        if tree.is_chain:
            return say(
                "Wider trees do not pay here: a chain of {size} promises {cost}.",
                size=_nodes(tree.budget),
                cost=cost,
            )
        return say("{size} promise {cost}.", size=opening(size), cost=cost)

    def _next(self) -> Plan:
        known = self._prospects
        for name in self._methods:
            if not known.is_tried(name, self._plain is not None):
                budget = min(NARROW_BUDGET if known.drafting.keys() - {name} else FIRST_BUDGET, self._largest)
                return Plan(name, budget, self._deepest, 1.0, 1.0)
            if self._plain and not known.passes.is_known_at(1):
                return known.plain(self._plain.name)
        if self._used and self._planned < PLAN_EVERY and not known.is_learning:
            return self._freed(self._used)
        self._planned = 0.0
        plans = self._plans()
        best = self._used = self._best(plans)
        if known.is_learning:
            known.curiosity.forget()
            return self._unknown(plans, best) or self._freed(self._hopeful(plans, best))
        look = known.curiosity.choose(self._looks(plans, best), best)
        if look is None:
            return self._freed(best)
        return self._freed(look.plan) if look.is_free else look.plan

    def _freed(self, plan: Plan) -> Plan:
        """The same, and its tree may size itself."""
        if plan.budget and plan is not self._free:
            self._free, self._price = plan, self._prospects.price(plan, self._most(plan))
        return plan

    def _plans(self) -> list[Plan]:
        known = self._prospects
        plans = [plan for name in self._methods for plan in known.plans(name, self._reach, self._deepest)]
        return [*plans, known.plain(self._plain.name)] if self._plain else plans

    @property
    def _reach(self) -> int:
        """Nodes of the largest tree that may be chosen by now."""
        return min(self._largest, int(self._prospects.passes.largest * STEP))

    def _most(self, plan: Plan) -> int:
        """Nodes that a tree may come to that sizes itself; where memory runs out it is not far to what it bears."""
        return min(self._reach, STEP * plan.budget)

    def _best(self, plans: Sequence[Plan]) -> Plan:
        """What promises most, of equals the deepest; what is in use has the benefit of the doubt."""
        best = max(plans, key=lambda plan: (plan.rate, plan.depth))
        used = self._used
        same = [plan for plan in plans if used and plan.choice == used.choice]
        if not (used and same):
            return best
        margin = TO_STAY if used.method == best.method else TO_KEEP_METHOD
        if used.budget and not best.budget:
            margin += self._prospects.drafting[used.method].error / 2  # one token per pass tells nothing of trees
        return same[0] if best.rate < margin * same[0].rate else best

    def _unknown(self, plans: Sequence[Plan], best: Plan) -> Plan | None:
        """A size that little is known of or near, if it promises nearly as much as the best.

        The first tree of a size goes as deep as it may: that tells what every smaller depth gives, too.
        """
        passes = self._prospects.passes
        sizes = {plan.budget for plan in plans}
        unknown = {size for size in sizes if not passes.is_sure_near(size + 1)}
        likeliest = max((plan for plan in plans if plan.budget in unknown), key=_rate, default=None)
        if likeliest is None or likeliest.rate < WORTH_A_TRY * best.rate:
            likeliest = self._beyond(plans, best)
        if likeliest is None:
            return None
        same_size = [plan for plan in plans if (plan.method, plan.budget) == (likeliest.method, likeliest.budget)]
        return max(same_size, key=lambda plan: plan.depth)

    def _beyond(self, plans: Sequence[Plan], best: Plan) -> Plan | None:
        """The largest size, if it promises nearly as much as the best should rows behind those measured cost nothing.

        In a mixture of experts they may: once all experts are read, more rows read nothing more. Smaller trees do not
        show that, and by their cost a row large ones would never be tried.
        """
        passes = self._prospects.passes
        largest = max((plan for plan in plans if plan.budget + 1 > passes.largest), key=_size, default=None)
        if largest is None:
            return None
        its = [plan for plan in plans if (plan.method, plan.budget) == (largest.method, largest.budget)]
        saved = passes.at(largest.budget + 1) - passes.at(passes.largest)
        likeliest = max(its, key=lambda plan: plan.tokens / (plan.seconds - saved))
        return likeliest if likeliest.tokens > WORTH_A_TRY * best.rate * (likeliest.seconds - saved) else None

    def _hopeful(self, plans: Sequence[Plan], best: Plan) -> Plan:
        """Not one token per pass, as long as a tree may be better: the best of the method that least is known of."""
        likeliest = [max((plan for plan in plans if plan.method == name), key=_rate) for name in self._methods]
        hopeful = [plan for plan in likeliest if self._hope(plan) * plan.rate > best.rate]
        if best.budget or not hopeful:
            return best
        return min(hopeful, key=lambda plan: self._prospects.drafting[plan.method].rounds)

    def _hope(self, plan: Plan) -> float:
        """How many times as much this may well give as it promises: few trees must not have the last word."""
        return 1.0 + self._prospects.drafting[plan.method].error if plan.budget else 1.0

    def _looks(self, plans: Sequence[Plan], best: Plan) -> list[Look]:
        """The best of every other method, and a smaller one; larger and smaller trees than `best`, as deep as may be.

        Another method's best tree may size itself: at a wrong price that could be none, for ever, but for the smaller.
        """
        looks = []
        for name in sorted({plan.method for plan in plans} - {best.method}):
            its = [plan for plan in plans if plan.method == name]
            most = max(its, key=_rate)
            hope = 1.0 if best.budget else self._hope(most)
            looks.append(Look(name, most, is_free=True, hope=hope))
            smaller = [plan for plan in its if 0 < plan.budget == max(1, most.budget // 4) and plan.depth == most.depth]
            looks += [Look(f"{name}, smaller", plan, hope=hope) for plan in smaller]
        for times in (2.0, 1.0, 0.5, 4.0) if best.budget else ():
            its = [plan for plan in plans if plan.method == best.method and plan.budget == int(best.budget * times)]
            looks += [Look(f"{times} times", max(its, key=lambda plan: plan.depth))] if its else []
        return looks

    def _method(self, plan: Plan) -> Method:
        if plan.method in self._methods:
            return self._methods[plan.method]
        assert self._plain, "no other method is ever planned"
        return self._plain


def _rate(plan: Plan) -> float:
    return plan.rate


def _size(plan: Plan) -> tuple[int, float]:
    return plan.budget, plan.rate


def _nodes(count: int) -> str:
    return say("1 node") if count == 1 else say("{count} nodes", count=count)
