"""A quantity against size, from measurements that are noisy, few, and sometimes of another day."""

import random

import numpy as np
import pytest

from engine.speculation.tuning.curve import Curve


def measured(sizes: range, slower: float = 1.0, curve: Curve | None = None) -> Curve:
    """Every one of these sizes three times."""
    chance, curve = random.Random(1), curve or Curve()
    for size in [*sizes] * 3:
        curve.observe(size, slower * (0.005 + 0.0002 * size) * chance.lognormvariate(0, 0.03))
    return curve


def test_it_lies_between_what_was_measured_and_goes_on_beyond() -> None:
    curve = measured(range(1, 66, 8))
    for size in (1, 20, 60, 130):
        assert curve.at(size) == pytest.approx(0.005 + 0.0002 * size, rel=0.1)


def test_small_sizes_that_seem_dearer_than_large_ones_were_measured_on_a_slower_machine() -> None:
    curve = measured(range(3, 14, 5), slower=6.0)
    curve.observe(65, 0.018)  # it is calm again, but nobody has asked for a small size since
    curve.observe(65, 0.018)
    assert curve.at(3) < curve.at(8) < curve.at(13) < 1.1 * 0.018


def test_a_little_dearer_is_noise_and_nothing_is_told_by_a_size_that_takes_no_time() -> None:
    curve = measured(range(1, 10))
    before = curve.at(9)
    curve.observe(33, 0.9 * before)
    assert curve.at(5) == pytest.approx(0.006, rel=0.1)
    idle = Curve()
    idle.observe(3, 1.0)
    idle.observe(9, 0.0)
    assert 0.0 <= idle.at(3) <= 1.0


def test_a_machine_that_becomes_slower_is_followed_at_sizes_that_are_not_asked_for() -> None:
    curve = measured(range(1, 66, 8))
    for _ in range(12):
        curve.observe(65, 2 * 0.018)
        curve.observe(33, 2 * 0.0116)
    assert curve.at(9) == pytest.approx(2 * 0.0068, rel=0.2)


def bending(at: float, size: float) -> float:
    """A pass that reads for a second, or computes so long."""
    return max(1.0, size / at)


@pytest.mark.parametrize("corner", [50, 83, 110])
def test_the_corner_of_a_pass_is_found_between_the_sizes_measured(corner: float) -> None:
    """A straight line from one size to the next is off there by far."""
    curve = Curve()
    for size in [1, 9, 33, 129, 257, 513] * 3:
        curve.observe(size, bending(corner, size))
    sizes = np.arange(1.0, 257.0)
    true = np.array([bending(corner, size) for size in sizes])
    assert np.abs(curve.over(sizes) / true - 1).max() > 0.1
    assert np.abs(curve.soberly_over(sizes) / true - 1).max() < 0.03


def test_what_was_measured_often_stands_against_any_roofline() -> None:
    """Rows are computed in tiles of 64: a staircase."""
    curve = Curve()
    sizes = np.array([1.0, 32.0, 60.0, 90.0, 120.0, 180.0, 360.0])
    stairs = np.ceil(sizes / 64)
    for _ in range(20):
        for size, value in zip(sizes.tolist(), stairs.tolist(), strict=True):
            curve.observe(size, value)
    assert curve.soberly_over(sizes) == pytest.approx(stairs, rel=0.06)


def test_hope_is_for_what_was_measured_once() -> None:
    curve = measured(range(1, 66, 8))
    curve.observe(129, 0.06)  # with all that is done only once
    size = np.array([129.0])
    assert curve.soberly_over(size)[0] > 1.2 * curve.over(size)[0]
    assert Curve().soberly_over(size) == 0.0
