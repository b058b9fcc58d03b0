"""Deleting a message in the whole window: from its buttons, with a way back in a notice."""

from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.chat.conversations import REMOVED_NOTICE
from app.shell.window import MainWindow
from tests.app.fake_link import FakeLink
from tests.app.test_rounds_in_window import WORDS, converse


def shown(window: MainWindow) -> list[str]:
    return [each.text for each in window.chat_panel.view.column.messages]


def notice_keys(window: MainWindow) -> list[str]:
    return [each.key for each in window.notices.notices]


def press_undo(window: MainWindow) -> None:
    next(each for each in window.notices.findChildren(QPushButton) if each.text() == "Undo").click()


def test_a_turn_is_deleted_and_comes_back(qtbot: QtBot, window: MainWindow, link: FakeLink) -> None:
    converse(window, link, *WORDS)
    before = shown(window)
    view, panel = window.chat_panel.view, window.chat_panel
    view.questions[0].delete_tool.click()
    assert shown(window) == []
    assert panel.welcome.isVisible()
    assert REMOVED_NOTICE in notice_keys(window)
    press_undo(window)
    assert shown(window) == before
    assert view.isVisible()
    assert REMOVED_NOTICE not in notice_keys(window)


def test_a_version_is_deleted_alone_and_its_button_says_so(qtbot: QtBot, window: MainWindow, link: FakeLink) -> None:
    converse(window, link, *WORDS)
    first = shown(window)[-1]
    tool = window.chat_panel.view.answers[-1].delete_tool
    assert (tool.accessibleName(), tool.toolTip()) == ("Delete question and answer", "Delete question and answer")
    window.chat.regenerate()
    assert not window.chat_panel.view.answers[-1].delete_tool.isEnabled()
    link.say("again")
    link.finish()
    tool = window.chat_panel.view.answers[-1].delete_tool
    assert tool.accessibleName() == "Delete this version"
    tool.click()
    assert shown(window)[-1] == first
    assert window.chat_panel.view.answers[-1].delete_tool.accessibleName() == "Delete question and answer"
