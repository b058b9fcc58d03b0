"""The ways in which a target could run on a machine, with what each gives: one token per pass, trees, other places.

Pure arithmetic on forecasts. A further way is a further `Case`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Literal

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.expert_ways import ExpertWay
from engine.weights.planning.forecast import EXPERT_WAYS, STREAMED_WAYS, Forecast, forecast
from engine.weights.planning.machine import Machine, Rates
from engine.weights.planning.needs import ModelNeeds, Workload
from engine.weights.planning.placement import Override, Plan, plan
from engine.weights.planning.seen import Seen

WayName = Literal["plain", "small", "tree", "answers", "experts", "nf4", "int8", "kept", "smaller"]
Bound = Literal["link", "ssd", "experts", "processor", "memory", "arithmetic", "calls", "drafting"]

SMALL = (2, 16)  # nodes of what counts as a small tree
SPARSE = 0.2  # of a layer's experts: a token that touches fewer has others than its neighbours
PAYS = 1.05  # times the speed of one token per pass, from which a tree is worth drafting
ADVISED = 1.2  # times the speed of the best way as asked, from which another one is worth a change
EXPECTED_ROWS = (1, 2, 5, 9, 17, 33, 65, 129, 257, 513, 1025)
MANY_ROWS = 1e9  # more than any pass has
ARITHMETIC = 1.5  # times what reading the weights takes, from which computing counts as bound by arithmetic


@dataclass(frozen=True, slots=True)
class TreeYield:
    """What trees of up to so many drafted nodes are expected to give; `levels` 0 where that is not known.

    `depth`: no tree is let grow deeper; 0 for any depth.
    """

    nodes: int
    tokens_per_pass: float
    levels: float = 0.0
    depth: int = 0


NO_TREE = TreeYield(0, 1.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One way to hold the target, to be planned. `is_measured`: the machine's rates are those of these weights.

    `seen`: what rounds of this pair took with the target held so, if there were any. `ways`: how a pass may have the
    experts of layers that stream.
    """

    name: WayName
    target: ModelNeeds
    draft: ModelNeeds | None
    machine: Machine
    work: Workload
    override: Override = field(default_factory=Override)
    is_measured: bool = False
    seen: Seen | None = None
    ways: tuple[ExpertWay, ...] = EXPERT_WAYS

    @property
    def drafts(self) -> bool:
        """Whether anything drafts."""
        return self.draft is not None or self.target.drafts_itself

    def plan(self) -> Plan:
        """Where its layers go."""
        return plan(self.target, self.draft, self.machine, self.work, self.override)


@dataclass(frozen=True, slots=True)
class Way:
    """What one way gives. `nodes` is 0 for one token per pass; `seconds` are those of a round, drafting included.

    `bytes_short`: memory that would have to be free besides; `parameters` of the target where that is another one.
    `forecast`: what the seconds are made of; `levels` of the tree, 0 where that is not known, and the `depth` that it
    is held to, 0 for none.
    """

    name: WayName
    tiers: tuple[int, int, int]
    nodes: int
    tokens_per_pass: float
    seconds: float
    bound: Bound
    is_measured: bool
    bytes_short: int = 0
    parameters: int = 0
    levels: float = 0.0
    depth: int = 0
    forecast: Forecast | None = None

    @property
    def tokens_per_second(self) -> float:
        """Of an answer."""
        return self.tokens_per_pass / self.seconds


@dataclass(frozen=True, slots=True)
class Ways:
    """All ways of one pair on this machine; `plain` is None where not even that fits, trees where nothing drafts.

    `answers`: what those of this pair have given where its layers are, however it chose its trees, None before enough.
    Their rounds took `beyond` times what passes and levels do, and so do all ways whose layers are where theirs were.
    Where the processor could compute a mixture's experts where they lie in RAM, these three stream them; `experts` does
    not, with one token per pass and with its best tree. `is_sparse`: each token touches few experts of many.
    """

    plain: Way | None
    small: Way | None
    tree: Way | None
    others: tuple[Way, ...] = ()
    experts: tuple[Way, ...] = ()
    is_sparse: bool = False
    answers: Way | None = None
    beyond: float = 1.0

    @property
    def expected(self) -> Way | None:
        """What comes: what answers gave, else the fastest way as asked."""
        return self.answers or self.best

    @property
    def best(self) -> Way | None:
        """The fastest as asked, which is what the engine chooses by itself."""
        return _fastest((self.plain, self.small, self.tree, *self.experts))

    @property
    def best_plain(self) -> Way | None:
        """The fastest of one token per pass."""
        return _fastest((self.plain, *(way for way in self.experts if not way.nodes)))

    @property
    def best_tree(self) -> Way | None:
        """The fastest with trees."""
        return _fastest((self.tree, *(way for way in self.experts if way.nodes)))

    @property
    def all(self) -> tuple[Way, ...]:
        """As they are shown: those as asked first; a best tree that is the small one is not told twice."""
        tree = None if self.tree and self.small and self.tree.nodes == self.small.nodes else self.tree
        return (
            *filter(None, (self.plain, self.small, tree)),
            *self.experts,
            *filter(None, [self.answers]),
            *self.others,
        )

    @property
    def gain(self) -> float:
        """How many times as fast the best tree is as one token per pass; 0 where there is nothing to compare."""
        plain, tree = self.best_plain, self.best_tree
        return tree.tokens_per_second / plain.tokens_per_second if plain and tree else 0.0

    @property
    def advised(self) -> tuple[Way, ...]:
        """What is faster by far: another format or place, the faster of them; and a smaller target, if by far again."""
        best = self.expected.tokens_per_second if self.expected else 0.0
        found: list[Way] = []
        for names in (("nf4", "int8", "kept"), ("smaller",)):
            ways = [way for way in self.others if way.name in names and way.tokens_per_second >= ADVISED * best]
            if ways:
                found.append(max(ways, key=lambda way: way.tokens_per_second))
                best = found[-1].tokens_per_second
        return tuple(found)


def ways_of(asked: Case, found: Plan, plain: Case, others: Iterable[Case], yields: Sequence[TreeYield]) -> Ways:
    """What the pair gives as asked (`found` is its plan), without a draft, and held in other ways where these fit.

    `yields`: of trees, in any order.
    """
    streams = replace(asked, ways=STREAMED_WAYS)
    alone, told = plain.plan(), []
    for case in others:
        other = case.plan()
        if not other.fits or (found.fits and _moved(other) >= _moved(found)):
            continue
        way = fastest(case, other, [NO_TREE, *yields])
        if way and case.name == "smaller":
            way = replace(way, parameters=parameters_of(case.target))
        if way and case.name == "kept":
            way = replace(way, bytes_short=_bytes_short(other, found))
        told += [way] if way else []
    drafted = [each for each in yields if each.nodes] if found.verdict != "no" else []
    small = fastest(streams, found, [each for each in drafted if SMALL[0] <= each.nodes <= SMALL[1]])
    one = None if alone.verdict == "no" else _way(replace(plain, ways=STREAMED_WAYS), alone, NO_TREE)
    computed = _computed_experts(asked, found, drafted) if found.verdict != "no" else ()
    answers = _answers(asked, found, drafted)
    beyond = asked.seen.given.beyond if answers and asked.seen and asked.seen.given else 1.0

    def as_told(way: Way | None) -> Way | None:
        """With what answers took beyond their passes and levels, as far as its layers lie where theirs did."""
        return _scaled(way, beyond) if way and answers and way.tiers == answers.tiers else way

    return Ways(
        plain=as_told(one),
        small=as_told(replace(small, name="small") if small else None),
        tree=as_told(fastest(streams, found, drafted)),
        others=tuple(told),
        experts=tuple(filter(None, map(as_told, computed))),
        is_sparse=any(0 < each.chosen < SPARSE * each.experts for each in asked.target.layers),
        answers=answers,
        beyond=beyond,
    )


def _answers(asked: Case, found: Plan, trees: Sequence[TreeYield]) -> Way | None:
    """What answers gave with the target held as it would be: a round like theirs, as long as they were in the mean."""
    seen = asked.seen
    if seen is None or seen.given is None or seen.tiers != counts_of(found) or not trees:
        return None
    given = seen.given
    like = min((NO_TREE, *trees), key=lambda each: abs(each.nodes - given.nodes))
    nodes = max(1, round(given.nodes)) if like.nodes else 0
    tree = replace(like, nodes=nodes, tokens_per_pass=given.tokens_per_pass)
    way = _way(replace(asked, name="answers"), found, tree)
    return _scaled(way, given.seconds / way.seconds)


def _scaled(way: Way, factor: float) -> Way:
    """So many times as long, in all of its parts."""
    assert way.forecast
    return replace(way, seconds=factor * way.seconds, forecast=in_answers(way.forecast, factor))


def in_answers(given: Forecast, beyond: float) -> Forecast:
    """So many times as long, with its drafting; see `Ways`."""
    return replace(given.times(beyond), draft_seconds=beyond * given.draft_seconds)


def _computed_experts(asked: Case, found: Plan, trees: Sequence[TreeYield]) -> tuple[Way, ...]:
    """Without a tree and with the best one; none where no experts lie in RAM beside a GPU."""
    case = replace(asked, name="experts", ways=("computed",))
    ways = (fastest(case, found, [NO_TREE]), fastest(case, found, trees))
    return tuple(way for way in ways if way and way.forecast and way.forecast.expert_way == "computed")


def _fastest(ways: Iterable[Way | None]) -> Way | None:
    return max(filter(None, ways), key=lambda way: way.tokens_per_second, default=None)


def fastest(case: Case, found: Plan, yields: Iterable[TreeYield]) -> Way | None:
    """The fastest, with trees for which there is memory; of equally fast ones, the first."""
    possible = [each for each in yields if not each.nodes or (case.drafts and each.nodes <= found.largest_tree)]
    rate = {each: outlook(case, found, each).tokens_per_second for each in possible}
    return _way(case, found, max(possible, key=rate.__getitem__)) if possible else None


def largest_kept(case: Case) -> Case | None:
    """The same with as many layers as stay where they compute; None where all do, or none."""
    low, high = 0, len(case.target.layers)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _cut(case, middle).plan().fits else (low, middle - 1)
    return _cut(case, low) if 0 < low < len(case.target.layers) else None


def parameters_of(target: ModelNeeds) -> int:
    """Numbers in the whole target."""
    return sum(layer.elements for layer in target.layers) + target.rest_bytes // target.shape.value_bytes


def _bytes_short(other: Plan, now: Plan) -> int:
    """Memory that a plan takes beyond what the plan of now may take, in the kind of memory that lacks most."""
    device, ram = other.bytes.device - other.bytes.experts, other.bytes.ram
    return max(device - now.room.device, now.room.ram_taken(device, ram) - now.room.ram, 0)


def _moved(found: Plan) -> tuple[int, int]:
    """Bytes that come from SSD, and those that come over a link, for every pass."""
    taken = found.bytes
    return taken.ssd, taken.ram_layers


def _cut(case: Case, count: int) -> Case:
    """The target with so many of its layers, and nothing else for it to compute with than where they are."""
    target = case.target
    share = count / len(target.layers)
    smaller = replace(target, layers=target.layers[:count], kv_bytes=int(target.kv_bytes * share))
    return replace(case, name="smaller", target=smaller, override=replace(case.override, place="device", tiers=()))


def outlook(case: Case, found: Plan, tree: TreeYield) -> Forecast:
    """What a placement gives with trees of this size, as rounds have shown it where they have.

    Nothing drafts where there are no trees.
    """
    computed, seen = _computed(case, found, tree), case.seen
    if seen is None:
        return computed
    if seen.tiers == counts_of(found):
        computed = seen.corrected(computed, tree.nodes + 1, partial(_seconds_of_target, case, found))
    return seen.drafted(computed, tree.nodes, tree.levels, partial(_seconds_of_level, case, found))


def expected_passes(case: Case, found: Plan) -> PassTime:
    """Seconds of the target's passes by their rows, with nothing drafted before them."""
    seconds = [outlook(case, found, TreeYield(rows - 1, 1.0)) for rows in EXPECTED_ROWS]
    return PassTime(
        tuple(map(float, EXPECTED_ROWS)),
        tuple(accumulate((one.undrafted_seconds for one in seconds), max)),
    )


def seen_over_computed(case: Case, found: Plan) -> float:
    """Seconds of the smallest passes that rounds have shown here, over what rates say of them; 0 where none did."""
    seen = case.seen
    if seen is None or seen.tiers != counts_of(found):
        return 0.0
    return seen.passes.seconds[0] / _seconds_of_target(case, found, max(1, round(seen.passes.rows[0])))


def _seconds_of_target(case: Case, found: Plan, rows: int) -> float:
    return _computed(case, found, TreeYield(rows - 1, 1.0)).undrafted_seconds


def _seconds_of_level(case: Case, found: Plan, nodes: int) -> float:
    return _computed(case, found, TreeYield(nodes, 1.0, 1.0)).draft_seconds


def _computed(case: Case, found: Plan, tree: TreeYield) -> Forecast:
    work = replace(case.work, budget=tree.nodes, tokens_per_pass=tree.tokens_per_pass, levels=tree.levels)
    target, draft = (case.target, case.draft) if tree.nodes else (without_copies(case.target), None)
    return forecast(target, draft, found.arrangement, case.machine, work, found.bytes.expert_cache, case.ways)


def counts_of(found: Plan) -> tuple[int, int, int]:
    """Layers on the device, in RAM and on SSD."""
    count = found.arrangement.count
    return count("device"), count("ram"), count("ssd")


def _way(case: Case, found: Plan, tree: TreeYield) -> Way:
    given, rates = outlook(case, found, tree), case.machine.rates
    free = replace(case, machine=replace(case.machine, rates=with_free_arithmetic(rates)))
    computed = _computed(case, found, tree).compute_seconds
    factor = given.compute_seconds / computed if computed else 1.0
    calls = rates.layer_seconds(tree.nodes + 1) * len(case.target.layers)
    return Way(
        name=case.name,
        tiers=counts_of(found),
        nodes=tree.nodes,
        tokens_per_pass=tree.tokens_per_pass,
        seconds=given.seconds_per_round,
        bound=_bound(given, factor * _computed(free, found, tree).compute_seconds, factor * calls),
        is_measured=case.is_measured,
        levels=tree.levels,
        depth=tree.depth,
        forecast=given,
    )


def with_free_arithmetic(rates: Rates) -> Rates:
    """The same machine, if computing took no longer than reading what is computed with."""
    products, attention, stored = (_flat(each) for each in (rates.products, rates.attention, rates.stored))
    return replace(rates, tflops=math.inf, decode=math.inf, products=products, attention=attention, stored=stored)


def _flat(time: PassTime | None) -> PassTime | None:
    return PassTime((1.0, MANY_ROWS), (time(1.0),) * 2) if time else None


def without_copies(target: ModelNeeds) -> ModelNeeds:
    """Of a target that is its own draft: what it is without the tree."""
    if not target.drafts_itself:
        return target
    return replace(target, layers=tuple(replace(layer, copy_bytes=0) for layer in target.layers))


def _bound(given: Forecast, reading: float, calls: float) -> Bound:
    """What a round waits for most; `reading` and, in that, `calls`: seconds of its computation without arithmetic."""
    drafting = given.draft_seconds > given.compute_seconds and (
        given.drafts_itself or given.compute_seconds + given.draft_seconds > max(given.link_seconds, given.ssd_seconds)
    )
    slowest = max(given.compute_seconds, given.link_seconds, given.ssd_seconds)
    if drafting and given.draft_seconds > max(slowest, given.expert_seconds):
        return "drafting"
    if given.expert_seconds > slowest:
        return "processor" if given.expert_way == "computed" else "experts"
    if slowest == given.ssd_seconds:
        return "ssd"
    if slowest == given.link_seconds:
        return "link"
    if 2 * calls > given.compute_seconds:
        return "calls"
    return "arithmetic" if given.compute_seconds > ARITHMETIC * reading else "memory"
