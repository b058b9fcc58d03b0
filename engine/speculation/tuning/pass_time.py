"""Seconds of a pass against its rows: one model for the planner, for Sequoia's optimiser and for `auto`."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from operator import truediv
from statistics import fmean, median, median_low

import numpy as np

from engine.speculation.trees.arrays import Numbers, State, figures, isotonic, shortened

WINDOW = 8  # the last measurements of a size that an estimate rests on
ENOUGH = 2  # measurements of a size that it is judged by, and that are kept for another start
UNUSUAL = 1.4  # by this factor a measurement must differ to be an outlier, or three in a row to mean a change
PRIOR = 3.0  # measurements that count as much as what is expected of a size, beside the other sizes
STEP = 4  # so many times the largest size measured, an estimate goes on along its last slope
HIDING_PENALTY = 15.0  # ridge penalty on the hidden share of drafting, in variances of what it leaves unexplained

Measurement = tuple[float, float, float]  # of a pass: its rows, its seconds, and those of the drafting before it


@dataclass(frozen=True, slots=True)
class PassTime:
    """Seconds at ascending numbers of rows: few rows are bound by reading weights, many by arithmetic.

    Linear in between and constant below the first. Beyond the last it grows in proportion, which is the most it can.
    """

    rows: tuple[float, ...]
    seconds: tuple[float, ...]

    def __call__(self, rows: float) -> float:
        """Seconds of a pass over so many rows."""
        place = bisect_right(self.rows, rows)
        if place == 0:
            return self.seconds[0]
        if place == len(self.rows):
            return self.seconds[-1] * rows / self.rows[-1]
        low, high = self.rows[place - 1 : place + 1]
        least, most = self.seconds[place - 1 : place + 1]
        return least + (most - least) * (rows - low) / (high - low)

    def over(self, rows: Numbers) -> Numbers:
        """The same for many numbers of rows at once; float64 of any shape."""
        inside: Numbers = np.interp(rows, self.rows, self.seconds)
        return inside * np.maximum(rows / self.rows[-1], 1.0)


class MeasuredPasses:
    """Noisy measurements of passes, and `time`, the `PassTime` that follows from them: 0 throughout without any.

    Rows are binned, two bins to a doubling, and a bin counts with the lower median of its last measurements: one slow
    pass means nothing once there is another one. Where passes of one size change for good, other sizes are forgotten,
    and so are sizes that took far longer than larger ones do now.

    Streamed weights keep coming while the draft is at work, and the pass waits the less for them. So `time` is that of
    passes as if nothing had been drafted before, and `hidden` the share of drafting, 0 to 1, that costs nothing.
    """

    def __init__(self) -> None:
        self.expected: PassTime | None = None
        self._bins: dict[int, list[Measurement]] = {}  # of each size; latest last
        self._fit()

    def observe(self, rows: float, seconds: float, draft_seconds: float = 0.0) -> bool:
        """One measurement, `rows` from 1 on, and the drafting before it; returns whether the machine has changed."""
        place, hidden = _bin(rows), self.hidden
        measured = self._bins[place] = [*self._bins.get(place, []), (rows, seconds, draft_seconds)][-WINDOW:]
        ratios = [(one + hidden * drafting) / max(self.time(size), 1e-9) for size, one, drafting in measured]
        level = median_low(ratios[:-3]) if len(ratios) >= ENOUGH + 3 else 0.0
        has_changed = level > 0.0 and (min(ratios[-3:]) > UNUSUAL * level or UNUSUAL * max(ratios[-3:]) < level)
        if has_changed:
            self._bins = {place: measured[-3:]}
        now = UNUSUAL * (seconds + hidden * draft_seconds)
        slower = [other for other in self._bins if other < place and _usual(self._bins[other], hidden) > now]
        self._bins = {other: found for other, found in self._bins.items() if other not in slower}
        self._fit()
        return has_changed or bool(slower)

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        return {"measured": [shortened(list(each)) for found in self._bins.values() for each in found[-ENOUGH:]]}

    @classmethod
    def restored(cls, state: State) -> "MeasuredPasses":
        """As it was kept; raises for what is no state."""
        passes = cls()
        for each in state["measured"]:
            rows, seconds, drafting = figures(each, (3,), 0.0).tolist()
            passes._bins.setdefault(_bin(max(rows, 1.0)), []).append((max(rows, 1.0), seconds, drafting))
        passes._fit()
        return passes

    def expect(self, expected: PassTime | None) -> None:
        """How passes should compare by their rows: it goes on so beyond those measured, which are drawn towards it.

        But no longer than in proportion, as a plan may have it where a few rows bring all experts of a layer: a size
        that seemed so dear would never be measured.
        """
        self.expected = expected and _in_proportion(expected)
        self._fit()

    def count(self, rows: float) -> int:
        """How often a pass over about so many rows was measured."""
        return len(self._bins.get(_bin(rows), ()))

    @property
    def largest(self) -> float:
        """The most rows measured; 0 if nothing was."""
        return max((each[0] for found in self._bins.values() for each in found), default=0.0)

    @property
    def known(self) -> PassTime | None:
        """The sizes that were measured often enough, with what passes of them take; None where none was."""
        found = [each for _, each in sorted(self._bins.items()) if len(each) >= ENOUGH]
        if not found:
            return None
        rows = tuple(fmean(size for size, _, _ in each) for each in found)
        seconds = isotonic([_usual(each, self.hidden) for each in found], [float(len(each)) for each in found])
        return PassTime(rows, tuple(map(float, seconds)))

    def _fit(self) -> None:
        """Isotonic regression over the bins.

        A first measurement counts as no more than passes over more rows, or than in proportion to those over fewer: if
        it was slow, its size must be tried again. What is `expected` has a say, too: else a size that was fast by luck
        makes all larger ones look dear. But what was far faster than expected, twice, was so by no accident.
        """
        found = [each for _, each in sorted(self._bins.items())] or [[(1.0, 0.0, 0.0)]]
        self.hidden = _hidden_share([each for each in found if len(each) >= ENOUGH])
        rows = [fmean(size for size, _, _ in each) for each in found]
        values = [_usual(each, self.hidden) for each in found]
        for index, each in enumerate(found):
            if len(each) < ENOUGH:
                values[index] = min(values[i] * max(rows[index] / rows[i], 1.0) for i in range(len(rows)))
        counts = [float(len(each)) for each in found]
        if self.expected:
            told = [self.expected(size) for size in rows]
            scale = PRIOR * median(map(truediv, values, told))
            for index, (n, one, like) in enumerate(zip(counts, values, told, strict=True)):
                if n < ENOUGH or PRIOR * one > scale * like / 2:
                    values[index] = (n * one + scale * like) / (n + PRIOR)
        self.time = _with_corners(rows, isotonic(values, counts), self.expected)


def _bin(rows: float) -> int:
    return round(2 * log2(rows))


def _usual(measured: Sequence[Measurement], hidden: float) -> float:
    return median_low(seconds + hidden * drafting for _, seconds, drafting in measured)


def _hidden_share(bins: Sequence[Sequence[Measurement]]) -> float:
    """Regression within bins of the seconds of passes on those of drafting, shrunk to 0 where that explains little."""
    square, both, squares, count = 0.0, 0.0, 0.0, 1  # no arrays: these would be too short to be faster
    for measured in bins:
        usual, drafting = median(each[1] for each in measured), fmean(each[2] for each in measured)
        least, most = (1 / UNUSUAL - 1) * usual, (UNUSUAL - 1) * usual
        for _, seconds, draft_seconds in measured:
            x, y = draft_seconds - drafting, min(max(seconds - usual, least), most)
            square, both, squares, count = square + x * x, both + x * y, squares + y * y, count + 1
    if both >= 0.0:
        return 0.0
    unexplained = (squares - both**2 / square) / count
    return min(-both / (square + HIDING_PENALTY * unexplained), 1.0)


def _with_corners(rows: Sequence[float], seconds: Sequence[float], expected: PassTime | None) -> PassTime:
    """Between two sizes as little as may be: no less than over fewer rows, nor in proportion to more.

    So passes bound by reading weights bend at once to those bound by arithmetic; with straight lines the last rows that
    cost nothing would never be tried. Beyond the sizes measured it goes on as `expected`, else along the last slope,
    over a doubling at least.
    """
    last, longest = rows[-1], seconds[-1]
    points = _scaled(expected, lambda at: at < rows[0], seconds[0] / expected(rows[0])) if expected else []
    for (low, least), (high, most) in pairwise(zip(rows, seconds, strict=True)):
        corner = high * least / most if most else low
        points += [(low, least), (corner, least)] if low < corner < high else [(low, least)]
    slopes = [(longest - one) / (last - at) for at, one in zip(rows, seconds, strict=True) if 1.9 * at <= last]
    beyond = [(STEP * last, longest + (slopes[-1] if slopes else 0.0) * (STEP - 1) * last)]
    if expected:
        beyond = _scaled(expected, lambda at: at > last, longest / expected(last))
    points += [(last, longest), *beyond]
    return PassTime(*(tuple(each) for each in zip(*points, strict=True)))


def _in_proportion(time: PassTime) -> PassTime:
    """The same, where no time grows by more than its rows do."""
    seconds = [time.seconds[0]]
    for (low, high), one in zip(pairwise(time.rows), time.seconds[1:], strict=True):
        seconds.append(min(one, seconds[-1] * high / low))
    return PassTime(time.rows, tuple(seconds))


def _scaled(time: PassTime, is_wanted: Callable[[float], bool], factor: float) -> list[tuple[float, float]]:
    return [(at, factor * one) for at, one in zip(time.rows, time.seconds, strict=True) if is_wanted(at)]
