"""Whether a pass takes whole layers or only the experts that its rows are routed to: pure, from measured figures."""

from dataclasses import dataclass

CLEARLY = 0.9  # of the time of whole layers: what is read ahead arrives as foreseen, what a router chooses may not


@dataclass(frozen=True, slots=True)
class Situation:
    """A pass of `rows` tokens through layers of `experts` experts, of which a token is routed to `chosen`.

    `slots`: experts that the cache can hold; `whole_rate` and `single_rate`: bytes a second of whole layers on their
    way through the rings, and of experts read one by one; `compute_seconds`: one layer's computation alone;
    `bind_seconds`: what it takes to make an expert's stored bytes its weights, which whole layers need too if
    `decodes`; `correlation`: how many different experts passes use, as a part of what they would if every token were
    routed on its own; `hit_share`: the part of these that the cache holds.
    """

    rows: int
    experts: int
    chosen: int
    slots: int
    expert_bytes: int
    trunk_bytes: int
    whole_rate: float
    single_rate: float
    compute_seconds: float = 0.0
    bind_seconds: float = 0.0
    decodes: bool = False
    correlation: float = 1.0
    hit_share: float = 0.0

    @property
    def distinct(self) -> float:
        """The experts that one layer of this pass is expected to use."""
        return max(self.correlation * expected_distinct(self.experts, self.chosen, self.rows), float(self.chosen))


def expected_distinct(experts: int, chosen: int, rows: int) -> float:
    """How many different experts `rows` tokens use that are routed independently, to `chosen` of them each."""
    return experts * (1 - (1 - chosen / experts) ** rows)


def whole_seconds(at: Situation) -> float:
    """One layer of a pass that takes whole layers: they are read ahead, so that only the slower of both counts."""
    reading = (at.trunk_bytes + at.experts * at.expert_bytes) / at.whole_rate
    decoding = at.experts * at.bind_seconds if at.decodes else 0.0
    return max(reading, at.compute_seconds + decoding)


def single_seconds(at: Situation) -> float:
    """One layer of a pass that takes single experts: only the trunk is read ahead.

    Experts cannot be asked for before the router has run in the layer itself, so reading those that the cache lacks,
    and binding them all, adds to the computation.
    """
    reading = (1 - at.hit_share) * at.expert_bytes / at.single_rate
    return max(at.trunk_bytes / at.whole_rate, at.compute_seconds) + at.distinct * (reading + at.bind_seconds)


def single_is_faster(at: Situation) -> bool:
    """Whether to take single experts: they must find room in the cache, and take clearly less time than whole layers.

    A few rows use few experts. Hundreds, as of a prompt, use nearly all, and then reading ahead wins, unless the cache
    holds most of them. The bits of the result are the same either way.
    """
    return at.distinct <= at.slots and single_seconds(at) < CLEARLY * whole_seconds(at)
