"""A notice carries what its button does."""

from functools import partial

from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.ui.notices import Notice, NoticeStack, Tone


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


def test_an_action_may_raise_the_same_notice_again(qtbot: QtBot) -> None:
    stack = NoticeStack()
    qtbot.addWidget(stack)
    again = Notice("n", "Failed again.", tone=Tone.HINT)
    stack.add(Notice("n", "Failed.", action="Try again", tone=Tone.HINT, on_action=lambda: stack.add(again)))
    stack.act("n")
    assert stack.notices == (again,)
