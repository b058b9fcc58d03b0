"""Drafting takes so much a tree, so much a level and so much a node, as far as measurements tell them apart."""

import random

import pytest

from engine.speculation.tuning.draft_pace import DraftPace


def test_drafting_is_so_much_a_level_and_so_much_a_node() -> None:
    chance, pace = random.Random(1), DraftPace()
    assert pace.seconds(5, 50) == 0.0
    for number in range(60):
        levels, nodes = chance.randint(1, 32), chance.choice((8, 32, 128))
        spike = 5.0 if number % 10 == 9 else 1.0
        pace.observe(levels, nodes, (0.003 * levels + 0.0002 * nodes) * chance.lognormvariate(0, 0.05) * spike)
    assert pace.seconds(10, 64) == pytest.approx(0.03 + 0.0128, rel=0.2)
    assert pace.seconds(30, 8) == pytest.approx(0.09 + 0.0016, rel=0.2)


@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (20, 64)])
def test_trees_that_are_all_alike_tell_only_of_their_like(shape: tuple[int, int]) -> None:
    pace = DraftPace()
    for _ in range(30):
        pace.observe(*shape, 0.05)
    assert pace.seconds(*shape) == pytest.approx(0.05, rel=0.01)
    assert pace.seconds(2 * shape[0], 2 * shape[1]) == pytest.approx(0.1, rel=0.01)


def test_what_a_tree_takes_whatever_its_size_is_not_laid_to_its_levels() -> None:
    """Small trees, a level or three deep, that cannot begin before the draft has read what was written meanwhile."""
    chance, pace = random.Random(3), DraftPace()
    for _ in range(40):
        levels = chance.randint(1, 3)
        pace.observe(levels, levels, (0.003 + 0.0014 * levels) * chance.lognormvariate(0, 0.05))
    assert pace.seconds(16, 16) == pytest.approx(0.003 + 16 * 0.0014, rel=0.25)
    assert DraftPace.restored(pace.state).costs == pytest.approx(pace.costs, rel=1e-2)


def test_no_part_of_drafting_comes_out_negative() -> None:
    chance = random.Random(4)
    for _ in range(30):
        pace = DraftPace()
        for _ in range(chance.randint(1, 12)):
            pace.observe(chance.randint(1, 32), chance.choice((4, 64, 256)), chance.uniform(0.001, 0.5))
            assert min(pace.costs) >= 0.0 < max(pace.costs)


def test_drafting_that_takes_no_time_is_no_error() -> None:
    pace = DraftPace()
    for _ in range(5):
        pace.observe(3, 8, 0.0)
    assert pace.seconds(3, 8) == pytest.approx(0.0, abs=1e-9)
