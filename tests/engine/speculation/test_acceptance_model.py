"""What a tree tells of other sizes and depths: smaller ones exactly, larger ones by how it would have gone on."""

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.speculation.trees.tree import Path, Tree
from engine.speculation.tuning.throughput_model import BUDGETS, DEPTHS, AcceptanceModel
from tests.engine.speculation.simulation import grow

STOPPED = Path((0,), bonus=99)


def learnt(trees: list[Tree], budget: int, depth: int) -> AcceptanceModel:
    """From trees of which always as much was accepted as promised."""
    found = AcceptanceModel()
    for tree in trees:
        found.observe(tree, STOPPED, budget, depth)
    found._accepted = found._promised
    return found


def promised(budget: int, depth: int, sureness: float) -> float:
    trees = [grow(budget, depth, sureness, seed) for seed in range(40)]
    return float(np.mean([np.exp(tree.log_probs).sum() for tree in trees]))


def test_smaller_and_flatter_trees_are_read_off() -> None:
    found = learnt([grow(64, 12, 0.8, seed) for seed in range(40)], 64, 12)
    for budget, depth in ((64, 12), (16, 12), (8, 12), (2, 12)):
        expected = promised(budget, depth, 0.8)
        assert found.tokens[BUDGETS.index(budget), DEPTHS.index(depth)] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("sureness", [0.6, 0.8, 0.9])
def test_larger_trees_are_foretold_nearly(sureness: float) -> None:
    found = learnt([grow(32, 32, sureness, seed) for seed in range(40)], 32, 32)
    for budget in (64, 128, 256):
        expected = promised(budget, 32, sureness)
        assert found.tokens[BUDGETS.index(budget), -1] == pytest.approx(expected, rel=0.2)


def test_deeper_trees_are_foretold_nearly_although_the_depth_cut_all_off() -> None:
    found = learnt([grow(64, 12, 0.9, seed) for seed in range(40)], 64, 12)
    flat, deep = found.tokens[BUDGETS.index(64), [DEPTHS.index(12), DEPTHS.index(32)]]
    assert deep == pytest.approx(promised(64, 32, 0.9), rel=0.15)
    assert deep > 1.1 * flat


def test_flat_trees_in_easy_text_do_not_make_deep_ones_look_worse() -> None:
    """Seen deep in a hard part first, and only flat ever after, in an easy part: depth still promises more."""
    found = learnt([grow(64, 32, 0.7, seed) for seed in range(10)], 64, 32)
    for seed in range(60):
        found.observe(grow(64, 8, 0.93, seed), STOPPED, 64, 8)
    flat, deep = found.tokens[BUDGETS.index(64), [DEPTHS.index(8), DEPTHS.index(32)]]
    assert deep > 1.2 * flat


def test_what_is_accepted_moves_the_level_of_all() -> None:
    trees = [grow(16, 8, 0.8, seed) for seed in range(60)]
    believed, found = learnt(trees, 16, 8), AcceptanceModel()
    for tree in trees:
        found.observe(tree, STOPPED, 16, 8)  # nothing is ever accepted
    assert (found.tokens - 1.0 < 0.35 * (believed.tokens - 1.0)).all()
    assert (found.levels == believed.levels).all()


def test_an_answer_that_ends_in_the_tree_says_nothing_against_it() -> None:
    tree = grow(16, 8, 0.9, 1)
    found = AcceptanceModel()
    found.observe(tree, Path((0,), bonus=tree.tokens[1]), 16, 8)
    assert found.tokens[BUDGETS.index(16), DEPTHS.index(8)] == pytest.approx(np.exp(tree.log_probs).sum())


def test_a_small_tree_is_not_believed_to_go_on_where_what_follows_is_known() -> None:
    """A sure word, and behind it none that was worth its price."""
    behind = tuple((math.log(chance), 2) for chance in (0.2, 0.1, 0.05))
    sure = Tree((0, 1), (-1, 0), (0.0, math.log(0.97)), left_out=behind)
    found, guessed = (
        learnt([tree] * 20, 1, 1).tokens[BUDGETS.index(24), -1] for tree in (sure, replace(sure, left_out=()))
    )
    assert 1.97 + 0.35 < found < 3.5
    assert guessed > 10.0, "of the word alone nobody can tell"


def test_trees_that_were_not_worth_growing_count() -> None:
    worth = [grow(8, 8, 0.9, seed) for seed in range(20)]
    left = tuple((math.log(chance), 1) for chance in (0.3, 0.1))
    empty = Tree((0,), (-1,), (0.0,), left_out=left)
    found = learnt([each for tree in worth for each in (tree, empty)], 8, 8)
    expected = (promised(8, 8, 0.9) + 1.4) / 2
    assert found.tokens[BUDGETS.index(8), -1] == pytest.approx(expected, rel=0.15)
