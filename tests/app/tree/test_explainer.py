"""A tree grows in the waves in which it was found, and a round is told from its root to its bonus."""

from dataclasses import replace

from hypothesis import given
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.tree.bars import LARGER_BUDGET, Advice
from app.tree.explainer import explain_steps
from app.tree.picture.moving.growth import Growth, stages, waves
from app.tree.rounds.snapshot import Snapshot, partial, snapshot
from tests.app.tree.test_chips_layout import trees
from tests.app.tree.trees import random_round, round_of


def test_waves_end_where_the_draft_began_a_new_pass() -> None:
    assert waves([-1]) == [1]
    assert waves([-1, 0, 0, 0]) == [1, 4]
    assert waves([-1, 0, 0, 1, 1, 2]) == [1, 3, 6]
    assert waves([-1, 0, 0, 0, 2, 3, 1]) == [1, 4, 6, 7]
    assert waves([-1, 0, 1, 2, 3]) == [1, 2, 3, 4, 5]


@given(trees())
def test_growth_begins_at_the_root_and_ends_with_the_whole_tree(tree: Snapshot) -> None:
    ends = stages(tree.parents.tolist())
    assert ends == sorted(set(ends))
    assert (ends[0], ends[-1]) == (1, len(tree.pieces))
    assert len(ends) <= 13


def test_growth_is_shown_step_by_step_and_stops_when_it_is_verified(qtbot: QtBot) -> None:
    growth, grown = Growth(), []
    growth.grown.connect(lambda tree: grown.append((tree.drafted, tree.has_bonus)))
    tree = partial(snapshot(random_round(200, seed=1)), 201)
    growth.begin(tree)
    qtbot.waitUntil(lambda: grown[-1] == (200, False))
    assert [count for count, _ in grown] == [end - 1 for end in stages(tree.parents.tolist())]
    growth.begin(tree)
    growth.end()
    count = len(grown)
    with qtbot.assertNotEmitted(growth.grown, wait=150):
        pass
    assert len(grown) == count


@given(trees())
def test_every_lesson_goes_from_the_root_to_the_whole_round(tree: Snapshot) -> None:
    tree = replace(tree, has_bonus=True)
    steps = explain_steps(tree)
    assert steps[0].tree.drafted == 0
    assert steps[-1].tree is tree
    sizes = [step.tree.drafted for step in steps]
    assert sizes == sorted(sizes)
    accepted = [len(step.tree.accepted) for step in steps]
    assert accepted == sorted(accepted)
    assert all(step.sentence.endswith((".", "?")) and "  " not in step.sentence for step in steps)


def test_sentences_name_the_tokens() -> None:
    pieces = ("The", " cat", " dog", " sat")
    made = round_of([1, 2, 3, 4], [-1, 0, 0, 1], [0, -0.1, -2, -0.5], (0, 1), pieces=pieces, bonus_piece=" ran")
    said = " ".join(step.sentence for step in explain_steps(snapshot(made)))
    expected = (
        "ends with ‘The’",
        "guesses ‘·cat’",
        "checks all 3 tokens at once",
        "‘·cat’, which was guessed: accepted",
        "the target says ‘·ran’ of its own",
        "grown by 2 tokens in one pass",
    )
    for words in expected:
        assert words in said
    plain = " ".join(step.sentence for step in explain_steps(snapshot(random_round(0))))
    assert "Nothing was guessed" in plain
    assert "one token in one pass" in plain


def test_small_trees_of_the_automatic_budget_are_explained_and_can_be_made_larger(qtbot: QtBot) -> None:
    frame = QWidget()
    qtbot.addWidget(frame)
    advice = Advice(frame)
    small = replace(random_round(3), method="specexec", budget=4)
    for _ in range(3):
        assert advice.isHidden()
        advice.learn(small)
    assert not advice.isHidden()
    assert "would not make this pair faster" in advice.words.text()
    advice.set_plan("A tree cannot pay here: it is bound by the SSD.")
    assert "A tree cannot pay here: it is bound by the SSD." in advice.words.text()
    advice.tell("A tree does not pay here.")
    assert "A tree does not pay here." in advice.words.text()
    with qtbot.waitSignal(advice.budget_wanted) as wanted:
        advice.button.click()
    assert wanted.args == [LARGER_BUDGET]
    advice.set_budget(LARGER_BUDGET)
    assert advice.button.text() == "Undo"
    with qtbot.waitSignal(advice.budget_wanted) as wanted:
        advice.button.click()
    assert wanted.args == [0]
    advice.set_budget(0)
    assert advice.isHidden()


def test_large_or_chosen_trees_need_no_advice(qtbot: QtBot) -> None:
    frame = QWidget()
    qtbot.addWidget(frame)
    advice = Advice(frame)
    for budget in (4, 4, 64, 4, 4):
        advice.learn(replace(random_round(3), method="specexec", budget=budget))
    assert advice.isHidden()
    advice.set_budget(8)
    for _ in range(5):
        advice.learn(replace(random_round(3), method="specexec", budget=8))
    assert advice.isHidden()
