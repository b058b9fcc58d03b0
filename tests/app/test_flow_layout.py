"""Widgets that flow: lines, what is narrower than it wants to be, and what stands at the end of its line."""

from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget
from pytestqt.qtbot import QtBot

from app.ui.flow_layout import FlowLayout, flow_of


def test_what_is_behind_a_gap_stands_at_the_end_until_there_is_no_room(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    first, last = QPushButton("first", parent), QPushButton("last", parent)
    for each in (first, last):
        each.setFixedSize(100, 30)
    flow = flow_of((first, None, last), 4, parent)
    parent.show()
    flow.resize(400, 100)
    assert (first.x(), last.geometry().right(), last.y()) == (0, 399, first.y())
    flow.resize(150, 100)
    assert (first.x(), last.x(), last.y()) == (0, 0, 34)


def test_words_that_wrap_take_what_is_left_of_a_line_and_all_stand_in_its_middle(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    row = FlowLayout(parent, gap=4, line_gap=4)
    button, words = QPushButton("button", parent), QLabel("some words that go on and on", parent)
    button.setFixedSize(100, 30)
    words.setWordWrap(True)
    for each in (button, words):
        row.addWidget(each)
    parent.show()
    parent.resize(200, 200)
    assert words.geometry().left() == 104
    assert words.geometry().right() <= 199
    assert words.height() == words.heightForWidth(words.width())
    assert abs(words.geometry().center().y() - button.geometry().center().y()) <= 1


def test_what_shall_have_no_width_between_is_whole_or_as_narrow_as_it_can_be(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    row = FlowLayout(parent, gap=4, line_gap=4)
    words = QPushButton("some words that go on and on", parent)
    words.setMinimumWidth(40)
    words.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
    row.addWidget(words)
    parent.show()
    wanted = words.sizeHint().width()
    widths = []
    for width in (wanted + 10, wanted - 10):
        parent.resize(width, 100)
        widths.append(words.width())
    assert widths == [wanted, 40]
