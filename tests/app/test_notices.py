"""A notice carries what its button does."""

from functools import partial

from PySide6.QtCore import QPoint
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton, QToolTip
from pytestqt.qtbot import QtBot

from app.shell.window import MainWindow
from app.ui.notices import Notice, NoticeStack, Tone
from app.ui.widgets import copy_text


def test_the_button_of_a_notice_does_what_it_carries_and_the_notice_goes(qtbot: QtBot) -> None:
    stack, done = NoticeStack(), list[str]()
    qtbot.addWidget(stack)
    stack.add(Notice("removed", "It is gone.", action="Undo", tone=Tone.HINT, on_action=lambda: done.append("undone")))
    (button,) = stack.findChildren(QPushButton)
    button.click()
    assert done == ["undone"]
    assert stack.notices == ()


def test_a_notice_whose_words_change_does_what_the_newest_carries(qtbot: QtBot) -> None:
    stack, done = NoticeStack(), list[int]()
    qtbot.addWidget(stack)
    for number in (1, 2):
        words = f"{number} removed."
        notice = Notice("n", words, action="Undo", tone=Tone.HINT, on_action=partial(done.append, number))
        stack.add(notice)
    (button,) = stack.findChildren(QPushButton)
    button.click()
    assert done == [2]


def test_the_buttons_of_a_notice_go_below_its_words_where_these_have_little_room(qtbot: QtBot) -> None:
    stack = NoticeStack()
    qtbot.addWidget(stack)
    stack.add(Notice("n", "The grammar is empty, and that is why nothing was answered.", action="Structured output…"))
    stack.show()
    words, button = stack.findChildren(QLabel)[0], stack.findChildren(QPushButton)[-1]
    stack.resize(1000, 60)
    qtbot.waitUntil(lambda: button.mapTo(stack, QPoint()).x() > words.mapTo(stack, words.rect().topRight()).x())
    stack.resize(300, 200)
    qtbot.waitUntil(lambda: button.mapTo(stack, QPoint()).y() > words.mapTo(stack, words.rect().bottomLeft()).y())
    assert button.mapTo(stack, button.rect().bottomRight()).x() < 300


def test_the_buttons_of_a_notice_are_whole_in_a_low_window(window: MainWindow, qtbot: QtBot) -> None:
    window.notices.add(Notice("n", "The engine has stopped, and nobody knows why it did so.", action="Start again"))
    window.resize(640, 350)  # a screen of 1366 x 768 at 200 percent
    stack = window.notices
    qtbot.waitUntil(lambda: window.height() == 350 and stack.height() >= stack.heightForWidth(stack.width()))
    *_, last = stack.findChildren(QPushButton)
    assert last.mapTo(stack, last.rect().bottomLeft()).y() < stack.height()


def test_what_is_typed_after_a_notice_goes_where_it_went_before(window: MainWindow) -> None:
    assert QTest.qWaitForWindowActive(window)
    window.notices.add(Notice("stopped", "It has stopped.", action="Start again"))
    start, copy, _ = window.notices.findChildren(QPushButton)
    copy.setFocus()
    copy.click()
    assert copy.hasFocus(), "the notice stays"
    start.setFocus()
    start.click()
    QTest.keyClicks(window.focusWidget(), "Hello")
    assert window.chat_panel.composer.field.toPlainText() == "Hello"


def test_a_text_that_was_copied_is_told_of(qtbot: QtBot) -> None:
    button = QPushButton("Copy")
    qtbot.addWidget(button)
    button.show()
    copy_text("Hello", button)
    assert QGuiApplication.clipboard().text() == "Hello"
    qtbot.waitUntil(lambda: QToolTip.text() == "Copied")


def test_an_action_may_raise_the_same_notice_again(qtbot: QtBot) -> None:
    stack = NoticeStack()
    qtbot.addWidget(stack)
    again = Notice("n", "Failed again.", tone=Tone.HINT)
    stack.add(Notice("n", "Failed.", action="Try again", tone=Tone.HINT, on_action=lambda: stack.add(again)))
    stack.act("n")
    assert stack.notices == (again,)
