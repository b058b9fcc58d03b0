"""Another wording that was begun is there when its message is seen again."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.view.message_tools import MessageEditor
from app.shell.window import MainWindow
from tests.app.chat.composer.test_unsent import converse, go_to
from tests.app.fake_link import FakeLink


def open_editors(window: MainWindow) -> list[MessageEditor]:
    return [each.editor for each in window.chat_panel.view.column.views if each.editor is not None]


def texts(window: MainWindow) -> list[str]:
    return [each.field.toPlainText() for each in open_editors(window)]


def test_open_editors_survive_a_change_of_the_chat(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    first, second = converse(window, link, "one"), converse(window, link, "two")
    view = window.chat_panel.view
    view.questions[0].edit()
    view.answers[0].edit()
    for editor, text in zip(open_editors(window), ("two and a half", "No."), strict=True):
        editor.field.setPlainText(text)
    go_to(window, first, qtbot)
    assert texts(window) == []
    go_to(window, second, qtbot)
    assert texts(window) == ["two and a half", "No."]
    assert QApplication.focusWidget() is window.chat_panel.composer.field, "no editor takes the focus by itself"
    window.actions_.new_chat.trigger()
    go_to(window, second, qtbot)
    assert texts(window) == ["two and a half", "No."]


def test_what_was_accepted_is_not_offered_again(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    first, second = converse(window, link, "one"), converse(window, link, "two")
    window.chat_panel.view.questions[0].edit()
    open_editors(window)[0].field.setPlainText("three")
    open_editors(window)[0].accept.click()
    link.finish()
    window.chat.show_version(window.chat.conversation.messages[0].id, 0)
    go_to(window, first, qtbot)
    go_to(window, second, qtbot)
    assert texts(window) == []
    window.chat_panel.view.questions[0].edit()
    assert texts(window) == ["two"]


def test_escape_puts_a_wording_away_and_the_next_edit_goes_on(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    first, second = converse(window, link, "one"), converse(window, link, "two")
    window.chat_panel.view.questions[0].edit()
    open_editors(window)[0].field.setPlainText("two and a half")
    QTest.keyClick(open_editors(window)[0].field, Qt.Key.Key_Escape)
    assert texts(window) == []
    go_to(window, first, qtbot)
    go_to(window, second, qtbot)
    assert texts(window) == [], "it was put away"
    window.chat_panel.view.questions[0].edit()
    assert texts(window) == ["two and a half"]
    open_editors(window)[0].field.undo()
    assert texts(window) == ["two"]
    QTest.keyClick(open_editors(window)[0].field, Qt.Key.Key_Escape)
    window.chat_panel.view.questions[0].edit()
    assert texts(window) == ["two"], "there is nothing to go on with"
