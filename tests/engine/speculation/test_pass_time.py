"""Seconds of a pass against its rows, from measurements that are noisy, few, and sometimes of another day."""

import random

import numpy as np
import pytest

from engine.speculation.tuning.pass_time import MeasuredPasses, PassTime

PASS = 0.3


def measured(sizes: range, slower: float = 1.0) -> MeasuredPasses:
    """Every one of these sizes three times."""
    rng, passes = random.Random(1), MeasuredPasses()
    for size in [*sizes] * 3:
        passes.observe(size, slower * (0.005 + 0.0002 * size) * rng.lognormvariate(0, 0.03))
    return passes


def test_times_lie_on_lines_between_points_and_grow_in_proportion_beyond() -> None:
    times = PassTime((1, 5, 9), (1.0, 3.0, 3.0))
    assert [times(rows) for rows in (0.5, 1, 2, 5, 7, 9, 18)] == pytest.approx([1.0, 1.0, 1.5, 3.0, 3.0, 3.0, 6.0])
    assert times.over(np.array([2.0, 18.0])) == pytest.approx([1.5, 6.0])


def test_it_lies_between_what_was_measured_and_goes_on_beyond() -> None:
    time = measured(range(1, 66, 8)).time
    for size in (1, 20, 60, 130):
        assert time(size) == pytest.approx(0.005 + 0.0002 * size, rel=0.1)


def test_nothing_measured_is_nothing_known() -> None:
    passes = MeasuredPasses()
    assert passes.time(65) == passes.hidden == passes.largest == passes.count(65) == 0


def test_fewer_rows_that_took_far_longer_are_forgotten() -> None:
    passes = measured(range(3, 14, 5), slower=6.0)
    passes.observe(65, 0.018)  # it is calm again, but nobody has asked for a small size since
    assert [passes.count(size) for size in (3, 8, 13, 65)] == [0, 0, 0, 1]


def test_one_slow_pass_counts_for_nothing_once_there_is_another() -> None:
    passes = MeasuredPasses()
    for seconds in (50.0, 1.0):
        passes.observe(65, seconds)
    assert passes.time(65) == pytest.approx(1.0)


def test_a_slow_first_pass_over_many_rows_is_bound_by_passes_over_fewer() -> None:
    passes = MeasuredPasses()
    for size in (1, 9, 33):
        passes.observe(size, 1.0)
    passes.observe(65, 30.0)
    assert passes.time(65) <= 2.0
    passes.observe(3, 30.0)
    assert passes.time(3) == pytest.approx(1.0), "nor do fewer rows take longer"


def test_a_machine_that_becomes_slower_is_noticed_and_other_sizes_are_forgotten() -> None:
    passes = measured(range(1, 66, 8))
    assert passes.count(9) == 3
    assert [passes.observe(65, 2 * 0.018) for _ in range(4)].count(True) == 1
    assert passes.count(9) == 0
    assert passes.time(65) == pytest.approx(2 * 0.018)


@pytest.mark.parametrize("corner", [50, 83, 110])
def test_the_corner_of_a_pass_is_found_between_the_sizes_measured(corner: float) -> None:
    """A pass that reads for a second, or computes so long: a straight line from one size to the next is off by far."""
    passes = MeasuredPasses()
    for size in [1, 9, 33, 129, 257, 513] * 3:
        passes.observe(size, max(1.0, size / corner))
    sizes = np.arange(1.0, 257.0)
    assert passes.time.over(sizes) == pytest.approx(np.maximum(1.0, sizes / corner), rel=0.03)


def test_a_staircase_is_followed() -> None:
    """Rows are computed in tiles of 64."""
    passes, sizes = MeasuredPasses(), np.array([1.0, 32.0, 60.0, 90.0, 120.0, 180.0, 360.0])
    for _ in range(4):
        for size in sizes.tolist():
            passes.observe(size, float(np.ceil(size / 64)))
    assert passes.time.over(sizes) == pytest.approx(np.ceil(sizes / 64), rel=0.06)


def overlapped(share: float, rounds: int, seed: int, noise: float = 0.03) -> MeasuredPasses:
    """After so many rounds, of trees of two sizes, on a machine that hides this share of its drafting."""
    rng, passes = random.Random(seed), MeasuredPasses()
    for _ in range(rounds):
        size = rng.choice((33, 129))
        drafting = rng.uniform(0.0, 0.1) + size * 0.0005
        computing = PASS + size * 0.001  # larger trees take longer to draft and to verify
        passes.observe(size, (computing - share * drafting) * rng.lognormvariate(0.0, noise), drafting)
    return passes


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_share_of_drafting_that_a_pass_hides_is_found(share: float) -> None:
    found = [overlapped(share, 40, seed).hidden for seed in range(20)]
    assert sum(found) / len(found) == pytest.approx(share, abs=0.25)
    assert overlapped(share, 40, 0, noise=0.0).hidden == pytest.approx(share, abs=0.05)


def test_little_is_believed_to_be_hidden_at_first() -> None:
    assert overlapped(1.0, 1, 0).hidden == 0.0
    noisy = [overlapped(0.0, 6, seed, noise=0.1).hidden for seed in range(20)]
    assert sum(noisy) / len(noisy) < 0.15


def test_load_that_slows_drafting_and_passes_down_hides_nothing() -> None:
    rng, passes = random.Random(0), MeasuredPasses()
    for _ in range(20):
        slow = rng.uniform(1.0, 1.3)
        passes.observe(65, PASS * slow, 0.05 * slow)
    assert passes.hidden == 0.0


def test_it_is_kept() -> None:
    passes = overlapped(0.7, 40, 0)
    again = MeasuredPasses.restored(passes.state)
    assert again.time(129) == pytest.approx(passes.time(129), rel=0.2)
    assert again.largest == passes.largest
    for value in ([[1, -1.0, 0]], [[float("nan"), 1, 0]], [[1, "much", 0]]):
        with pytest.raises(ValueError, match=r"no figures|could not convert"):
            MeasuredPasses.restored({"measured": value})


def test_beyond_what_was_measured_passes_compare_as_expected() -> None:
    passes = MeasuredPasses()
    passes.expect(PassTime((1.0, 17.0, 65.0, 257.0), (2.0, 2.0, 6.0, 23.0)))
    for _ in range(2):
        passes.observe(17.0, 1.0)
    assert [passes.time(rows) for rows in (1.0, 17.0, 65.0, 257.0)] == pytest.approx([1.0, 1.0, 3.0, 11.5])
    passes.observe(65.0, 1.5)
    assert 1.5 < passes.time(65.0) < 3.0, "one measurement is not all that is known"
    for _ in range(8):
        passes.observe(17.0, 1.0)
        passes.observe(65.0, 1.5)
    assert passes.time(65.0) == pytest.approx(1.5, rel=0.15), "what was measured often counts more"
    assert passes.time(257.0) == pytest.approx(23 / 6 * passes.time(65.0))
    passes.expect(None)
    assert [passes.time(rows) for rows in (1.0, 17.0, 65.0)] == pytest.approx([1.0, 1.0, 1.5])


def test_a_size_that_was_fast_by_luck_makes_larger_ones_no_dearer_than_they_may_be() -> None:
    """A pass that is bound by reading takes as long for 13 rows as for 97; twice it took a tenth less."""
    flat, alone = MeasuredPasses(), MeasuredPasses()
    flat.expect(PassTime((1.0, 129.0, 257.0), (0.3, 0.3, 0.5)))
    for passes in (flat, alone):
        for rows, seconds in [(97.0, 0.3)] * 6 + [(65.0, 0.3)] * 4 + [(13.0, 0.27)] * 2:
            passes.observe(rows, seconds)
    steps = [passes.time(97.0) - passes.time(13.0) for passes in (flat, alone)]
    assert steps[1] == pytest.approx(0.03)
    assert steps[0] < 0.5 * steps[1]
