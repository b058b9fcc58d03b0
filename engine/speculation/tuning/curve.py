"""A quantity that never falls with size, learnt online from noisy measurements: seconds of a pass against its rows."""

import math

import numpy as np

from engine.speculation.methods.monotone import isotonic
from engine.speculation.trees.arrays import Numbers, State, figure, shortened
from engine.speculation.tuning.roofline import closest

FADING = 0.93  # what an old measurement counts for when the next one at about the same size arrives
FIRST = 0.5  # what a first measurement counts for: it includes whatever is done only once
UNSURE = 0.25  # what a prediction counts for that stands in for a first measurement
ONCE = 2.0  # so much lower may be what was measured once
SPIKE = 1.5  # a measurement farther off, by this factor, counts only up to there
SUSPECT = 3.0  # a first measurement of a size this far above what the other sizes tell is not believed until repeated
FAMILIAR = 2.0  # measurements of a size before it tells that all sizes have changed
DOUBT = 1.5  # measurements that a roofline counts for against those of a size, if it fits the other sizes
IMPOSSIBLE = 1.5  # so many times what a larger size takes
NOISE = 0.15  # a deviation, as a logarithm, that means nothing
CALMER, BUSIER = 1.5, 0.6  # how much more, or less, one that is shorter or longer than the first ones counts
SLOWER, FASTER, ABOUT = 0.25, 0.6, 0.05  # how far the level follows one deviation: other work makes slow, nothing fast

DOUBLING = 1.9  # 64 and 32 nodes are 65 and 33 rows

Points = tuple[list[float], list[float]]
"""Sizes, ascending, and the values there."""


class Curve:
    """Measurements in bins, two to a doubling of the size; between them linear, made rising by isotonic regression.

    A change that hits every size, such as a disk of half the rate, shows only at the sizes in use. So all sizes have a
    level in common that follows such changes, and the bins tell the sizes apart.
    """

    def __init__(self) -> None:
        self.level = 1.0
        self.is_settled = True  # whether the last measurement of a size that is well known was as expected
        self._bins: dict[int, tuple[float, float, float]] = {}  # size, value at level 1, weight
        self._suspects: dict[int, float] = {}  # first measurements that are not believed, by bin
        self._fit: Points | None = None
        self._sober_fit: Points | None = None

    def observe(self, size: float, value: float) -> None:
        """One measurement; `size` from 1 on, `value` from 0 on.

        The first one of a size may hold work that is done once, up to a hundred times the rest. If it lies far above
        what the other sizes predict, the prediction stands until a second one; then the lower of both is believed.
        """
        place = _bin(size)
        old_size, old, weight = self._bins.get(place, (size, 0.0, UNSURE))
        if weight < FIRST:
            self._begin(place, size, value)
        elif weight == FIRST and value < old * self.level / SPIKE:  # the first one held work that is done once
            self._bins[place] = (size, value / self.level, FIRST)
        else:
            weight *= FADING
            if weight >= FAMILIAR:
                self._follow(value, old)
            shape = min(value / self.level, old * SPIKE)
            if weight > FIRST:
                shape = max(shape, old / SPIKE)
            share = 1.0 / (weight + 1.0)
            if FIRST < weight < FAMILIAR:
                share = min(share * (CALMER if shape < old else BUSIER), 1.0)
            self._bins[place] = (old_size + (size - old_size) * share, old + (shape - old) * share, weight + 1.0)
        self._refute(place)
        self._fit = self._sober_fit = None

    def _begin(self, place: int, size: float, value: float) -> None:
        """A first measurement, or the repetition of one that was not believed."""
        predicted = float(self.soberly_over(np.array([float(size)]))[0])
        if place in self._suspects:
            value = min(value, self._suspects.pop(place))
        elif value > SUSPECT * predicted > 0:
            self._suspects[place] = value
            self._bins[place] = (size, predicted / self.level, UNSURE)
            return
        self._bins[place] = (size, value / self.level, FIRST)

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        return {"level": shortened(self.level), "bins": [shortened(list(each)) for each in self._bins.values()]}

    @classmethod
    def restored(cls, state: State) -> "Curve":
        """As it was kept: a size counts for no more than two measurements. Raises for what is no state."""
        curve = cls()
        curve.level = figure(state["level"], 1e-6, 1e6)
        for size, value, weight in state["bins"]:
            at = figure(size, 1.0, 1e6)
            curve._bins[_bin(at)] = (at, figure(value, 0.0), min(figure(weight, 1e-6), FAMILIAR / FADING))
        return curve

    def is_known_at(self, size: float) -> bool:
        """Whether something of about this size was measured."""
        return _bin(size) in self._bins

    def is_sure_near(self, size: float) -> bool:
        """Whether this size and the next smaller and larger ones together were measured more than once."""
        if _bin(size) in self._suspects:
            return False
        near = (self._bins.get(_bin(size) + step) for step in (-1, 0, 1))
        return sum(measured[2] for measured in near if measured) > 2 * FIRST

    def doubt(self, size: float) -> None:
        """The machine is another one: what was measured of larger sizes no longer holds, and the rest counts little."""
        self._bins = {place: (at, value, FIRST) for place, (at, value, _) in self._bins.items() if place <= _bin(size)}
        self._suspects = {}
        self._fit = self._sober_fit = None

    @property
    def largest(self) -> float:
        """The largest size whose measurement is believed; 0 if there is none."""
        return max((size for place, (size, _, _) in self._bins.items() if place not in self._suspects), default=0.0)

    def at(self, size: float) -> float:
        """The expected value; below the smallest size measured as there, beyond the largest on along the last slope.

        0 if nothing was measured.
        """
        if not self._bins:
            return 0.0
        return float(self.over(np.array([float(size)]))[0])

    def over(self, sizes: Numbers) -> Numbers:
        """`at` for many sizes at once."""
        self._fit = self._fit or self._hopeful()
        return self._along(self._fit, sizes)

    def soberly_over(self, sizes: Numbers) -> Numbers:
        """The same without the hope that what was measured only once is better than it looked.

        Between the sizes measured it goes as the closest roofline does where that lies lower than a straight line: over
        the corner such a line would make the last rows that cost nothing look dear, and they would never be tried.
        """
        self._sober_fit = self._sober_fit or self._sober()
        return self._along(self._sober_fit, sizes)

    def _along(self, fit: Points, sizes: Numbers) -> Numbers:
        known, values = fit
        if not known:
            return np.zeros_like(sizes)
        beyond = np.maximum(sizes - known[-1], 0.0) * _slope(known, values)
        return self.level * (np.interp(sizes, known, values) + beyond)

    def _follow(self, value: float, shape: float) -> None:
        """Let the level go some way towards what a size that is well known tells."""
        if value > 0 and shape > 0:
            off = min(max(math.log(value / (shape * self.level)), -1.5), 1.5)
            self.is_settled = abs(off) < NOISE
            gain = ABOUT if self.is_settled else SLOWER if off > 0 else FASTER
            self.level *= math.exp(gain * off)

    def _refute(self, place: int) -> None:
        """Smaller sizes that are remembered as far dearer than this one were measured on a machine that was slower."""
        value = self._bins[place][1]
        dearer = [other for other in self._bins if other < place and self._bins[other][1] > IMPOSSIBLE * value > 0]
        slower = max((self._bins[other][1] / value for other in dearer), default=1.0)
        for other in dearer:
            size, remembered, weight = self._bins[other]
            self._bins[other] = size, remembered / slower, weight

    def _hopeful(self) -> Points:
        sizes, values, weights = self._measured()
        hoped = [value if weight > FIRST else value / ONCE for value, weight in zip(values, weights, strict=True)]
        return sizes, isotonic(hoped, weights)

    def _sober(self) -> Points:
        sizes, values, weights = self._measured()
        rising = isotonic(values, weights)
        roofline = closest(sizes, rising, weights) if min(rising, default=0.0) > 0 else None
        if roofline is None:
            return sizes, rising
        sure = np.array(weights) / (np.array(weights) + DOUBT)
        off = 1.0 + sure * (np.array(rising) / roofline.over(np.array(sizes)) - 1.0)
        corner = [roofline.corner] if sizes[0] < roofline.corner < sizes[-1] else []
        points = np.array(sorted({*sizes, *corner}))
        curved, straight = roofline.over(points) * np.interp(points, sizes, off), np.interp(points, sizes, rising)
        return points.tolist(), isotonic(np.minimum(curved, straight).tolist(), [1.0] * len(points))

    def _measured(self) -> tuple[list[float], list[float], list[float]]:
        """Sizes, ascending, with their values at level 1 and the weights of these."""
        bins = [self._bins[place] for place in sorted(self._bins)]
        return [size for size, _, _ in bins], [value for _, value, _ in bins], [weight for _, _, weight in bins]


def _bin(size: float) -> int:
    return round(2 * math.log2(size))


def _slope(sizes: list[float], values: list[float]) -> float:
    """Of the last part of the curve; over a doubling at least, as what lies closer together is mostly noise."""
    far = [index for index, size in enumerate(sizes) if DOUBLING * size <= sizes[-1]]
    return (values[-1] - values[far[-1]]) / (sizes[-1] - sizes[far[-1]]) if far else 0.0
