"""How a pass has its experts: in whole layers, one by one, or multiplied where they lie; what each would take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.weights.planning.needs import expected_distinct

ExpertWay = Literal["whole", "single", "computed"]
"""All experts of a layer come to the device, read ahead; those in use come to its slots; or the processor multiplies
them where they lie in RAM, while the device computes those that its slots hold.
"""

MARGIN = 0.9  # of the time of whole layers: that is predictable, what a router chooses is not
NEAR = 1.25  # times the best estimate: a way that was never measured is tried once if its estimate is no worse


@dataclass(frozen=True, slots=True)
class Situation:
    """A pass of `rows` tokens through layers of `experts` experts, of which a token is routed to `chosen`.

    `slots`: experts that the cache can hold; `whole_rate` and `single_rate`: bytes a second of whole layers on their
    way through the rings, and of experts read one by one, the faster the more is computed meanwhile; `compute_seconds`:
    one layer's computation alone, without what the processor computes of experts in RAM; `bind_seconds`: what it takes
    to make an expert's stored bytes its weights, which whole layers need too if `decodes`; `correlation`: how many
    different experts passes use, as a part of what they would if every token were routed on its own; `hit_share`: the
    part of these that the cache holds.

    `in_place`: the processor can multiply experts where they lie; `place_seconds`: what that takes for an expert, and
    `row_seconds` for each row that is routed to it. `unmeasured`: ways that no pass has taken yet.
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
    in_place: bool = False
    place_seconds: float = 0.0
    row_seconds: float = 0.0
    unmeasured: frozenset[ExpertWay] = frozenset()

    @property
    def distinct(self) -> float:
        """The experts that one layer of this pass is expected to use."""
        return max(self.correlation * expected_distinct(self.experts, self.chosen, self.rows), float(self.chosen))


Choose = Callable[[Situation], ExpertWay]
"""Decides how a pass has its experts. A way that is not possible gives way to the next: computed, single, whole."""


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


def computed_seconds(at: Situation) -> float:
    """One layer of a pass whose experts are multiplied where they lie, but for those that the cache holds.

    The device binds and computes these while the processor computes the others, so that only the slower of both counts.
    """
    missing = 1 - at.hit_share
    processor = missing * (at.distinct * at.place_seconds + at.rows * at.chosen * at.row_seconds)
    device = at.hit_share * at.distinct * at.bind_seconds
    return max(at.trunk_bytes / at.whole_rate, at.compute_seconds) + max(processor, device)


def seconds_of(at: Situation) -> Mapping[ExpertWay, float]:
    """What one layer takes in each way that is possible."""
    found: dict[ExpertWay, float] = {"whole": whole_seconds(at)}
    if at.distinct <= at.slots:
        found["single"] = single_seconds(at)
    if at.in_place:
        found["computed"] = computed_seconds(at)
    return found


def fastest_way(at: Situation) -> ExpertWay:
    """The way to take: the others must take clearly less time than whole layers.

    A few rows use few experts. Hundreds, as of a prompt, use nearly all, and then reading ahead wins, unless the cache
    holds most of them. A way that was never taken is tried once where it may be the best.
    """
    seconds = seconds_of(at)
    best = min(seconds, key=lambda way: seconds[way] * (MARGIN if way == "whole" else 1.0))
    limit = NEAR * seconds[best]
    untried = [way for way in seconds if way in at.unmeasured and way != "whole" and seconds[way] < limit]
    return min(untried, key=seconds.__getitem__) if untried else best
