"""The hardware-aware optimiser against trying everything."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speculation.trees.tree_program import PRIOR, TreeProgram, sizes_up_to
from engine.speculation.tuning.pass_time import PassTime
from tests.campaigns.extent import choose

PROGRAM = TreeProgram(PRIOR, 33, 12)


@settings(max_examples=choose(3, 60), deadline=None)
@given(
    draft=st.lists(st.floats(1e-4, 1.0), min_size=2, max_size=2),
    target=st.lists(st.floats(1e-3, 10.0), min_size=3, max_size=3),
)
def test_no_size_or_depth_takes_less_time_per_token(draft: list[float], target: list[float]) -> None:
    draft_seconds = PassTime((1, 64), tuple(draft))
    target_seconds = PassTime((1, 8, 64), tuple(target))
    found = PROGRAM.best_size(draft_seconds, target_seconds)
    every = {(0, 0): target_seconds(1)}
    for budget in sizes_up_to(32):
        for depth in range(1, min(budget, 11) + 1):
            tokens = PROGRAM.shape(budget + 1, depth + 1).expected_tokens(PRIOR)
            seconds = depth * draft_seconds(budget / depth) + target_seconds(budget + 1)
            every[budget, depth] = seconds / tokens
    assert every[found] == pytest.approx(min(every.values()), rel=1e-12)


def test_a_pass_that_costs_the_same_for_all_sizes_takes_the_largest_tree() -> None:
    found = PROGRAM.best_size(PassTime((1,), (0.0,)), PassTime((1, 1024), (5.0, 5.0)))
    assert found[0] == 32


def test_a_draft_as_slow_as_its_target_is_left_out() -> None:
    assert PROGRAM.best_size(PassTime((1,), (5.0,)), PassTime((1,), (5.0,))) == (0, 0)


def test_a_slow_draft_makes_the_tree_shallow() -> None:
    target = PassTime((1, 1024), (5.0, 5.0))
    depths = [PROGRAM.best_size(PassTime((1, 64), (draft, draft)), target)[1] for draft in (1e-3, 0.3, 1.0)]
    assert depths == sorted(depths, reverse=True)
    assert depths[0] > depths[-1] > 0


def test_sizes_worth_trying_end_with_the_largest() -> None:
    sizes = sizes_up_to(1000)
    assert sizes[:12] == list(range(1, 13))
    assert sizes[-1] == 1000
    assert all(later <= earlier * 9 / 8 + 1 for earlier, later in pairwise(sizes))
