"""The corner from which on a pass is bound by arithmetic, told from a few measurements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.speculation.tuning.roofline import Roofline, closest

SIZES = [1.0, 3.0, 9.0, 17.0, 33.0, 65.0, 129.0, 257.0, 513.0]


@given(st.floats(0.1, 10.0), st.floats(4.0, 200.0), st.floats(0.0, 0.9))
def test_it_is_found_exactly_where_there_is_one(flat: float, corner: float, begin: float) -> None:
    """`begin`: what the arithmetic takes without any row, as a part of the flat piece."""
    true = Roofline(flat, begin * flat, flat * (1 - begin) / corner)
    found = closest(SIZES, true.over(np.array(SIZES)).tolist(), [1.0] * len(SIZES))
    assert found
    everywhere = np.arange(1.0, 600.0)
    assert found.over(everywhere) == pytest.approx(true.over(everywhere), rel=1e-6)
    assert found.corner == pytest.approx(corner, rel=1e-6)


def test_nothing_but_flat_and_nothing_but_rising_are_rooflines_too() -> None:
    flat = closest(SIZES, [2.0] * len(SIZES), [1.0] * len(SIZES))
    assert flat
    assert flat.over(np.array([5.0, 1000.0])) == pytest.approx(2.0)
    rising = closest(SIZES, [0.5 + 0.1 * size for size in SIZES], [1.0] * len(SIZES))
    assert rising
    assert rising.over(np.array([0.0, 1000.0])) == pytest.approx([0.5, 100.5])


def test_what_falls_is_taken_as_flat_and_few_sizes_tell_nothing() -> None:
    falling = closest(SIZES, [10.0 - 0.01 * size for size in SIZES], [1.0] * len(SIZES))
    assert falling
    assert falling.over(np.array([513.0])) <= 10.0
    assert np.ptp(falling.over(np.array(SIZES))) == pytest.approx(0.0, abs=1e-9)
    assert closest([1.0, 65.0], [1.0, 2.0], [1.0, 1.0]) is None


def test_a_measurement_of_little_weight_says_little() -> None:
    values = [max(1.0, size / 64) for size in SIZES]
    doubtful = [*values[:3], 3.0, *values[4:]]
    weights = [10.0, 10.0, 10.0, 0.01, 10.0, 10.0, 10.0, 10.0, 10.0]
    found = closest(SIZES, doubtful, weights)
    assert found
    assert found.corner == pytest.approx(64, rel=0.02)
