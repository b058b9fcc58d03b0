"""Another wording that was begun is there when its message is seen again."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.history.unsent import Edit, Unsent, unsent_details, unsent_of
from app.chat.view.message_tools import MessageEditor
from app.shell.window import MainWindow
from app.system.paths import Folders
from tests.app.chat.composer.test_unsent import converse, go_to, kept, restarted, wait_for_list
from tests.app.conftest import OpenWindow
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


def test_what_is_being_edited_is_there_after_a_restart(
    window: MainWindow, link: FakeLink, qtbot: QtBot, open_window: OpenWindow, folders: Folders
) -> None:
    here = converse(window, link, "one")
    window.chat_panel.composer.field.setPlainText("Next")
    view = window.chat_panel.view
    view.questions[0].edit()
    view.answers[0].edit()
    open_editors(window)[0].field.setPlainText("one and a half")
    again = restarted(window, open_window, qtbot)
    assert texts(again) == []
    go_to(again, here, qtbot)
    assert texts(again) == ["one and a half", "Yes."]
    assert again.chat_panel.composer.unsent == Unsent("Next")
    assert QApplication.focusWidget() is again.chat_panel.composer.field
    open_editors(again)[0].field.undo()
    assert texts(again)[0] == "one"
    for editor in open_editors(again):
        QTest.keyClick(editor.field, Qt.Key.Key_Escape)
    again.program.quit()
    assert kept(folders) == [Unsent("Next")], "nothing of it is left"


def test_a_wording_that_was_put_away_is_there_after_a_restart(
    window: MainWindow, link: FakeLink, qtbot: QtBot, open_window: OpenWindow
) -> None:
    here = converse(window, link, "one")
    window.chat_panel.view.answers[0].edit()
    open_editors(window)[0].field.setPlainText("Perhaps.")
    QTest.keyClick(open_editors(window)[0].field, Qt.Key.Key_Escape)
    again = restarted(window, open_window, qtbot)
    go_to(again, here, qtbot)
    assert texts(again) == []
    again.chat_panel.view.answers[0].edit()
    assert texts(again) == ["Perhaps."]


def test_edits_come_into_another_window_with_their_chat(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    first, second = converse(window, link, "one"), converse(window, link, "two")
    window.chat_panel.view.questions[0].edit()
    open_editors(window)[0].field.setPlainText("two and a half")
    go_to(window, first, qtbot)
    window.actions_.new_window.trigger()
    other = window.program.windows[-1]
    go_to(other, second, qtbot)
    assert texts(other) == ["two and a half"]
    open_editors(other)[0].field.setPlainText("three")
    other.actions_.new_chat.trigger()
    go_to(window, second, qtbot)
    assert texts(window) == ["three"], "the last that was written"


def test_edits_of_messages_that_are_gone_are_not_kept(
    window: MainWindow, link: FakeLink, qtbot: QtBot, folders: Folders
) -> None:
    converse(window, link, "one")
    window.chat.ask("two")
    link.say("No.")
    link.finish()
    for question in window.chat_panel.view.questions:
        question.edit()
    for editor in open_editors(window):
        editor.field.setPlainText("Otherwise")
    window.chat.delete(window.chat.conversation.messages[2].id)
    left = window.chat.conversation.messages[0].id
    window.program.quit()
    assert kept(folders) == [Unsent(edits=(Edit(left, "Otherwise"),))]


def test_edits_that_come_late_open_their_editors(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    here = converse(window, link, "one")
    question = window.chat.conversation.messages[0].id
    wait_for_list(window, qtbot)
    archive = window.program.chats.archive
    archive.unsent_listed.emit({here: Unsent(edits=(Edit(question, "another"),))}, [])
    assert texts(window) == ["another"]


def test_edits_are_read_as_they_were_kept_and_damaged_ones_left_out() -> None:
    unsent = Unsent("text", edits=(Edit(3, "three"), Edit(4, "four", is_open=False)))
    assert unsent_of(unsent_details(unsent)) == unsent
    assert unsent.texts == ("text", "three", "four")
    damaged = [None, 3, {}, {"message": True, "text": "x"}, {"message": 1, "text": 2}, {"message": 5, "text": "five"}]
    assert unsent_of({"edits": damaged}) == Unsent(edits=(Edit(5, "five", is_open=False),))
