"""The window the other way round: what flows begins at the right, and nothing is turned that must not be."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.chat.history.conversation import Conversation
from app.chat.history.message import Message
from app.shell.window import MainWindow
from app.ui.flow_layout import FlowLayout
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink


@pytest.fixture(autouse=True)
def turned(qapp: QApplication) -> Iterator[None]:
    qapp.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    yield
    qapp.setLayoutDirection(Qt.LayoutDirection.LeftToRight)


def test_figures_flow_from_the_right(qtbot: QtBot) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    row = FlowLayout(widget, gap=4, line_gap=4)
    labels = [QLabel(words, widget) for words in ("one", "two")]
    for each in labels:
        row.addWidget(each)
    widget.resize(300, 40)
    widget.show()
    qtbot.waitUntil(lambda: labels[0].geometry().right() == widget.rect().right())
    assert labels[1].geometry().right() < labels[0].geometry().left()


def test_the_column_stands_above_the_composer(open_window: OpenWindow, qtbot: QtBot) -> None:
    window: MainWindow = open_window(FakeLink())
    window.resize(1400, 700)
    conversation = Conversation()
    for number in range(12):
        _, answer = conversation.ask(f"Question {number}")
        conversation.change(Message("assistant", "Words. " * 60, parent=answer.parent, id=answer.id))
    window.chat.show_conversation(conversation)
    view, composer = window.chat_panel.view, window.chat_panel.composer

    def is_in_line() -> bool:
        answer = view.answers[-1]
        middle = answer.mapTo(window, QPoint(answer.width() // 2, 0)).x()
        return abs(middle - composer.mapTo(window, QPoint(composer.width() // 2, 0)).x()) <= 1

    qtbot.waitUntil(lambda: bool(view.answers) and view.verticalScrollBar().maximum() > 0 and is_in_line())


def test_the_chats_stand_where_reading_begins_and_the_tree_is_not_turned(open_window: OpenWindow) -> None:
    window: MainWindow = open_window(FakeLink())
    assert window.chats_dock.x() > window.tree_dock.x()
    assert window.tree_panel.layoutDirection() is Qt.LayoutDirection.LeftToRight
