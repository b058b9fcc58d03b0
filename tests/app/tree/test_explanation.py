"""A tooltip says what a node is, and why it was or was not accepted."""

import math
from dataclasses import replace

import numpy as np

from app.tree.picture.explanation import explain_bonus, explain_node
from app.tree.rounds.snapshot import partial, snapshot
from engine.protocol.watching import Inspected
from tests.app.tree.trees import round_of

#   root ─ a ─ b ─ (bonus)      a and b accepted
#        │   └ c ─ d
#        └ e
TREE = snapshot(
    round_of(
        [10, 11, 12, 13, 14, 15, 16],
        [-1, 0, 1, 1, 3, 0, 2],
        [0.0, -0.1, -0.3, -1.0, -1.5, -12.0, -2.0],
        (0, 1, 2),
        bonus=17,
        pieces=("root", " a", "<b>", "c", "d", "e", "f"),
        bonus_piece="\n",
    )
)


def test_accepted_node_tells_its_probabilities() -> None:
    text = explain_node(TREE, 2, folded=0)
    assert "Accepted" in text
    assert "81.9 %" in text  # exp(-0.2), behind its parent
    assert "74.1 %" in text  # exp(-0.3), along the path
    assert "12" in text


def test_token_is_text_never_markup() -> None:
    assert "<b>   (id 12)" in explain_node(TREE, 2, folded=0)


def test_rejected_node_names_the_targets_choice() -> None:
    assert "the target chose <b> here" in explain_node(TREE, 3, folded=0)
    assert "the target chose ·a here" in explain_node(TREE, 5, folded=0)
    assert "the target chose ⏎ here" in explain_node(TREE, 6, folded=0)


def test_node_behind_a_rejected_one_says_so() -> None:
    assert "behind a token that the target did not choose" in explain_node(TREE, 4, folded=0)


def test_drafted_token_that_ends_the_answer_is_not_called_rejected() -> None:
    tree = snapshot(round_of([1, 2, 3, 4], [-1, 0, 0, 1], [0.0, -0.1, -2.0, -0.4], (0,), bonus=2))
    assert "Accepted" in explain_node(tree, 1, folded=0)
    assert "The answer ends with it." in explain_node(tree, 1, folded=0)
    assert "the answer ended before it" in explain_node(tree, 3, folded=0)
    assert "Rejected" in explain_node(tree, 2, folded=0)


def test_root_bonus_and_folded_nodes_are_explained() -> None:
    assert "Root" in explain_node(TREE, 0, folded=0)
    assert "1,234 behind it (press O" in explain_node(TREE, 0, folded=1234)
    assert "Bonus" in explain_bonus(TREE)
    assert "⏎" in explain_bonus(TREE)


def test_tiny_probability_is_not_zero() -> None:
    assert "below 0.01 %" in explain_node(TREE, 5, folded=0)


def test_target_tells_probability_rank_and_alternatives() -> None:
    log_probs = np.log(np.array([1, 0.9, 0.8, 0.01, 0.5, 0.002, 0.3, 0.7], np.float32))
    ranks = np.array([0, 1, 1, 2, 3, 11, 22, 1], np.int32)
    judged = replace(TREE, target_log_probs=log_probs, ranks=ranks)
    assert "0.2 % here, 11th choice" in explain_node(judged, 5, folded=0)
    assert "1 % here, 2nd choice" in explain_node(judged, 3, folded=0)
    assert "22nd choice" in explain_node(judged, 6, folded=0)
    assert "70 % here, 1st choice" in explain_bonus(judged)
    told = Inspected(1, 0, 1, (12, 99), (math.log(0.8), math.log(0.15)), ("<b>", " else"))
    text = explain_node(judged, 3, folded=0, alternatives=told)
    assert "likeliest tokens here" in text
    assert "·else" in text
    assert "<b>" in text
    assert text.index("80 %") < text.index("15 %")


def test_tree_that_is_not_verified_is_full_of_guesses() -> None:
    assert "has not checked it yet" in explain_node(partial(TREE, 7), 3, folded=0)


def test_guesses_that_are_checked_and_guesses_ahead_are_told_apart() -> None:
    growing = replace(partial(TREE, 7), checking=4)
    assert "has not checked it yet" in explain_node(growing, 3, folded=0)
    assert "Guessed ahead" in explain_node(growing, 4, folded=0)
    assert "Guessed ahead" not in explain_node(replace(growing, checking=0), 4, folded=0)
