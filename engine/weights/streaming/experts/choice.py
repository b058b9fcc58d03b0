"""Whether a pass takes whole layers or only the experts that its rows are routed to, from what passes have shown."""

from dataclasses import dataclass, replace

from engine.weights.planning.needs import expected_distinct
from engine.weights.streaming.copy_stream import Throughput

MARGIN = 0.9  # of the time of whole layers: that is predictable, what a router chooses is not
NEWEST = 0.25  # how much the newest figure counts in a running mean
UNKNOWN_RATE = 2e9  # bytes a second, until something was read; both ways then differ by their bytes alone


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
    return at.distinct <= at.slots and single_seconds(at) < MARGIN * whole_seconds(at)


@dataclass(frozen=True, slots=True)
class Mixture:
    """What is fixed: `layers` that share a cache of `slots`, each with `experts` experts; see `Situation`."""

    layers: int
    experts: int
    slots: int
    expert_bytes: int
    trunk_bytes: int
    decodes: bool


class ExpertMeter:
    """Running means. Times of computation are kept by the power of two below the number of rows."""

    def __init__(self, mixture: Mixture) -> None:
        self._mixture = mixture
        self._compute: dict[int, float] = {}
        self._single = Throughput()
        self._bind: float | None = None
        self._correlation = 1.0
        self._hit_share: float | None = None

    def computed(self, rows: int, seconds: float) -> None:
        """One layer was computed in this time, without waiting."""
        size = rows.bit_length()
        self._compute[size] = _mean(self._compute.get(size), seconds)

    def fetched(self, nbytes: int, seconds: float) -> None:
        """Experts of a layer were read one by one, while no whole layers were read."""
        self._single.add(nbytes, seconds)

    def bound(self, experts: int, seconds: float) -> None:
        """Stored bytes became weights."""
        self._bind = _mean(self._bind, seconds / experts)

    def routed(self, rows: int, chosen: int, distinct: int, hits: int | None) -> None:
        """A layer used `distinct` experts; `hits` were in the cache, None as long as it is being filled."""
        self._correlation = _mean(self._correlation, distinct / expected_distinct(self._mixture.experts, chosen, rows))
        if hits is not None:
            self._hit_share = _mean(self._hit_share, hits / distinct)

    def situation(self, rows: int, chosen: int, whole_rate: float) -> Situation:
        """The figures for a pass that is about to begin; `whole_rate` 0 if nothing was read yet.

        Whole layers are read at least as fast as single experts: a lower measured rate comes from other work at that
        time. As long as no single experts were read, the same rate is assumed for them.
        """
        mixture = self._mixture
        single_rate = self._single.bytes_per_second
        known = max(whole_rate, single_rate) or UNKNOWN_RATE
        at = Situation(
            rows=rows,
            experts=mixture.experts,
            chosen=chosen,
            slots=mixture.slots,
            expert_bytes=mixture.expert_bytes,
            trunk_bytes=mixture.trunk_bytes,
            whole_rate=known,
            single_rate=single_rate or known,
            compute_seconds=self._compute_seconds(rows),
            bind_seconds=self._bind or 0.0,
            decodes=mixture.decodes,
            correlation=self._correlation,
        )
        hit_share = self._expected_hits(at) if self._hit_share is None else self._hit_share
        return replace(at, hit_share=hit_share)

    def _compute_seconds(self, rows: int) -> float:
        """Of the nearest number of rows that was measured, the smaller of two: prompts say little about trees."""
        size = rows.bit_length()
        nearest = min(self._compute, key=lambda seen: (abs(seen - size), seen), default=None)
        return 0.0 if nearest is None else self._compute[nearest]

    def _expected_hits(self, at: Situation) -> float:
        """Before the cache was ever full: the share of all experts that fits, as if all were equally likely.

        0 if one pass through all layers needs more slots: each expert is then evicted before it is used again.
        """
        mixture = self._mixture
        if mixture.slots < mixture.layers * at.distinct:
            return 0.0
        return min(1.0, mixture.slots / (mixture.layers * mixture.experts))


def _mean(before: float | None, newest: float) -> float:
    return newest if before is None else before + NEWEST * (newest - before)
