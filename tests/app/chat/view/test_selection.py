"""Everything is selected and copied by keys: a message, however long, then the conversation; the mouse scrolls on."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu, QWidget
from pytestqt.qtbot import QtBot

from app.chat.history.conversation import Conversation
from app.chat.history.message import Message
from app.chat.text.message_text import MessageText
from app.chat.view.conversation_view import ConversationView
from tests.app.chat.mouse import hold, release
from tests.app.chat.view.test_views import add_turn, fill, settle
from tests.campaigns.extent import choose

TURNS = choose(80, 300)
CONTROL = Qt.KeyboardModifier.ControlModifier
SEVERAL_FRAMES_MS = 150
LONG = "".join(
    f"Paragraph **{number}** of a long answer, which has some words in it.\n\n" for number in range(choose(800, 3_000))
)


def press(widget: QWidget, key: Qt.Key) -> None:
    """A key with Ctrl."""
    QTest.keyClick(widget, key, CONTROL)


def copied(widget: QWidget) -> str:
    """What the copy key puts on the clipboard."""
    QGuiApplication.clipboard().setText("nothing")
    press(widget, Qt.Key.Key_C)
    return QGuiApplication.clipboard().text()


def conversation(turns: int) -> Conversation:
    """A long one."""
    made = Conversation()
    for number in range(turns):
        _, answer = made.ask(f"question {number}")
        made.change(Message("assistant", f"<think>hm</think>\n\nanswer *{number}*", parent=answer.parent, id=answer.id))
    return made


def test_all_of_a_very_long_answer_is_selected_and_copied(view: ConversationView, qtbot: QtBot) -> None:
    add_turn(view, "q", LONG)
    answer = view.answers[0]
    qtbot.waitUntil(lambda: not answer.body.is_behind)
    assert len(answer.texts) < answer.markdown.count
    press(answer.texts[-1], Qt.Key.Key_A)
    assert all(text.textCursor().hasSelection() for text in answer.texts)
    assert copied(answer.texts[-1]) == LONG.strip("\n"), "as it was written, since not all of it is shown"


def test_what_comes_near_of_a_selected_answer_is_selected(view: ConversationView, qtbot: QtBot) -> None:
    add_turn(view, "q", LONG)
    answer = view.answers[0]
    qtbot.waitUntil(lambda: not answer.body.is_behind)
    press(answer.texts[-1], Qt.Key.Key_A)
    view.verticalScrollBar().setValue(0)
    qtbot.waitUntil(lambda: "Paragraph 0 " in answer.text.toPlainText() and not answer.body.is_behind)
    assert answer.text.selection.startswith("Paragraph 0 of")


def test_a_short_answer_is_copied_as_it_is_read(view: ConversationView) -> None:
    add_turn(view, "q", "**bold**\n\n- item")
    press(view.answers[0].text, Qt.Key.Key_A)
    assert copied(view.answers[0].text) == "bold\n\nitem"
    assert not view.questions[0].text.textCursor().hasSelection()


@pytest.mark.parametrize("turns", [3, choose(40, 200)])
def test_the_second_time_it_is_the_conversation(view: ConversationView, turns: int, qtbot: QtBot) -> None:
    view.show_conversation(conversation(turns))
    text = view.answers[-1].text
    qtbot.waitUntil(lambda: "answer" in text.toPlainText())
    press(text, Qt.Key.Key_A)
    assert copied(text) == f"answer {turns - 1}"
    press(text, Qt.Key.Key_A)
    expected = "\n\n".join(f"question {number}\n\nanswer *{number}*" for number in range(turns))
    assert copied(text) == expected, "also what was never shown"
    view.verticalScrollBar().setValue(0)
    qtbot.waitUntil(lambda: view.questions[0].text.toPlainText() == "question 0")
    assert view.questions[0].selection == "question 0"


def test_without_a_message_in_focus_it_is_the_conversation(view: ConversationView, qtbot: QtBot) -> None:
    add_turn(view, "the question", "the answer")
    press(view, Qt.Key.Key_A)
    assert copied(view) == "the question\n\nthe answer"


def test_a_click_selects_nothing_again(view: ConversationView, qtbot: QtBot) -> None:
    add_turn(view, "the question", "the answer")
    press(view, Qt.Key.Key_A)
    hold(view.questions[0].text)
    release(view.questions[0].text)
    assert view.selection.text == ""
    press(view.answers[0].text, Qt.Key.Key_A)
    press(view.questions[0].text, Qt.Key.Key_A)
    assert view.selection.text == "the question", "one message at a time"


def test_messages_between_that_were_never_shown_are_copied_too(view: ConversationView, qtbot: QtBot) -> None:
    view.show_conversation(conversation(TURNS))
    view.answers[-1].text.selectAll()
    view.verticalScrollBar().setValue(0)
    qtbot.waitUntil(lambda: view.questions[0].text.toPlainText() == "question 0")
    assert len(view.column.views) < TURNS
    view.questions[0].text.selectAll()
    between = [f"answer *{number}*" for number in range(20, TURNS - 20)]
    assert view.selection.text.startswith("question 0\n\n")
    assert view.selection.text.endswith(f"\n\nanswer {TURNS - 1}")
    assert [each for each in between if each not in view.selection.text] == []


def test_selecting_beyond_the_edge_scrolls_on_until_the_mouse_is_released(view: ConversationView, qtbot: QtBot) -> None:
    fill(view)
    bar = view.verticalScrollBar()
    viewport = view.viewport()
    bar.setValue(bar.maximum())
    last = view.answers[-1].text
    hold(last)
    view.selection.dragged.emit(viewport.mapToGlobal(QPoint(300, -50)))
    qtbot.waitUntil(lambda: bar.value() < bar.maximum() - 1_000)
    assert view.answers[-2].text.textCursor().hasSelection()
    release(last)
    bar.setValue(bar.maximum())
    qtbot.wait(SEVERAL_FRAMES_MS)
    assert bar.value() == bar.maximum()


def test_scrolling_on_ends_with_the_text_that_it_began_in(view: ConversationView, qtbot: QtBot) -> None:
    fill(view)
    hold(view.answers[-1].text)
    view.selection.dragged.emit(view.viewport().mapToGlobal(QPoint(300, -50)))
    view.show_conversation(conversation(200))  # nobody hears of the release now
    settle()
    bar = view.verticalScrollBar()
    qtbot.wait(SEVERAL_FRAMES_MS)
    assert bar.value() == bar.maximum()


def test_another_conversation_is_not_selected_because_the_one_before_was(view: ConversationView) -> None:
    view.show_conversation(conversation(2))
    press(view, Qt.Key.Key_A)
    view.show_conversation(conversation(3))
    assert view.selection.text == ""
    assert not any(text.textCursor().hasSelection() for answer in view.answers for text in answer.texts)


def test_the_menu_of_a_text_knows_of_the_other_messages(view: ConversationView, qtbot: QtBot) -> None:
    add_turn(view, "the question", "the answer")
    text: MessageText = view.answers[0].text
    for _ in range(2):
        place = text.viewport().mapToGlobal(QPoint(2, 2))
        text.contextMenuEvent(QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(2, 2), place))
        menu = text.findChildren(QMenu)[-1]
        actions = {action.objectName(): action for action in menu.actions()}
        actions["select-all"].trigger()
        menu.close()
    assert view.selection.text == "the question\n\nthe answer"
    actions["edit-copy"].trigger()
    assert QGuiApplication.clipboard().text() == "the question\n\nthe answer"


def test_the_menu_of_a_text_does_what_the_buttons_of_its_message_do(view: ConversationView, qtbot: QtBot) -> None:
    add_turn(view, "the question", "the answer")
    view.show()
    offered = []
    for message in (view.questions[0], view.answers[0]):
        text = message.text
        place = text.viewport().mapToGlobal(QPoint(2, 2))
        text.contextMenuEvent(QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(2, 2), place))
        menu = text.findChildren(QMenu)[-1]
        offered += [each for each in menu.actions() if each.isVisible() and not each.objectName()]
        assert not any(each.objectName() == "link-copy" and each.isVisible() for each in menu.actions())
        menu.close()
    words = [each.text() for each in offered if each.text()]
    assert words == [
        "Copy question",
        "Edit question",
        "Delete question and answer",
        "Copy answer",
        "Edit answer",
        "Regenerate answer",
        "Compare answers",
        "Branch from here into a new chat",
        "Delete question and answer",
    ]
    next(each for each in offered if each.text() == "Copy answer").trigger()
    assert QGuiApplication.clipboard().text() == "the answer"


def test_thinking_is_selected_and_copied_by_itself(view: ConversationView, qtbot: QtBot) -> None:
    add_turn(view, "q", "<think>a *secret*</think>\n\nThe answer.")
    thought = view.answers[0].thought
    assert thought is not None
    thought.header.click()
    text = thought.text
    assert text is not None
    qtbot.waitUntil(lambda: "secret" in text.toPlainText())
    press(text, Qt.Key.Key_A)
    assert copied(text) == "a secret"
    assert not view.answers[0].text.textCursor().hasSelection()
