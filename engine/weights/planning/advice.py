"""Says what the ways of a pair mean: whether a tree pays here, by what it is bound, and what would be faster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.protocol.messages import WayTold
from engine.protocol.sentences import Amount, joined, say
from engine.weights.planning.machine import gib
from engine.weights.planning.seen import Given
from engine.weights.planning.ways import PAYS, Bound, Way, WayName, Ways

BOUNDS: dict[Bound, str] = {
    "link": say("the way from RAM to the GPU"),
    "ssd": say("the SSD"),
    "experts": say("reading single experts"),
    "processor": say("the processor, which computes experts"),
    "memory": say("the rate of the memory"),
    "arithmetic": say("arithmetic"),
    "calls": say("the overhead of every layer"),
    "drafting": say("drafting"),
}
BY_EXPERTS: tuple[Bound, ...] = ("link", "ssd", "experts", "processor", "memory")
NAMES: dict[WayName, str] = {
    "plain": say("one token per pass"),
    "small": say("small tree"),
    "tree": say("best tree"),
    "answers": say("its answers so far"),
    "experts": say("experts where they lie"),
    "int8": say("weights in 8 bits"),
    "nf4": say("weights in 4 bits"),
    "kept": say("with more memory"),
    "smaller": say("a smaller target"),
}


PAIRS_DIFFER = (0.4, 1.2)  # times the published gain of a tree: what pairs gave that were measured, and texts of theirs


@dataclass(frozen=True, slots=True)
class Basis:
    """What the figures rest on: rates and tokens per pass as measured, learned, or `is_given` by hand or last answer.

    `has_seen`: rounds of this pair have shown what passes take, with the layers where they are.

    `recent`: tokens per pass of the pair's last answers; `given`: what they gave in the mean, with the layers there.
    `is_limited`: a person limits the memory that is taken; `fits`: the pair fits as asked.
    """

    is_measured: bool
    has_learned: bool
    is_given: bool
    is_limited: bool
    has_gpu: bool
    fits: bool = True
    has_seen: bool = False
    recent: tuple[float, ...] = ()
    given: Given | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """`verdict`: whether a tree pays, empty where nothing drafts; `advice`: sentences on what would be faster, if any.

    `basis`: where the expected tokens per pass come from. `expected`: the way that answers come as.
    """

    ways: tuple[WayTold, ...]
    expected: WayTold | None
    verdict: str
    advice: tuple[str, ...]
    basis: str


def told(ways: Ways, basis: Basis) -> Told:
    """All of it in words."""
    return Told(
        tuple(_in_words(way) for way in ways.all),
        _in_words(ways.expected) if ways.expected else None,
        verdict_of(ways),
        tuple(_advice(ways, basis)),
        _rests_on(basis, ways.tree) if ways.tree else "",
    )


def verdict_of_trees(ways: Ways) -> str:
    """Whether a tree pays here; empty where nothing drafts, or nothing fits."""
    tree, plain = ways.best_tree, ways.best_plain
    if tree is None or plain is None:
        return ""
    if ways.gain < PAYS and ways.is_sparse and tree.bound in BY_EXPERTS:
        return say(
            "A tree cannot pay here, as each token touches other experts: the best, of {nodes}, gives about {rate}, "
            "one token per pass {plain}; it is bound by {bound}.",
            nodes=_nodes(tree.nodes),
            rate=_rate(tree),
            plain=_rate(plain),
            bound=BOUNDS[tree.bound],
        )
    if ways.gain < PAYS:
        return say(
            "A tree cannot pay here: the best, of {nodes}, gives about {rate}, one token per pass {plain}; "
            "it is bound by {bound}.",
            nodes=_nodes(tree.nodes),
            rate=_rate(tree),
            plain=_rate(plain),
            bound=BOUNDS[tree.bound],
        )
    return say(
        "A tree of {nodes} gives about {times} times the speed of one token per pass, bound by {bound}.",
        nodes=_nodes(tree.nodes),
        times=_amount(ways.gain),
        bound=BOUNDS[tree.bound],
    )


def verdict_of(ways: Ways) -> str:
    """Whether a tree pays, and that experts are computed where they lie, where they are."""
    verdict, chosen = verdict_of_trees(ways), _choice_of_experts(ways)
    return joined((verdict, chosen)) if verdict and chosen else verdict or chosen


def _choice_of_experts(ways: Ways) -> str:
    """That experts are computed where they lie, where this is fastest; else empty."""
    best, streamed = ways.best, _best_streamed(ways)
    if best is None or best.name != "experts" or streamed is None:
        return ""
    size = say("trees of {nodes}", nodes=_nodes(best.nodes)) if best.nodes else NAMES["plain"]
    return say(
        "The processor computes experts where they lie in RAM: with {size} about {rate}, {times} times as fast as "
        "streaming them.",
        size=size,
        rate=_rate(best),
        times=_amount(best.tokens_per_second / streamed.tokens_per_second),
    )


def _best_streamed(ways: Ways) -> Way | None:
    found = [way for way in (ways.plain, ways.small, ways.tree) if way]
    return max(found, key=lambda way: way.tokens_per_second, default=None)


def _advice(ways: Ways, basis: Basis) -> Iterator[str]:
    best = ways.expected
    for way in ways.advised:
        rate = _rate(way)
        if best:
            times = _amount(way.tokens_per_second / best.tokens_per_second)
            rate = say("{rate}, {times} times as fast", rate=rate, times=times)
        yield _advised(way, rate, basis)


def _advised(way: Way, rate: str, basis: Basis) -> str:
    match way.name:
        case "kept" if basis.is_limited:
            return say("If it may take {gib} more of memory: about {rate}.", gib=gib(way.bytes_short), rate=rate)
        case "kept":
            return say(
                "If other programs leave {gib} more of memory: about {rate}.", gib=gib(way.bytes_short), rate=rate
            )
        case "smaller":
            return say(
                "A target of this kind with at most {count} billion parameters stays where it computes: about {rate}.",
                count=Amount(f"{way.parameters / 1e9:.2g}"),
                rate=rate,
            )
    bits = 4 if way.name == "nf4" else 8
    found = say("With weights in {bits} bits ({option}): about {rate}.", bits=bits, option=way.name, rate=rate)
    unknown = "" if way.is_measured or not basis.is_measured else say("How fast these unpack here is assumed.")
    return joined((found, unknown))


def _rests_on(basis: Basis, tree: Way) -> str:
    seen = say("Seconds of a pass are those that this pair's rounds took.") if basis.has_seen else ""
    return joined(filter(None, (_tokens_from(basis), _spread(basis, tree), seen)))


def _tokens_from(basis: Basis) -> str:
    if basis.has_learned:
        return say("Tokens per pass are those that this pair's answers have shown.")
    if basis.is_given:
        return say("Tokens per pass grow from this pair's own figure as published for another pair.")
    return say("Tokens per pass are assumed, as published for another pair.")


def _spread(basis: Basis, tree: Way) -> str:
    """How far what comes may be from the figure: texts differ, and pairs do as long as nothing is known of this one."""
    if given := basis.given:
        return say(
            "Texts differ: its last {count} answers came at {least} to {most} tokens/s.",
            count=given.answers,
            least=_amount(given.least),
            most=_amount(given.most),
        )
    if len(basis.recent) > 1:
        least, most = (_amount(count) for count in (min(basis.recent), max(basis.recent)))
        return say("Texts differ: its last answers had {least} to {most} tokens per pass.", least=least, most=most)
    if basis.has_learned or basis.is_given:
        return ""
    least, most = (_amount((1 + part * (tree.tokens_per_pass - 1)) / tree.seconds) for part in PAIRS_DIFFER)
    return say("Pairs differ: the best tree may give {least} to {most} tokens/s.", least=least, most=most)


def _in_words(way: Way) -> WayTold:
    return WayTold(
        name=way.name,
        words=NAMES[way.name],
        tiers=way.tiers,
        nodes=way.nodes,
        tokens_per_pass=way.tokens_per_pass,
        seconds=way.seconds,
        tokens_per_second=way.tokens_per_second,
        bound=way.bound,
        bound_words=BOUNDS[way.bound],
        is_measured=way.is_measured,
        pass_seconds=way.forecast.seconds_per_pass if way.forecast else 0.0,
        draft_seconds=way.forecast.draft_seconds if way.forecast else 0.0,
    )


def table(ways: Sequence[WayTold]) -> Iterator[str]:
    """Lines for a terminal, in columns."""
    yield f"{'':<24}{'tokens/s':>9}{'nodes':>7}{'per pass':>10}{'s/pass':>9}{'drafting':>10}  bound by"
    for way in ways:
        assumed = "" if way.is_measured else " (assumed rates)"
        yield (
            f"{way.words:<24}{way.tokens_per_second:>9.3g}{way.nodes:>7}{way.tokens_per_pass:>10.3g}"
            f"{way.pass_seconds:>9.3g}{way.draft_seconds:>10.3g}  {way.bound_words}{assumed}"
        )


def _rate(way: Way) -> str:
    return say("{rate} tokens/s", rate=_amount(way.tokens_per_second))


def _amount(number: float) -> Amount:
    return Amount(f"{number:,.0f}" if number >= 9.95 else f"{number:.1f}" if number >= 0.095 else f"{number:.2g}")


def _nodes(count: int) -> str:
    return say("1 node") if count == 1 else say("{count} nodes", count=count)
