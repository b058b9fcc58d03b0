"""Counts of what was accepted: they add up, and every probability has its bucket."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.telemetry.figures.acceptance import BUCKETS, DEPTHS, EDGES, Acceptance, bucket_of, count_acceptance, shape_of
from engine.protocol.messages import Round
from tests.app.telemetry.rounds import made_up_round, round_of

SEEDS = st.integers(0, 2**32)


def counted(round: Round) -> Acceptance:
    return count_acceptance(shape_of(round), np.asarray(round.accepted, np.int32))


@given(st.lists(st.floats(0, 1), min_size=1))
def test_buckets_cover_everything_from_0_to_1(probabilities: list[float]) -> None:
    found = bucket_of(np.array(probabilities))
    assert ((found >= 0) & (found < BUCKETS)).all()
    assert (EDGES[found] <= np.array(probabilities) + 1e-12).all()
    assert (np.array(probabilities) <= EDGES[found + 1] + 1e-12).all()


@given(SEEDS, st.integers(1, 80))
def test_the_counts_of_a_round_add_up(seed: int, nodes: int) -> None:
    round = made_up_round(0, Random(seed), nodes=nodes)
    counts = counted(round)
    parents = shape_of(round).parents
    assert counts.tried.sum() == np.isin(parents[1:], round.accepted).sum()
    assert counts.taken.sum() == counts.accepted.sum() == len(round.accepted) - 1
    assert (counts.taken <= counts.tried).all()
    assert (counts.accepted <= counts.reached).all()
    assert set(counts.reached) <= {0, 1}


@given(SEEDS, st.integers(1, 6))
def test_rounds_may_be_counted_in_any_order(seed: int, rounds: int) -> None:
    random = Random(seed)
    single = [counted(made_up_round(index, random, nodes=20)) for index in range(rounds)]
    forward = sum(single, Acceptance())
    backward = sum(reversed(single), Acceptance())
    assert (forward.tried == backward.tried).all()
    assert (forward.reached == backward.reached).all()
    assert forward.tried.sum() == sum(int(each.tried.sum()) for each in single)


def test_only_children_of_the_path_are_tried() -> None:
    #       0 -> 1 (accepted) -> 3, 4;  0 -> 2 -> 5, which nobody decided about
    counts = counted(round_of(0, (-1, 0, 0, 1, 1, 2), (0.0, -0.1, -2.5, -0.2, -3.0, -2.6), (0, 1)))
    assert counts.tried.sum() == 4
    assert counts.taken.sum() == 1
    assert counts.reached[:3].tolist() == [1, 1, 0]
    assert counts.accepted[:3].tolist() == [1, 0, 0]
    assert counts.rate_by_depth().tolist() == [1.0, 0.0]
    assert counts.taken[9] == 1, "exp(-0.1) is 0.905"


def test_calibration_is_of_filled_buckets_only() -> None:
    said, was, tried = counted(round_of(0, (-1, 0, 0), (0.0, np.log(0.75), np.log(0.25)), (0, 1))).calibration()
    assert said == pytest.approx([0.25, 0.75])
    assert was.tolist() == [0.0, 1.0]
    assert tried.tolist() == [1, 1]


def test_a_path_deeper_than_is_counted_apart() -> None:
    length = DEPTHS + 10
    parents = tuple(range(-1, length - 1))
    counts = counted(round_of(0, parents, tuple(-0.01 * each for each in range(length)), tuple(range(length))))
    assert counts.deepest == DEPTHS
    assert (counts.reached[:DEPTHS] == 1).all()


def test_nothing_drafted_counts_nothing() -> None:
    counts = counted(round_of(0, (-1,), (0.0,), (0,)))
    assert counts.deepest == 0
    assert counts.tried.sum() == 0


def test_what_the_draft_found_impossible_has_probability_0() -> None:
    shape = shape_of(round_of(0, (-1, 0, 1), (0.0, -np.inf, -np.inf), (0,)))
    assert shape.probabilities.tolist() == [1.0, 0.0, 0.0]
    assert shape.depths.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("parents", "accepted"), [((-1, 2, 0), (0,)), ((0,), (0,)), ((-1, 0), (0, 7)), ((-1, 0, 0), (0, 1, 2)), ((-1,), ())]
)
def test_a_damaged_tree_is_refused(parents: tuple[int, ...], accepted: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"tree|parent"):
        shape_of(round_of(0, parents, (0.0,) * len(parents), accepted))
