"""The rounds of a conversation as columns: where they stand, what is told of them, and how one is chosen."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolTip
from pytestqt.qtbot import QtBot

from app.tree.ribbon.columns import WIDEST, columns_of
from app.tree.ribbon.ribbon import HEIGHT, MARGIN, Ribbon
from app.tree.rounds.figures import Figures
from app.ui.colors import DARK, DARK_CONTRAST, LIGHT, LIGHT_CONTRAST, Colors
from engine.protocol.messages import Round, Seconds
from tests.app.tree.panels import colours
from tests.app.tree.trees import random_round

BASE = random_round(24, seed=3)


def some_round(index: int, request: int = 1, accepted: int = 3, budget: int = 24, seconds: float = 0.25) -> Round:
    """The figures are what counts here, so the path is made up."""
    path, spent = tuple(range(accepted + 1)), Seconds(decode=seconds)
    told = {"accepted": path, "new_tokens": accepted + 1, "budget": budget, "method": "specexec", "seconds": spent}
    return replace(BASE, id=request, index=index, **told)  # type: ignore[arg-type]


def figures_of(*answers: int) -> Figures:
    """Of answers with so many rounds each."""
    figures = Figures()
    for request, count in enumerate(answers):
        for index in range(count):
            figures.append(some_round(index, request, accepted=index % 5, budget=16 << index % 3))
    return figures


@pytest.fixture
def ribbon(qtbot: QtBot) -> Ribbon:
    made = Ribbon(LIGHT.tree)
    qtbot.addWidget(made)
    made.resize(400, HEIGHT)
    made.show()
    made.show_rounds(figures_of(10, 30), 5)
    return made


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4000), st.integers(1, 1500))
def test_every_round_has_its_column_and_every_place_its_round(count: int, width: int) -> None:
    rows = np.zeros(count, figures_of(1).rows.dtype)
    columns = columns_of(rows, width)
    edges, places = columns.edges.tolist(), columns.places.tolist()
    assert edges == sorted(set(edges))
    assert (edges[0], places[0], places[-1]) == (0, 0, count)
    assert edges[-1] <= max(width, len(columns))
    assert max(np.diff(edges)) <= WIDEST
    assert len(columns) <= max(1, width // 2), "more columns than can be seen"
    for place in range(0, count, max(1, count // 7)):
        column = columns.column_of(place)
        assert places[column] <= place < places[column + 1]
        assert columns.column_of(columns.place_at((edges[column] + edges[column + 1]) / 2)) == column
    assert columns.place_at(-5) == 0
    assert columns.column_of(columns.place_at(1e9)) == len(columns) - 1


def test_columns_that_stand_for_several_rounds_have_their_means() -> None:
    columns = columns_of(figures_of(1000).rows, 400)
    assert columns.is_merged
    assert len(columns) == 200
    assert columns.tokens.tolist() == [3.0] * 200, "five rounds each, with 1 to 5 tokens"
    assert columns.most.tolist() == [5] * 200
    assert columns.accepted.tolist() == [2.0] * 200


def test_answers_begin_where_the_request_changes_or_rounds_are_counted_anew() -> None:
    figures = figures_of(3, 2)
    for index in range(2):
        figures.append(some_round(index, request=1))
    columns = columns_of(figures.rows, 400)
    assert columns.begins.nonzero()[0].tolist() == [0, 3, 5]
    assert columns.answers.tolist() == [0, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("colors", [LIGHT, DARK, LIGHT_CONTRAST, DARK_CONTRAST])
def test_tokens_time_and_budget_are_seen_in_every_theme(ribbon: Ribbon, colors: Colors) -> None:
    tree = colors.tree
    ribbon.set_colors(tree)
    seen = colours(ribbon.grab().toImage())
    assert {tree.accepted.line, tree.bonus.line, tree.ramp[0].line, tree.rejected[0].line, tree.text} <= seen


def test_rounds_that_were_not_read_are_told_apart(ribbon: Ribbon) -> None:
    figures = Figures()
    figures.put_before([(-2, index) for index in range(20)])
    figures.append(some_round(0))
    ribbon.show_rounds(figures, 20)
    assert LIGHT.tree.rejected[-1].line in colours(ribbon.grab().toImage())
    assert "not been read" in ribbon.words_at(MARGIN + 2)
    figures.lose(0)
    assert "not kept" in ribbon.words_at(MARGIN + 2)
    ribbon.show_rounds(Figures(), -1)
    assert ribbon.grab().toImage().pixelColor(20, 20).name() == LIGHT.tree.background


def x_of(ribbon: Ribbon, place: int) -> int:
    columns = ribbon._laid_out()
    assert columns is not None
    return MARGIN + int(columns.edges[columns.column_of(place)]) + 1


def test_round_is_chosen_by_click_and_drag(ribbon: Ribbon) -> None:
    sought: list[int] = []
    ribbon.sought.connect(sought.append)
    QTest.mouseClick(ribbon, Qt.MouseButton.LeftButton, pos=QPoint(x_of(ribbon, 12), 20))
    assert sought == [12]
    QTest.mouseClick(ribbon, Qt.MouseButton.LeftButton, pos=QPoint(x_of(ribbon, 12), 20))
    assert sought == [12, 12], "who clicks the newest one wants to stay there"
    QTest.mousePress(ribbon, Qt.MouseButton.LeftButton, pos=QPoint(x_of(ribbon, 3), 20))
    QTest.mouseMove(ribbon, QPoint(x_of(ribbon, 20), 20))
    QTest.mouseMove(ribbon, QPoint(3000, 20))
    QTest.mouseRelease(ribbon, Qt.MouseButton.LeftButton, pos=QPoint(3000, 20))
    assert sought[2:] == [3, 20, 39]
    QTest.mouseMove(ribbon, QPoint(x_of(ribbon, 8), 20))
    assert ribbon.value() == 40, "only pointed at"


def test_round_is_chosen_by_keys(ribbon: Ribbon) -> None:
    sought: list[int] = []
    ribbon.sought.connect(sought.append)
    control = Qt.KeyboardModifier.ControlModifier
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_PageUp, Qt.Key.Key_Home, Qt.Key.Key_End):
        QTest.keyClick(ribbon, key)
    assert sought == [6, 5, 15, 0, 39]
    QTest.keyClick(ribbon, Qt.Key.Key_Left, control)
    QTest.keyClick(ribbon, Qt.Key.Key_Left, control)
    QTest.keyClick(ribbon, Qt.Key.Key_Left, control)
    QTest.keyClick(ribbon, Qt.Key.Key_Right, control)
    assert sought[5:] == [10, 0, 10]
    assert ribbon.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_who_comes_by_keys_sees_where_they_are(qtbot: QtBot, ribbon: Ribbon) -> None:
    assert QTest.qWaitForWindowActive(ribbon)
    ribbon.clearFocus()
    frames = []
    for reason in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.MouseFocusReason):
        ribbon.setFocus(reason)
        qtbot.waitUntil(ribbon.hasFocus)
        frames.append(ribbon.grab().toImage())
        ribbon.clearFocus()
    frames.append(ribbon.grab().toImage())
    assert len({bytes(each.constBits()) for each in frames}) == 3


def test_what_is_shown_is_not_sought(ribbon: Ribbon) -> None:
    sought: list[int] = []
    ribbon.sought.connect(sought.append)
    ribbon.show_rounds(figures_of(10, 31), 40)
    assert (ribbon.value(), ribbon.maximum(), sought) == (41, 41, [])


def test_a_screen_reader_meets_a_slider_with_words(ribbon: Ribbon) -> None:
    face = QAccessible.queryAccessibleInterface(ribbon)
    assert face.role() == QAccessible.Role.Slider
    assert face.text(QAccessible.Text.Name) == "Round"
    assert face.valueInterface().currentValue() == 6
    words = "Round 6 of 40: 1 token: 0 accepted + 1 bonus; Budget 64, 24 guessed, 250 ms"
    assert face.text(QAccessible.Text.Description) == words


def test_round_under_the_pointer_is_told(qtbot: QtBot, ribbon: Ribbon) -> None:
    QTest.mouseMove(ribbon, QPoint(x_of(ribbon, 13), 30))
    qtbot.waitUntil(lambda: "Round 4 of answer 2" in QToolTip.text())
    assert "4 tokens: 3 accepted + 1 bonus" in QToolTip.text()
    assert "SpecExec tree" in QToolTip.text()
    few = figures_of(3)
    ribbon.show_rounds(few, 0)
    assert ribbon.words_at(MARGIN + 2).startswith("Round 1\n")
    assert ribbon.words_at(300).startswith("Each column is a round")


def test_rounds_that_share_a_column_are_told_together(ribbon: Ribbon) -> None:
    ribbon.show_rounds(figures_of(2000), 0)
    words = ribbon.words_at(MARGIN + 1).splitlines()
    assert words[0] == "Rounds 1 to 10, here in one column"
    assert words[1] == "On average 3.0 tokens, 2.0 of them accepted; at most 5"
    assert words[2] == "Budget 35, 250 ms per round, on average"
