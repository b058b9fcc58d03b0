"""Seconds that an expert costs which a pass touches, and how many experts passes of a size touch."""

from collections import defaultdict, deque
from itertools import combinations
from math import log2

import numpy as np

from engine.speculation.experts.routed_sets import expected_distinct
from engine.speculation.trees.arrays import Integers, Numbers

WINDOW = 8  # passes of a size, the last ones, as those that the time of passes rests on
PASSES = 48  # the last ones, that the seconds of an expert follow from
ENOUGH = 8  # passes before anything follows
REFIT = 4  # passes between two regressions at least, and this part of those that it rests on: it takes some time
ROUNDS = 4  # of reweighting in a regression
TUNING = 1.345  # Huber's constant: residuals beyond so many standard deviations count the less
CONSISTENT = 1.4826  # times the median of absolute residuals is a standard deviation, if they are normal
BINS = 2  # to a doubling of rows, as those that the time of passes is kept in
PROOF = 6.0  # an F statistic: what the term of experts must explain of the seconds to be believed


class ExpertTime:
    """Robust regression of the seconds of passes on their rows and on the different experts that they touched.

    Relative errors count, as slow passes vary more. No term is below 0, and that of experts is 0 as long as it does not
    explain much: where whole layers are read, seconds do not depend on what routers choose.
    """

    def __init__(self) -> None:
        self._passes: deque[tuple[float, float, float]] = deque(maxlen=PASSES)  # rows, experts, seconds
        self._shares = _BySize()  # of what independent routing would touch
        self._foretold = _BySize()  # of what was foretold
        self._per_expert = 0.0
        self._fitted = 0  # passes that were known then
        self._seen = 0

    def observe(self, rows: int, distinct: float, seconds: float, independent: float) -> None:
        """One pass; `independent`: how many experts it would have touched, had its rows been routed independently."""
        self._passes.append((float(rows), distinct, seconds))
        self._shares.add(rows, distinct / independent)
        self._seen += 1

    @property
    def seconds_per_expert(self) -> float:
        """What one more expert costs; 0 where that is not known."""
        known = len(self._passes)
        if known >= ENOUGH and self._seen - self._fitted >= max(REFIT, known // REFIT):
            self._per_expert = _regression(np.array(self._passes))
            self._fitted = self._seen
        return self._per_expert

    def typical(self, rows: Integers, layers: float, count: int, chosen: int) -> Numbers:
        """float64 [n]: experts that passes of so many rows touched lately, in all `layers`; never falling.

        The same passes that the time of such a size was measured by. Where sizes were not seen, as of independent
        routing, less what the nearest sizes had less.
        """
        independent = layers * expected_distinct(count, chosen, rows)
        typical: Numbers = np.maximum.accumulate(self._shares.over(rows) * independent)
        return typical

    def foretell(self, rows: int, ratio: float) -> None:
        """A pass over so many rows touched so many times the experts that were foretold."""
        self._foretold.add(rows, ratio)

    def foretold(self, rows: Integers) -> Numbers:
        """float64 [n]: what predictions for passes of so many rows are to be multiplied with.

        So they are right on average, though rows of one pass are more alike than independent ones, and though trees
        are chosen by the same predictions.
        """
        return self._foretold.over(rows)


class _BySize:
    """The mean of the last figures of passes of each size; in between and beyond, that of the nearest ones."""

    def __init__(self) -> None:
        self._bins: defaultdict[int, deque[float]] = defaultdict(lambda: deque(maxlen=WINDOW))

    def add(self, rows: int, figure: float) -> None:
        self._bins[round(BINS * log2(rows))].append(figure)

    def over(self, rows: Integers) -> Numbers:
        """float64 [n]; 1 throughout if nothing was seen."""
        bins = sorted(self._bins) or [0]
        means = [float(np.mean(self._bins.get(each, [1.0]))) for each in bins]
        found: Numbers = np.interp(BINS * np.log2(rows), bins, means)
        return found


def _regression(passes: Numbers) -> float:
    """Seconds per expert; passes: float64 [n, 3], rows, experts and seconds."""
    seconds = passes[:, 2].clip(1e-9)
    terms = np.stack([np.ones(len(passes)), passes[:, 0], passes[:, 1]], 1) / seconds[:, None]
    weights, found = np.ones(len(passes)), np.zeros(3)
    for _ in range(ROUNDS):
        found = _least_squares(terms, weights, 3)
        errors = np.abs(terms @ found - 1.0)
        spread = max(CONSISTENT * float(np.median(errors)), 1e-6)
        weights = np.minimum(1.0, TUNING * spread / errors.clip(1e-12))
    without = np.append(_least_squares(terms[:, :2], weights, 2), 0.0)
    left, more = (float((weights * (terms @ each - 1.0) ** 2).sum()) for each in (found, without))
    is_proven = more - left > PROOF * max(left, 1e-12) / (len(passes) - 3)
    return float(found[2]) if is_proven else 0.0


def _least_squares(terms: Numbers, weights: Numbers, columns: int) -> Numbers:
    """Of all columns, none with a factor below 0: the best of what some of them give alone."""
    weighted = terms * weights[:, None]
    squares, targets = weighted.T @ terms, weighted.sum(0)
    best, least = np.zeros(columns), 0.0
    for size in range(1, columns + 1):
        for chosen in map(list, combinations(range(columns), size)):
            part, _, rank, _ = np.linalg.lstsq(squares[np.ix_(chosen, chosen)], targets[chosen], rcond=1e-10)
            loss = -float(part @ targets[chosen])  # up to a constant, as it is where the gradient is 0
            if rank == size and (part >= 0.0).all() and loss < least:
                best, least = np.zeros(columns), loss
                best[chosen] = part
    return best
