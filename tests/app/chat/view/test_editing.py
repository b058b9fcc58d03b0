"""Editing a message in its place: the field is in sight, and the keys are those of the field below."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.chat.history.message import Version
from app.chat.view.conversation_view import ConversationView
from app.chat.view.message_tools import MessageEditor
from tests.app.chat.view.test_views import add_turn, fill, settle

CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
PLAIN = Qt.KeyboardModifier.NoModifier


def is_in_sight(view: ConversationView, editor: MessageEditor) -> bool:
    top = editor.mapTo(view.viewport(), QPoint()).y()
    return top >= 0 and top + editor.height() <= view.viewport().height()


def edited(view: ConversationView, question: str = "And now?") -> MessageEditor:
    """The editor of the last question, which stands above a long answer."""
    fill(view)
    add_turn(view, question, "Some words. " * 400)
    assert view.verticalScrollBar().value() == view.verticalScrollBar().maximum()
    view.edit_last_question()
    settle()
    editor = view.questions[-1].editor
    assert editor is not None
    return editor


@pytest.mark.parametrize("question", ["And now?", "line\n" * 5])
def test_the_editor_of_a_question_above_a_long_answer_is_in_sight(view: ConversationView, question: str) -> None:
    editor = edited(view, question)
    assert is_in_sight(view, editor)
    assert editor.field.hasFocus()


def test_an_answer_that_is_edited_is_in_sight_too(view: ConversationView) -> None:
    fill(view)
    add_turn(view, "And now?", "Some words. " * 400)
    view.verticalScrollBar().setValue(0)
    settle()
    view.answers[-1].edit()
    settle()
    editor = view.answers[-1].editor
    assert editor is not None
    assert is_in_sight(view, editor)


@pytest.mark.parametrize(
    ("with_ctrl", "sending", "writing", "said"),
    [
        (False, PLAIN, SHIFT, "Enter: Send  ·  Shift+Enter: new line"),
        (True, CTRL, PLAIN, "Ctrl+Enter: Send  ·  Enter: new line"),
    ],
)
def test_a_question_is_sent_with_the_key_of_the_setting(
    view: ConversationView,
    qtbot: QtBot,
    with_ctrl: bool,
    sending: Qt.KeyboardModifier,
    writing: Qt.KeyboardModifier,
    said: str,
) -> None:
    view.set_send_key(with_ctrl)
    editor = edited(view, "one")
    assert editor.keys.text() == said
    assert editor.accept.toolTip() == f"Send ({said.partition(':')[0]})"
    with qtbot.assertNotEmitted(view.edited):
        QTest.keyClick(editor.field, Qt.Key.Key_Return, writing)
        QTest.keyClicks(editor.field, "two")
    with qtbot.waitSignal(view.edited) as signal:
        QTest.keyClick(editor.field, Qt.Key.Key_Return, sending)
    assert signal.args is not None
    assert signal.args[1] == "one\ntwo"


def test_enter_on_the_button_that_gives_up_sends_nothing(view: ConversationView, qtbot: QtBot) -> None:
    editor = edited(view)
    editor.cancel.setFocus()
    with qtbot.assertNotEmitted(view.edited):
        QTest.keyClick(editor.cancel, Qt.Key.Key_Return)


def test_enter_writes_a_line_into_an_answer(view: ConversationView) -> None:
    add_turn(view, "one", "eins")
    view.answers[0].edit()
    editor = view.answers[0].editor
    assert editor is not None
    assert editor.keys.text() == "Ctrl+Enter: Save  ·  Enter: new line"
    QTest.keyClick(editor.field, Qt.Key.Key_Return)
    assert editor.field.toPlainText() == "eins\n"


def test_buttons_stay_where_they_are_when_there_is_another_version(view: ConversationView) -> None:
    add_turn(view, "one", "eins")

    def places() -> list[tuple[int, int]]:
        tools = (*view.answers[0].tools, *view.questions[0].tools)
        return [each.mapTo(view.column, QPoint()).toTuple() for each in tools]

    before = places()
    for shown in (view.answers[0], view.questions[0]):
        shown.show_version(Version(1, 2))
    settle()
    assert view.answers[0].versions.isVisible()
    assert places() == before


def test_no_way_to_the_end_is_shown_where_all_is_in_sight(view: ConversationView) -> None:
    add_turn(view, "one", "eins")
    view.edit_last_question()
    settle()
    assert not view._to_bottom.isVisible()
    editor = view.questions[0].editor
    assert editor is not None
    editor.cancel.click()
    settle()
    assert not view._to_bottom.isVisible()
