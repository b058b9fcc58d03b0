"""Arrays of numpy: their types, figures in JSON, checked as they are read, and isotonic regression."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]


State = dict[str, Any]
"""What something has learnt, as JSON holds it."""

DIGITS = 6


def shortened(values: Any) -> Any:
    """A number, or an array of any shape as nested lists, with as many digits as mean something."""
    if isinstance(values, list):
        return [shortened(value) for value in values]
    return shortened(values.tolist()) if hasattr(values, "tolist") else float(f"{values:.{DIGITS}g}")


def figure(value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """The number; raises `ValueError` if it is none between these two, or none at all."""
    number = float(value)
    if not math.isfinite(number) or not least <= number <= most:
        raise ValueError(f"{number} is not from {least} to {most}")
    return number


def figures(value: Any, shape: Sequence[int], least: float = -math.inf) -> NDArray[np.float64]:
    """The array; raises `ValueError` if it has another shape, or holds anything but numbers from `least` on."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape != tuple(shape) or not np.isfinite(array).all() or (array < least).any():
        raise ValueError(f"no figures of the shape {tuple(shape)}")
    return array


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence with the least weighted squared distance from `values`; every weight above 0.

    By pooling adjacent violators.
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for value, weight in zip(values, weights, strict=True):
        mean, mass, members = value, weight, 1
        while pools and pools[-1][0] > mean:
            before, mass_before, members_before = pools.pop()
            mean = (before * mass_before + mean * mass) / (mass_before + mass)
            mass, members = mass_before + mass, members_before + members
        pools.append((mean, mass, members))
    return [mean for mean, _, members in pools for _ in range(members)]
