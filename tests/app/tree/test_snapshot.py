"""A round is decoded once, and what is no tree is refused with a reason."""

from dataclasses import replace

import numpy as np
import pytest

from app.tree.picture.styles import ACCEPTED, node_styles
from app.tree.rounds.snapshot import MalformedTreeError, ends_with_a_guess, snapshot
from app.tree.rounds.text import as_text, tokens_in_words
from engine.protocol.messages import Round, Tree
from tests.app.tree.trees import round_of

FORK = round_of(
    [5, 6, 7, 8], [-1, 0, 0, 1], [0.0, -0.5, -1.5, -0.75], (0, 1), bonus=9, index=4, pieces=("a", " b", " c", "\n")
)


def with_tree(**changed: object) -> Round:
    return replace(FORK, tree=replace(FORK.tree, **changed))  # type: ignore[arg-type]


def test_arrays_come_back_as_they_were_packed() -> None:
    tree = snapshot(FORK)
    assert tree.tokens.tolist() == [5, 6, 7, 8]
    assert tree.parents.tolist() == [-1, 0, 0, 1]
    assert tree.depths.tolist() == [0, 1, 1, 2]
    assert (tree.number, tree.drafted, tree.depth, tree.tip, tree.bonus) == (5, 3, 2, 1, 9)


def test_a_guess_that_ends_the_answer_is_accepted_and_no_bonus() -> None:
    of = round_of([1, 2, 3, 4], [-1, 0, 0, 1], [0.0, -0.1, -2.0, -0.4], (0, 1), bonus=4)
    tree = snapshot(of)
    assert (tree.accepted, tree.has_bonus, tree.is_verified) == ((0, 1, 3), False, True)
    assert ends_with_a_guess(of)
    assert tokens_in_words(tree) == f"2 accepted = {of.new_tokens} tokens"
    assert node_styles(tree).tolist()[3] == ACCEPTED
    assert "+ " not in as_text(tree)
    assert (snapshot(FORK).has_bonus, ends_with_a_guess(FORK)) == (True, False)
    assert not ends_with_a_guess(with_tree(parents=b""))


def test_snapshot_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        snapshot(FORK).tokens[0] = 1


def test_probabilities_along_the_path_and_behind_the_parent() -> None:
    tree = snapshot(FORK)
    assert tree.path_probability(3) == pytest.approx(np.exp(-0.75))
    assert tree.draft_probability(3) == pytest.approx(np.exp(-0.25))
    assert tree.draft_probability(0) == tree.path_probability(0) == 1.0


def test_impossible_branch_has_no_probability() -> None:
    tree = snapshot(round_of([1, 2, 3], [-1, 0, 1], [0.0, -np.inf, -np.inf], (0,)))
    assert tree.draft_probability(1) == tree.draft_probability(2) == tree.path_probability(2) == 0.0


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (with_tree(tokens=b"\x01\x02\x03"), "the tokens end in the middle"),
        (with_tree(log_probs=FORK.tree.log_probs[:-1]), "the probabilities end in the middle"),
        (with_tree(parents=FORK.tree.parents[:-4]), "3 parents"),
        (with_tree(pieces=("a",)), "1 texts"),
        (replace(FORK, tree=Tree(b"", b"", b"", ())), "no nodes"),
        (with_tree(parents=np.array([-1, 0, 3, 1], "<i4").tobytes()), "stands before its parent"),
        (with_tree(parents=np.array([0, 0, 0, 1], "<i4").tobytes()), "stands before its parent"),
        (with_tree(parents=np.array([-1, 0, -1, 1], "<i4").tobytes()), "stands before its parent"),
        (with_tree(log_probs=np.array([0, np.nan, -1, -2], "<f4").tobytes()), "not a number"),
        (replace(FORK, accepted=()), "does not begin at the root"),
        (replace(FORK, accepted=(1,)), "does not begin at the root"),
        (replace(FORK, accepted=(0, 3)), "from node 0 to node 3"),
        (replace(FORK, accepted=(0, 1, 99)), "from node 1 to node 99"),
        (replace(FORK, accepted=(0, -1)), "from node 0 to node -1"),
    ],
)
def test_what_is_no_tree_is_refused(broken: Round, reason: str) -> None:
    with pytest.raises(MalformedTreeError, match=reason):
        snapshot(broken)
