"""Fewer points, and nothing that stands out is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.telemetry.charts.chart import round_top, time_step, whole_step
from app.telemetry.charts.scope import in_span, keep_extremes, keep_greatest, round_at
from app.telemetry.figures.curves import MEAN_OF, mean_tokens_per_second, tokens_per_second
from app.telemetry.figures.history import ROW, Rows

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400).map(np.array)
GROUPS = st.integers(1, 50)


def rows_of(seconds: list[float]) -> Rows:
    rows = np.zeros(len(seconds), ROW)
    rows["seconds"] = seconds
    rows["begin"] = np.cumsum([0.0, *seconds[:-1]])
    return rows


@given(VALUES, GROUPS)
def test_extremes_and_ends_are_kept(values: np.ndarray, groups: int) -> None:
    kept = keep_extremes(values, groups)
    assert len(kept) <= 2 * groups + 2
    assert (np.diff(kept) > 0).all()
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    assert values[kept].max() == values.max()
    assert values[kept].min() == values.min()


@given(VALUES, GROUPS)
def test_groups_cover_everything_once_and_keep_their_greatest(values: np.ndarray, groups: int) -> None:
    first, last, greatest = keep_greatest(values, groups)
    assert len(first) <= max(groups, 1)
    assert first[0] == 0
    assert last[-1] == len(values) - 1
    assert (first[1:] == last[:-1] + 1).all()
    for begin, end, best in zip(first, last, greatest, strict=True):
        assert begin <= best <= end
        assert values[best] == values[begin : end + 1].max()


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=50), st.floats(0, 1), st.floats(0, 1))
def test_what_is_in_view_is_in_the_slice(seconds: list[float], one: float, other: float) -> None:
    rows = rows_of(seconds)
    low, high = sorted((one * sum(seconds), other * sum(seconds)))
    inside = np.arange(len(rows))[in_span(rows, (low, high))]
    overlapping = np.flatnonzero((rows["begin"] <= high) & (rows["begin"] + rows["seconds"] >= low))
    assert set(overlapping) <= set(inside)


def test_the_round_at_a_time() -> None:
    rows = rows_of([1.0, 2.0, 3.0])
    assert [round_at(rows, at) for at in (-1, 0, 0.9, 1, 2.9, 3, 99)] == [0, 0, 0, 1, 1, 2, 2]
    assert round_at(rows[:0], 1.0) is None


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0.001, 1)), min_size=1, max_size=80))
def test_the_mean_is_that_of_the_last_rounds_together(rounds: list[tuple[int, float]]) -> None:
    rows = rows_of([seconds for _, seconds in rounds])
    rows["tokens"] = [tokens for tokens, _ in rounds]
    last = rounds[-MEAN_OF:]
    assert mean_tokens_per_second(rows)[-1] == pytest.approx(
        sum(each[0] for each in last) / sum(each[1] for each in last)
    )
    assert tokens_per_second(rows)[0] == pytest.approx(rounds[0][0] / rounds[0][1])


def test_a_round_without_time_has_no_speed() -> None:
    assert tokens_per_second(rows_of([0.0])).tolist() == [0.0]


@given(st.floats(1e-9, 1e15))
def test_axes_end_at_round_figures_not_far_above(value: float) -> None:
    assert value <= round_top(value) * (1 + 1e-9)
    assert round_top(value) <= 2 * value * (1 + 1e-9)


def test_steps_of_time_and_of_counts() -> None:
    assert [time_step(each) for each in (0.3, 1.5, 11, 40, 61, 4000)] == [0.5, 2, 15, 60, 120, 5000]
    assert [whole_step(each) for each in (0.1, 1.2, 3)] == [1, 2, 5]
    assert round_top(0) == 1
