"""A pass that takes as long as the slower of two things: bringing the weights, or computing the rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.speculation.trees.arrays import Numbers

FEWEST = 3  # sizes that a roofline can be told from


@dataclass(frozen=True, slots=True)
class Roofline:
    """max(flat, begin + slope * size), after Williams, Waterman and Patterson (2009)."""

    flat: float
    begin: float
    slope: float

    def over(self, sizes: Numbers) -> Numbers:
        """The values at these sizes."""
        return np.maximum(self.flat, self.begin + self.slope * sizes)

    @property
    def corner(self) -> float:
        """The size from which on it rises; 0 if it never does, or always."""
        return max((self.flat - self.begin) / self.slope, 0.0) if self.slope > 0 else 0.0


def closest(sizes: Sequence[float], values: Sequence[float], weights: Sequence[float]) -> Roofline | None:
    """The roofline with the least relative errors, squared and weighted; None for too few sizes.

    `sizes` ascending, `values` and `weights` above 0. Every place is tried for the corner: before it the mean, behind
    it the line of least squares.
    """
    if len(sizes) < FEWEST:
        return None
    at, value = np.array(sizes), np.array(values)
    weight = np.array(weights) / value**2
    tried = [
        Roofline(_mean(value[:flat], weight[:flat]), *_line(at[flat:], value[flat:], weight[flat:]))
        for flat in range(len(at) + 1)
        if flat != len(at) - 1  # nothing rises at a single size
    ]
    return min(tried, key=lambda roofline: float((weight * (value - roofline.over(at)) ** 2).sum()))


def _mean(values: Numbers, weights: Numbers) -> float:
    return float((weights * values).sum() / weights.sum()) if len(values) else 0.0


def _line(sizes: Numbers, values: Numbers, weights: Numbers) -> tuple[float, float]:
    """Where it begins, and its slope, which is never negative."""
    middle, mean = _mean(sizes, weights), _mean(values, weights)
    spread = float((weights * (sizes - middle) ** 2).sum())
    slope = max(float((weights * (sizes - middle) * (values - mean)).sum()) / spread, 0.0) if spread else 0.0
    return mean - slope * middle, slope
