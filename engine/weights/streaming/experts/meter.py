"""What passes over a mixture have shown: running means, from which the next pass is estimated."""

from dataclasses import dataclass, replace

from engine.weights.planning.expert_ways import ExpertWay, Situation
from engine.weights.planning.needs import expected_distinct
from engine.weights.streaming.copy_stream import Throughput

NEWEST = 0.25  # how much the newest figure counts in a running mean
UNKNOWN_RATE = 2e9  # bytes a second, until something was read; the ways then differ by their bytes alone
# Guesses until experts were multiplied where they lie: 60 GB/s from RAM against 25 over PCIe 4, and 0.8 TFLOPS, by
# which a row of an expert in 4 bits takes a quarter of what reading it does. What is measured replaces them at once.
PLACE_SPEED, ROW_SHARE = 2.4, 0.25
LEAST_WAITED = 0.05  # of the time that experts take to come: however much is computed meanwhile


@dataclass(frozen=True, slots=True)
class Mixture:
    """What is fixed: `layers` that share a cache of `slots`, each with `experts` experts; see `Situation`."""

    layers: int
    experts: int
    slots: int
    expert_bytes: int
    trunk_bytes: int
    decodes: bool
    in_place: bool = False


class LinearCost:
    """Seconds for some experts and some rows, fitted to what was measured; newer figures count more."""

    def __init__(self) -> None:
        self._sums = [0.0] * 5  # of products: experts², experts x rows, rows², experts x seconds, rows x seconds
        self._totals = [0.0] * 3  # experts, rows, seconds

    @property
    def is_known(self) -> bool:
        """Whether anything was measured."""
        return self._totals[0] > 0

    def add(self, experts: int, rows: int, seconds: float) -> None:
        """So many experts took these seconds, with so many rows routed to them in all."""
        new = (experts * experts, experts * rows, rows * rows, experts * seconds, rows * seconds)
        self._sums = [(1 - NEWEST) * old + NEWEST * each for old, each in zip(self._sums, new, strict=True)]
        totals = (experts, rows, seconds)
        self._totals = [(1 - NEWEST) * old + NEWEST * each for old, each in zip(self._totals, totals, strict=True)]

    def per_expert_and_row(self) -> tuple[float, float]:
        """Seconds for an expert, and for a row of it; neither is negative.

        Least squares, held to the usual share of the two where all that was measured is alike.
        """
        experts, rows, seconds = self._totals
        usual = seconds / (experts + ROW_SHARE * rows)
        ee, er, rr, et, rt = self._sums
        # A hundredth of the weight speaks for the usual share: too little to matter where figures differ.
        ee_held, rr_held = 1.01 * ee, 1.01 * rr
        et_held, rt_held = et + 0.01 * ee * usual, rt + 0.01 * rr * usual * ROW_SHARE
        scale = ee_held * rr_held - er * er
        each, row = (et_held * rr_held - rt_held * er) / scale, (rt_held * ee_held - et_held * er) / scale
        if row < 0:
            return seconds / experts, 0.0
        return (each, row) if each > 0 else (0.0, seconds / rows)


class ExpertMeter:
    """Running means. Times of computation are kept by the power of two below the number of rows."""

    def __init__(self, mixture: Mixture) -> None:
        self._mixture = mixture
        self._compute: dict[int, float] = {}
        self._single = Throughput()
        self._waited_share = 1.0
        self._place = LinearCost()
        self._bind: float | None = None
        self._correlation = 1.0
        self._hit_share: float | None = None

    def computed(self, rows: int, seconds: float) -> None:
        """One layer was computed in this time, without waiting."""
        size = rows.bit_length()
        self._compute[size] = _mean(self._compute.get(size), seconds)

    def fetched(self, nbytes: int, seconds: float, waited: float | None = None) -> None:
        """Experts of a layer were read one by one, while no whole layers were read.

        `waited`: so long the pass that needs them did nothing else; None for experts that a later pass may need.
        """
        self._single.add(nbytes, seconds)
        if waited is not None:
            self._waited_share = _mean(self._waited_share, min(1.0, waited / seconds))

    def bound(self, experts: int, seconds: float) -> None:
        """Stored bytes became weights."""
        self._bind = _mean(self._bind, seconds / experts)

    def multiplied(self, experts: int, rows: int, seconds: float) -> None:
        """The processor multiplied `rows` rows in all with experts where they lie."""
        self._place.add(experts, rows, seconds)

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
        guess = mixture.expert_bytes / (PLACE_SPEED * known)
        place, row = self._place.per_expert_and_row() if self._place.is_known else (guess, ROW_SHARE * guess)
        at = Situation(
            rows=rows,
            experts=mixture.experts,
            chosen=chosen,
            slots=mixture.slots,
            expert_bytes=mixture.expert_bytes,
            trunk_bytes=mixture.trunk_bytes,
            whole_rate=known,
            single_rate=(single_rate or known) / max(self._waited_share, LEAST_WAITED),
            compute_seconds=self._compute_seconds(rows),
            bind_seconds=self._bind or 0.0,
            decodes=mixture.decodes,
            correlation=self._correlation,
            in_place=mixture.in_place,
            place_seconds=place,
            row_seconds=row,
            unmeasured=self._unmeasured(),
        )
        hit_share = self._expected_hits(at) if self._hit_share is None else self._hit_share
        return replace(at, hit_share=hit_share)

    def _unmeasured(self) -> frozenset[ExpertWay]:
        """The ways of which nothing is known. Where all experts come one by one anyway, there is nothing to try."""
        if not self._mixture.in_place:
            return frozenset()
        measured = {"single": bool(self._single.bytes_per_second), "computed": self._place.is_known}
        ways: tuple[ExpertWay, ...] = ("single", "computed")
        return frozenset(way for way in ways if not measured[way])

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
