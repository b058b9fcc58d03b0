"""Looking at nodes, at earlier rounds and at rounds that are still growing, as a person does it in the panel."""

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QToolButton, QToolTip
from pytestqt.qtbot import QtBot

from app.engine.round_packing import pack
from app.tree.bars import Timeline
from app.tree.header import Caption
from app.tree.panel import TreePanel
from app.tree.picture.canvas import TreeCanvas
from app.tree.picture.picture import Picture
from app.tree.widgets import News
from engine.protocol.messages import PROTOCOL, Finished, Ready, Round, Statistics
from engine.protocol.watching import Drafted, Inspect, Inspected, TargetLogProbs, Watch
from tests.app.tree.trees import random_round, round_of

FORK = round_of(
    [1, 2, 3], [-1, 0, 0], [0, -0.1, -3], (0, 1), bonus=4, pieces=("The", " cat", " dog"), bonus_piece=" sat"
)
VERDICTS = TargetLogProbs(np.log([1, 0.8, 0.1, 0.6]).astype("<f4").tobytes(), np.array([0, 1, 2, 1], "<i4").tobytes())


@pytest.fixture
def panel(qtbot: QtBot) -> TreePanel:
    panel = TreePanel()
    qtbot.addWidget(panel)
    panel.resize(700, 500)
    with qtbot.waitExposed(panel):
        panel.show()
    panel.activateWindow()
    panel.follow(1)
    return panel


def canvas(panel: TreePanel) -> TreeCanvas:
    return panel.findChildren(TreeCanvas)[0]


def shown(panel: TreePanel) -> Picture:
    picture = canvas(panel).picture
    assert picture is not None
    return picture


def caption(panel: TreePanel) -> str:
    return panel.findChildren(Caption)[0].text()


def button(panel: TreePanel, text: str) -> QToolButton:
    return next(each for each in panel.findChildren(QToolButton) if each.text() == text)


def arrive(qtbot: QtBot, panel: TreePanel, *rounds: Round) -> None:
    for each in rounds:
        panel.on_events([each])
    qtbot.waitUntil(lambda: caption(panel).startswith(f"Round {rounds[-1].index + 1:,} "))


def test_the_engine_is_told_what_is_watched(qtbot: QtBot) -> None:
    panel = TreePanel()
    qtbot.addWidget(panel)
    wanted: list[object] = []
    panel.command_wanted.connect(wanted.append)
    panel.on_events([Ready(PROTOCOL, 1)])
    panel.show()
    panel.on_events([Ready(PROTOCOL, 2)])
    panel.hide()
    assert wanted == [Watch(), Watch(True, True, True), Watch(True, True, True), Watch()]


def test_rounds_of_others_are_nothing_to_see(qtbot: QtBot, panel: TreePanel) -> None:
    panel.on_events([replace(FORK, id=2), Drafted(2, 0, FORK.tree)])
    assert len(panel.player.history) == 0
    arrive(qtbot, panel, FORK)
    panel.clear()
    panel.on_events([replace(FORK, index=1)])
    assert len(panel.player.history) == 0


def test_arrow_keys_walk_the_tree_and_the_target_is_asked(qtbot: QtBot, panel: TreePanel) -> None:
    arrive(qtbot, panel, replace(FORK, verdicts=VERDICTS))
    asked: list[object] = []
    panel.command_wanted.connect(asked.append)
    view = canvas(panel)
    view.setFocus()
    qtbot.waitUntil(view.hasFocus)
    QTest.keyClick(view, Qt.Key.Key_Up)
    qtbot.waitUntil(lambda: "·cat" in QToolTip.text())
    assert "80 % here, 1st choice" in QToolTip.text()
    assert asked == [Inspect(1, 0, 0)]
    panel.on_events([Inspected(1, 0, 0, (2, 9), (-0.2, -2.0), (" cat", " fox"))])
    qtbot.waitUntil(lambda: "·fox" in QToolTip.text())
    QTest.keyClick(view, Qt.Key.Key_Right)
    qtbot.waitUntil(lambda: "·sat" in QToolTip.text())
    assert "60 % here" in QToolTip.text()
    QTest.keyClick(view, Qt.Key.Key_Down)
    qtbot.waitUntil(lambda: "·dog" in QToolTip.text())
    assert "the target chose ·cat here" in QToolTip.text()
    assert "·fox" in QToolTip.text()
    assert asked == [Inspect(1, 0, 0), Inspect(1, 0, 1)]


def test_looking_back_does_not_stop_what_comes(qtbot: QtBot, panel: TreePanel) -> None:
    arrive(qtbot, panel, *(random_round(20, seed=index, index=index) for index in range(5)))
    told: list[tuple[int, int]] = []
    panel.round_shown.connect(lambda request, index: told.append((request, index)))
    QTest.keyClick(panel, Qt.Key.Key_Comma)
    qtbot.waitUntil(lambda: caption(panel).startswith("Round 4 "))
    panel.on_events([random_round(20, seed=9, index=5)])
    panel.show_round_of(1, 1)
    qtbot.waitUntil(lambda: caption(panel).startswith("Round 2 "))
    timeline = panel.findChildren(Timeline)[0]
    assert timeline.place.text() == "2 / 6"
    assert not timeline.live.isChecked()
    QTest.keyClick(panel, Qt.Key.Key_Period)
    qtbot.waitUntil(lambda: caption(panel).startswith("Round 3 "))
    timeline.ribbon.setValue(1)
    qtbot.waitUntil(lambda: caption(panel).startswith("Round 1 "))
    button(panel, "Live").click()
    qtbot.waitUntil(lambda: caption(panel).startswith("Round 6 "))
    assert told == [(1, 3), (1, 1), (1, 2), (1, 0), (-1, -1)]


def test_space_pauses_and_plays_on(qtbot: QtBot, panel: TreePanel) -> None:
    panel.set_answering(True)
    arrive(qtbot, panel, *(random_round(20, seed=index, index=index) for index in range(4)))
    view = canvas(panel)
    view.setFocus()
    qtbot.waitUntil(view.hasFocus)
    QTest.keyClick(view, Qt.Key.Key_Space)
    assert not panel.player.is_live
    panel.player.seek(0)
    QTest.keyClick(view, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: caption(panel).startswith("Round 4 "))


def test_the_rounds_of_an_answer_that_is_written_are_played_from_the_first(qtbot: QtBot, panel: TreePanel) -> None:
    panel.set_answering(True)
    arrive(qtbot, panel, *(random_round(20, seed=index, index=index) for index in range(3)))
    play, player = panel.findChildren(Timeline)[0].play, panel.player
    assert (play.text(), player.is_moving) == ("Pause", True)
    panel.set_answering(False)
    assert (play.text(), player.is_moving, player.is_live) == ("Play", False, True)
    play.click()
    assert (player.is_playing, player.place) == (True, 0)


def test_a_token_that_is_pointed_at_shows_its_round_for_that_long(qtbot: QtBot, panel: TreePanel) -> None:
    arrive(qtbot, panel, *(random_round(20, seed=index, index=index) for index in range(5)))
    panel.glance_at(1, 1)
    qtbot.waitUntil(lambda: caption(panel).startswith("Round 2 "))
    panel.on_events([random_round(20, seed=9, index=5)])
    assert panel.player.is_live
    panel.glance_at(0, -1)
    qtbot.waitUntil(lambda: caption(panel).startswith("Round 6 "))


def test_rounds_that_are_kept_elsewhere_are_asked_for_once_and_shown_when_they_come(
    qtbot: QtBot, panel: TreePanel
) -> None:
    stored = {(-2, index): pack(random_round(20 + index, seed=index, index=index)) for index in range(100)}
    wanted: list[tuple[int, int]] = []
    panel.player.wanted.connect(wanted.extend)
    panel.player.put_before(list(stored))
    qtbot.waitUntil(lambda: (-2, 99) in wanted)
    panel.player.seek(50)
    qtbot.waitUntil(lambda: (-2, 50) in wanted)
    assert len(wanted) == len(set(wanted)) < 100
    panel.player.bring([(key, stored[key]) for key in wanted])
    qtbot.waitUntil(lambda: caption(panel).startswith("Round 51 "))
    panel.player.seek(0)
    qtbot.waitUntil(lambda: (-2, 0) in wanted)
    panel.player.bring([((-2, 0), None), ((-2, 1), b"nonsense")])
    message = panel.findChildren(QLabel)
    qtbot.waitUntil(lambda: any("not kept any more" in each.text() for each in message if each.isVisible()))
    panel.player.step(1)
    qtbot.waitUntil(lambda: panel.player.place == 1)
    assert any("not kept any more" in each.text() for each in message if each.isVisible())


def test_tree_is_copied_as_text(qtbot: QtBot, panel: TreePanel) -> None:
    arrive(qtbot, panel, FORK)
    panel.exports.copy_text()
    assert QGuiApplication.clipboard().text().splitlines()[:3] == [
        "Round 1: 2 nodes, 1 accepted",
        "* The  1.000",
        "*   ·cat  0.905",
    ]


def test_what_is_copied_is_the_round_that_came_while_the_tree_was_hidden(qtbot: QtBot, panel: TreePanel) -> None:
    arrive(qtbot, panel, FORK)
    panel.hide()
    panel.on_events([replace(FORK, index=1)])
    panel.show()
    panel.exports.copy_text()
    assert QGuiApplication.clipboard().text().startswith("Round 2: ")


def test_round_is_explained_step_by_step_while_others_come(qtbot: QtBot, panel: TreePanel) -> None:
    arrive(qtbot, panel, FORK)
    panel.explain()
    assert shown(panel).tree.drafted == 0
    sentences = [label.text() for label in panel.findChildren(QLabel) if "ends with ‘The’" in label.text()]
    assert len(sentences) == 1
    panel.on_events([random_round(30, seed=2, index=1)])
    button(panel, "Next").click()
    assert shown(panel).tree.drafted == 2
    assert not shown(panel).tree.has_bonus
    button(panel, "Close").click()
    qtbot.waitUntil(lambda: shown(panel).tree.has_bonus)
    assert caption(panel).startswith("Round 1 ")


def test_small_trees_are_explained_with_the_engines_words(qtbot: QtBot, panel: TreePanel) -> None:
    for index in range(3):
        panel.on_events([replace(random_round(2, seed=index, index=index), method="none", budget=0)])
    note = "A tree does not pay here."
    panel.on_events([Finished(1, "stop", "", Statistics(note=note))])
    assert any(note in label.text() for label in panel.findChildren(QLabel) if label.isVisible())
    panel.on_events([Finished(2, "stop", "", Statistics(note="Speculation is switched off."))])
    assert any(note in label.text() for label in panel.findChildren(QLabel)), "a comparison's note is not the answer's"
    assert not any("switched off" in label.text() for label in panel.findChildren(QLabel))
    with qtbot.waitSignal(panel.budget_wanted) as wanted:
        button(panel, "Show larger trees").click()
    assert wanted.args == [64]


def test_pointer_that_rests_sees_the_next_round_explained(qtbot: QtBot, panel: TreePanel) -> None:
    arrive(qtbot, panel, FORK)
    box = shown(panel).chip(1)
    QTest.mouseMove(canvas(panel).viewport(), QPoint(round(box.x + 5), round(box.y + 8)))
    qtbot.waitUntil(lambda: "·cat" in QToolTip.text())


def test_news_is_read_whole_in_a_narrow_panel_and_can_be_closed(qtbot: QtBot, panel: TreePanel) -> None:
    panel.resize(300, 500)
    panel.show_round(random_round(12))
    qtbot.waitUntil(lambda: canvas(panel).picture is not None)
    header = panel.findChildren(News)[0]
    assert not header.isVisible()
    panel.tell("This file is no recording of rounds, and this sentence is far too long for one line of it. " * 3)
    assert header.isVisible()
    words = header.words
    qtbot.waitUntil(lambda: words.height() >= words.heightForWidth(words.width()) > 3 * words.fontMetrics().height())
    panel.show_round(random_round(12, seed=2, index=1))
    assert header.isVisible(), "a round does not take it away unread"
    header.close_.click()
    assert not header.isVisible()
