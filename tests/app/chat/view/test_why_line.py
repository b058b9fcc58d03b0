"""The line that says why an answer was fast: quiet, within its room, and a way to telemetry by mouse and key."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QEnterEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from app.chat.history.message import AnswerEnding, Message
from app.chat.view.why_line import WhyLine
from app.engine.why import CausePlace
from app.shell.window import MainWindow
from app.telemetry import cards
from engine.protocol.messages import Finished, Seconds, Statistics
from tests.app.fake_link import FakeLink

SPENT = Seconds(draft=1, target=8, other=1, decode=10)
EASY = Statistics("specexec", 64, new_tokens=200, passes=40, drafted_nodes=2560, seconds=SPENT)


def test_it_speaks_of_finished_answers_with_figures_only(qtbot: QtBot) -> None:
    line = WhyLine()
    qtbot.addWidget(line)
    for message in (
        Message("assistant", "a", AnswerEnding.OPEN, EASY),
        Message("assistant", "a", statistics=Statistics(new_tokens=3, passes=2)),
        Message("assistant", "a"),
    ):
        line.show_message(message)
        assert (line.sentence, line.isHidden()) == ("", True)
    line.show_message(Message("assistant", "a", statistics=EASY))
    assert (line.sentence, line.isHidden()) == (
        "Easy text: 5.0 tokens per pass; computing took 80% of the writing time",
        False,
    )
    assert line.accessibleName() == line.sentence
    line.resize(line.minimumSizeHint())
    assert line.text() == "Easy text"
    line.resize(30, 20)
    assert line.text().endswith("…")


def test_a_cause_that_telemetry_does_not_show_is_no_link(qtbot: QtBot) -> None:
    line = WhyLine()
    qtbot.addWidget(line)
    line.show_message(Message("assistant", "a", statistics=replace(EASY, seconds=replace(SPENT, prefill=30))))
    assert line.sentence == "Much to read: 75% of the time went into reading the question and what stands before it"
    assert not line.isEnabled()
    with qtbot.assertNotEmitted(line.chosen):
        line.click()


def test_space_on_it_opens_telemetry_at_the_cause(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    window.chat.ask("Hello")
    link.answer(Finished(link.last_question.id, "stop", "A larch.", EASY))
    line = window.chat_panel.view.answers[-1].why
    qtbot.waitUntil(line.isVisible)
    QTest.keyClick(line, Qt.Key.Key_Space)
    assert window.telemetry.dock.isVisible()
    shown = next(each for each in window.telemetry.panel.cards if each.figure is cards.WHERE[CausePlace.PASSES])
    assert shown.is_pointed_out
    shown._pointing.stop()


def test_it_stands_behind_the_figures_in_a_window_as_small_screens_have_it(
    window: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    window.resize(1264, 752)
    QApplication.processEvents()
    window.resizeDocks([window.chats_dock, window.tree_dock], [240, 440], Qt.Orientation.Horizontal)
    window.chat.ask("Hello")
    link.answer(Finished(link.last_question.id, "stop", "A larch.", EASY))
    line = window.chat_panel.view.answers[-1].why
    qtbot.waitUntil(line.isVisible)
    QApplication.processEvents()
    assert window.chat_panel.view.answers[-1].width() < 560
    figures = window.chat_panel.view.answers[-1].figures
    assert line.text() == "Easy text"
    assert line.x() > max(each.geometry().right() for each in figures.findChildren(QLabel))
    assert figures.height() < 2 * line.height(), "one line"


def test_it_goes_on_where_the_figures_end_and_opens_no_popup(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    window.chat.ask("Hello")
    link.answer(Finished(link.last_question.id, "length", "A larch.", EASY))
    answer = window.chat_panel.view.answers[-1]
    figures, line = answer.figures, answer.why
    qtbot.waitUntil(line.isVisible)
    figures.setFixedWidth(figures.sizeHint().width() - line.sizeHint().width() - 30)
    qtbot.waitUntil(lambda: figures.height() > 2 * line.height())
    last = [each for each in figures.findChildren(QLabel) if each.isVisible()][-1]
    assert line.geometry().center().y() == pytest.approx(last.geometry().center().y(), abs=2)
    assert line.x() > last.geometry().right()
    QApplication.sendEvent(figures, QEnterEvent(QPointF(1, 1), QPointF(1, 1), QPointF(1, 1)))
    assert figures.popup is not None
    QApplication.sendEvent(line, QEnterEvent(QPointF(1, 1), QPointF(1, 1), QPointF(1, 1)))
    assert figures.popup is None


def test_who_comes_to_it_from_above_opens_no_popup(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    """The mouse comes to the row of figures first."""
    window.chat.ask("Hello")
    link.answer(Finished(link.last_question.id, "length", "A larch.", EASY))
    answer = window.chat_panel.view.answers[-1]
    figures, line = answer.figures, answer.why
    qtbot.waitUntil(line.isVisible)
    place = QPointF(line.geometry().center())
    QApplication.sendEvent(figures, QEnterEvent(place, place, place))
    assert figures.popup is None
