"""The conversation on the screen: bubbles, figures, scrolling, links, copies."""

import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QToolTip
from pytestqt.qtbot import QtBot

from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Attachment, Message
from app.chat.view.answer_figures import figures_of
from app.chat.view.conversation_view import COLUMN_WIDTH, ConversationView
from app.chat.view.message_column import GAP
from app.ui.text_dialog import TextDialog
from app.ui.theme import DARK
from engine.protocol.messages import Seconds, Statistics

FIGURES = Statistics(
    method="specexec", new_tokens=102, passes=12, first_token_seconds=0.12, seconds=Seconds(decode=2.0)
)


def settle() -> None:
    """Let the layouts come to rest: a changed height travels up through them one event at a time."""
    for _ in range(5):
        QApplication.processEvents()


def add_turn(view: ConversationView, question: str, answer: str, ending: AnswerEnding = AnswerEnding.COMPLETE) -> None:
    """Show a turn that is there already."""
    view.add_turn(Message("user", question), Message("assistant", answer, ending, FIGURES))
    settle()


def fill(view: ConversationView, turns: int = 12) -> None:
    """Show more than fits."""
    for number in range(turns):
        add_turn(view, f"Question {number}", "Some words. " * 40)


def grow(view: ConversationView, text: str) -> None:
    """Let the last answer grow, and show it."""
    view.change_answer(Message("assistant", text, AnswerEnding.OPEN), text)
    view.answers[-1]._throttle.flush()
    settle()


def test_every_message_is_as_tall_as_its_text(view: ConversationView) -> None:
    add_turn(view, "short", "one line")
    low = view.answers[0].text.height()
    add_turn(view, "long", "many words " * 200)
    assert view.answers[1].text.height() > 4 * low
    for answer in view.answers:
        assert answer.text.verticalScrollBar().maximum() == 0


def test_a_narrower_window_makes_taller_messages(view: ConversationView) -> None:
    add_turn(view, "long", "many words " * 100)
    wide = view.answers[0].text.height()
    view.resize(420, 400)
    QApplication.processEvents()
    assert view.answers[0].text.height() > wide


def test_a_narrow_window_cuts_nothing_off(view: ConversationView) -> None:
    view.resize(260, 400)
    add_turn(view, "q", "a")
    labels = [label for label in view.answers[0].figures.findChildren(QLabel) if label.isVisible()]
    rows = {label.y() for label in labels}
    assert len(rows) > 1
    assert all(label.geometry().right() <= view.answers[0].figures.width() for label in labels)
    page = view.widget()
    assert page is not None
    assert page.width() <= view.viewport().width()
    assert view.answers[0].figures.height() >= max(label.geometry().bottom() for label in labels)


def test_the_column_has_a_readable_width(view: ConversationView) -> None:
    add_turn(view, "q", "a " * 500)
    assert view.answers[0].width() == COLUMN_WIDTH


def test_a_question_is_shown_as_typed_in_a_bubble_of_its_width(view: ConversationView) -> None:
    typed = "*not bold*   <b>x</b>\nsecond line"
    add_turn(view, typed, "a")
    add_turn(view, "long words " * 60, "a")
    assert view.questions[0].text.toPlainText() == typed
    assert view.questions[0].text.width() < COLUMN_WIDTH / 2
    assert COLUMN_WIDTH * 0.7 < view.questions[1].text.width() < COLUMN_WIDTH * 0.8


def test_it_follows_a_growing_answer_at_the_bottom(view: ConversationView) -> None:
    fill(view)
    bar = view.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    before = bar.maximum()
    grow(view, "More words. " * 60)
    assert bar.maximum() > before
    assert bar.value() == bar.maximum()


def test_it_stays_where_the_reader_is(view: ConversationView) -> None:
    fill(view)
    bar = view.verticalScrollBar()
    bar.setValue(50)
    grow(view, "More words. " * 60)
    assert bar.value() == 50
    assert view._to_bottom.isVisible()
    view._to_bottom.click()
    assert bar.value() == bar.maximum()
    assert not view._to_bottom.isVisible()
    grow(view, "Still more words. " * 60)
    assert bar.value() == bar.maximum()


def test_an_own_question_goes_to_the_end(view: ConversationView) -> None:
    fill(view)
    view.verticalScrollBar().setValue(0)
    add_turn(view, "new", "")
    assert view.verticalScrollBar().value() == view.verticalScrollBar().maximum()


def test_the_wheel_scrolls_the_list_over_a_message(view: ConversationView) -> None:
    fill(view)
    bar = view.verticalScrollBar()
    before = bar.value()
    message = view.answers[-1].text
    where = message.mapTo(view, QPoint(5, message.height() - 5))
    QTest.wheelEvent(view.windowHandle(), where, QPoint(0, 240))
    assert bar.value() < before


def test_text_arrives_in_frames_and_the_ending_at_once(view: ConversationView) -> None:
    view.add_turn(Message("user", "q"), Message("assistant", "", AnswerEnding.WAITING))
    for _ in range(50):
        view.change_answer(Message("assistant", "", AnswerEnding.OPEN), "word ")
    assert view.answers[0].markdown.text.count("word") < 50
    view.change_answer(Message("assistant", "word " * 50, AnswerEnding.COMPLETE, FIGURES), "")
    assert view.answers[0].markdown.text == "word " * 50


def answered_conversation(*texts: str) -> Conversation:
    conversation = Conversation()
    for question, answer in zip(texts[::2], texts[1::2], strict=True):
        _, empty = conversation.ask(question)
        conversation.change(replace(empty, text=answer, ending=AnswerEnding.COMPLETE))
    return conversation


def test_another_answer_takes_the_place_of_the_last_one_and_both_can_be_reached(
    view: ConversationView, qtbot: QtBot
) -> None:
    conversation = answered_conversation("one", "eins", "two", "old text")
    view.show_conversation(conversation)
    first = view.answers[0]
    again = conversation.answer_again()
    view.show_path(conversation, 3)
    view.change_answer(replace(again, text="new", ending=AnswerEnding.COMPLETE), "new")
    assert view.answers[-1].text.toPlainText().strip() == "new"
    assert view.answers[0] is first, "what stands before it was built anew"
    assert view.answers[-1].versions.text == "2/2"
    assert not first.versions.isVisible()
    with qtbot.waitSignal(view.version_chosen) as chosen:
        view.answers[-1].versions.earlier.click()
    assert chosen.args == [again.id, 0]
    assert not view.answers[-1].versions.later.isEnabled()


def test_a_question_is_edited_in_its_place(view: ConversationView, qtbot: QtBot) -> None:
    conversation = answered_conversation("one", "eins", "two", "zwei")
    view.show_conversation(conversation)
    view.questions[0].edit_tool.click()
    editor = view.questions[0].editor
    assert editor is not None
    editor.field.setPlainText("uno")
    with qtbot.waitSignal(view.edited) as edited:
        QTest.keyClick(editor.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert edited.args == [conversation.messages[0].id, "uno", ()]
    assert view.questions[0].editor is None
    conversation.ask_differently(conversation.messages[0].id, "uno")
    view.show_path(conversation, 0)
    assert [each.text.toPlainText() for each in view.questions] == ["uno"]


def test_what_is_edited_keeps_its_size_of_letters_and_the_files_that_are_not_taken_away(
    view: ConversationView, qtbot: QtBot
) -> None:
    notes, more = Attachment("notes.txt", "text"), Attachment("more.txt", "text")
    asked = Message("user", "What is in it?", attachments=(notes, more))
    view.show_conversation(Conversation([asked, Message("assistant", "Notes.", parent=asked.id)]))
    question = view.questions[0]
    question.edit_tool.click()
    assert question.editor is not None
    assert question.editor.tray.isVisible()
    assert not question.text.isVisible()
    assert question.editor.field.font().pointSizeF() == pytest.approx(question.text.font().pointSizeF())
    question.editor.cancel.click()
    assert question.text.isVisible()
    question.edit_tool.click()
    question.editor.tray.chips[1].remove.click()
    with qtbot.waitSignal(view.edited) as edited:
        question.editor.accept.click()
    assert edited.args == [asked.id, asked.text, (notes,)]


def test_files_are_pasted_into_a_question_that_is_edited_and_into_no_answer(
    view: ConversationView, qtbot: QtBot, tmp_path: Path
) -> None:
    view.show_conversation(answered_conversation("one", "eins"))
    (tmp_path / "notes.txt").write_text("text")
    before = set(threading.enumerate())
    files, folder = QMimeData(), QMimeData()
    files.setUrls([QUrl.fromLocalFile(str(tmp_path / "notes.txt"))])
    folder.setUrls([QUrl.fromLocalFile(str(tmp_path))])
    question, answer = view.questions[0], view.answers[0]
    for shown in (answer, question):
        shown.edit_tool.click()
    assert answer.editor is not None
    assert not answer.editor.field.canInsertFromMimeData(files)
    editor = question.editor
    assert editor is not None
    assert editor.field.canInsertFromMimeData(files)
    editor.field.insertFromMimeData(files)
    assert not editor.accept.isEnabled(), "what is still read would be missing"
    qtbot.waitUntil(editor.accept.isEnabled)
    with qtbot.waitSignal(view.refused):
        editor.field.insertFromMimeData(folder)
    with qtbot.waitSignal(view.edited) as edited:
        editor.accept.click()
    assert edited.args == [question.message.id, "one", (Attachment("notes.txt", "text"),)]
    qtbot.waitUntil(lambda: not any("attachments" in each.name for each in set(threading.enumerate()) - before))


def test_the_text_of_a_sent_file_can_be_seen(view: ConversationView) -> None:
    asked = Message("user", "What is in it?", attachments=(Attachment("notes.txt", "one\n" + "two " * 1000),))
    view.show_conversation(Conversation([asked, Message("assistant", "Notes.", parent=asked.id)]))
    (chip,) = view.questions[0].files.chips
    assert not chip.remove.isVisible()
    chip.words.click()
    (shown,) = view.window().findChildren(TextDialog)
    assert shown.windowTitle() == "notes.txt"
    assert max(map(len, shown.text.toPlainText().split("\n"))) == 2000, "longer lines would be slow"
    shown.copy.click()
    assert QGuiApplication.clipboard().text() == asked.attachments[0].text
    shown.reject()


def test_escape_leaves_a_message_as_it_is(view: ConversationView, qtbot: QtBot) -> None:
    view.show_conversation(answered_conversation("one", "eins"))
    view.answers[0].edit_tool.click()
    editor = view.answers[0].editor
    assert editor is not None
    with qtbot.assertNotEmitted(view.edited):
        QTest.keyClick(editor.field, Qt.Key.Key_Escape)
    assert view.answers[0].editor is None
    assert not view.answers[0].text.isHidden()


def test_nothing_can_be_changed_while_an_answer_is_under_way(view: ConversationView) -> None:
    view.show_conversation(answered_conversation("one", "eins"))
    view.set_answering(True)
    assert not view.questions[0].edit_tool.isEnabled()
    assert not view.answers[0].edit_tool.isEnabled()
    view.edit_last_question()
    assert view.questions[0].editor is None
    view.set_answering(False)
    view.edit_last_question()
    assert view.questions[0].editor is not None


@pytest.mark.parametrize("what", ["question", "answer"])
def test_what_was_being_written_when_an_answer_began_waits_for_its_end(
    view: ConversationView, qtbot: QtBot, what: str
) -> None:
    view.show_conversation(answered_conversation("one", "eins"))
    shown = view.questions[0] if what == "question" else view.answers[0]
    shown.edit_tool.click()
    editor = shown.editor
    assert editor is not None
    view.set_answering(True)
    editor.field.setPlainText("two")
    with qtbot.assertNotEmitted(view.edited):
        QTest.keyClick(editor.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert shown.editor is editor
    assert editor.field.toPlainText() == "two"
    assert "under way" in editor.accept.toolTip()
    view.set_answering(False)
    with qtbot.waitSignal(view.edited):
        QTest.keyClick(editor.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)


def test_every_answer_can_be_generated_again(view: ConversationView, qtbot: QtBot) -> None:
    add_turn(view, "one", "eins")
    add_turn(view, "two", "zwei")
    earlier, last = view.answers
    for answer in (earlier, last):
        assert answer._regenerate.isVisible()
        with qtbot.waitSignal(view.regenerate_requested) as wanted:
            answer._regenerate.click()
        assert wanted.args == [answer.message.id]
    assert "what follows stays with this version" in earlier._regenerate.toolTip()
    assert "what follows" not in last._regenerate.toolTip()
    view.set_answering(True)
    assert not earlier._regenerate.isEnabled()


def test_an_answer_is_copied_as_markdown(view: ConversationView) -> None:
    add_turn(view, "q", "**bold** and `code`")
    view.answers[0]._copy.click()
    assert QGuiApplication.clipboard().text() == "**bold** and `code`"


def test_what_has_no_text_is_not_copied_over_what_is_on_the_clipboard(view: ConversationView) -> None:
    QGuiApplication.clipboard().setText("kept")
    add_turn(view, "", "", AnswerEnding.FAILED)
    for tool in (view.questions[-1].copy_tool, view.answers[-1]._copy):
        tool.click()
    assert QGuiApplication.clipboard().text() == "kept"
    grow(view, "Some")
    view.answers[-1]._copy.click()
    assert QGuiApplication.clipboard().text() == "Some"


def test_the_command_that_copies_an_answer_leaves_the_clipboard_where_there_is_no_text(view: ConversationView) -> None:
    QGuiApplication.clipboard().setText("kept")
    add_turn(view, "What?", "", AnswerEnding.FAILED)
    view.copy_last_answer()
    assert QGuiApplication.clipboard().text() == "kept"
    assert "no text" in QToolTip.text()


def test_an_answer_without_text_offers_only_what_makes_sense_and_says_why(view: ConversationView) -> None:
    add_turn(view, "What?", "", AnswerEnding.FAILED)
    add_turn(view, "What?", "This.")
    empty, whole = view.answers
    for tool in (empty.edit_tool, empty.compare_tool, empty.branch_tool, empty._copy):
        assert not tool.isEnabled()
        assert "no text" in tool.toolTip()
    assert empty._regenerate.isEnabled()
    assert empty.delete_tool.isEnabled()
    assert all(each.isEnabled() for each in whole._tools)


def test_tools_say_that_they_wait_for_the_end_of_an_answer(view: ConversationView) -> None:
    fill(view, 2)
    question, answer = view.questions[0], view.answers[0]
    waiting = (question.edit_tool, question.delete_tool, answer.edit_tool, answer._regenerate, answer.branch_tool)
    names = [each.toolTip() for each in waiting]
    view.set_answering(True)
    assert all("under way" in each.toolTip() and not each.isEnabled() for each in waiting)
    view.set_answering(False)
    assert [each.toolTip() for each in waiting] == names
    assert "what follows" in answer._regenerate.toolTip()


def test_a_conversation_replaces_another(view: ConversationView) -> None:
    fill(view, 3)
    conversation = Conversation()
    _, answer = conversation.ask("only")
    conversation.change(replace(answer, text="one", ending=AnswerEnding.COMPLETE))
    view.show_conversation(conversation)
    assert [each.text.toPlainText() for each in view.questions] == ["only"]
    assert len(view.answers) == 1


def test_another_theme_keeps_the_text(view: ConversationView) -> None:
    add_turn(view, "q", "some `code`")
    view.set_theme(DARK)
    assert "some code" in view.answers[0].text.toPlainText()


def test_figures_stand_under_the_answer_with_their_definitions(view: ConversationView) -> None:
    add_turn(view, "q", "a")
    assert view.answers[0].figures.text == ("51.0 tokens/s · 8.5 tokens per pass · 2.0 s")
    for figure in figures_of(Message("assistant", "a", AnswerEnding.COMPLETE, FIGURES)):
        assert len(figure.definition) > len(figure.text)


def test_messages_that_are_shown_anew_stand_as_near_as_ever(view: ConversationView) -> None:
    """The first guess at a height is far off where a text has lists and code."""
    text = "Some **words**.\n\n- one\n- two\n\n```python\nprint('x')\n```\n\n" + "More words. " * 60
    chat = Conversation()
    for number in range(3):
        _, answer = chat.ask(f"Question {number}")
        chat.change(replace(answer, text=text * (number + 1), ending=AnswerEnding.COMPLETE, statistics=FIGURES))
    for first in (0, 2, 4):
        view.show_path(chat, first)
        settle()
        built = view.column.built
        assert len(built) > 1
        for (_, above), (_, below) in pairwise(built):
            assert below.y() == above.y() + above.height() + GAP


def test_every_answer_names_its_model_where_several_wrote(view: ConversationView) -> None:
    conversation = Conversation()
    for answerer in ("oak-7b + acorn-1b", "oak-7b + acorn-3b"):
        _, answer = conversation.ask("Which tree?")
        written = replace(answer, text="A larch.", ending=AnswerEnding.COMPLETE, statistics=FIGURES, answerer=answerer)
        conversation.change(written)
    view.show_conversation(conversation)
    assert not any("oak" in each.figures.text for each in view.answers), "another draft writes the same words"
    again = replace(conversation.answer_again(), ending=AnswerEnding.OPEN, statistics=FIGURES)
    conversation.change(again)
    view.show_path(conversation, 3)
    assert not any("oak" in each.figures.text for each in view.answers)
    view.change_answer(replace(again, answerer="elm-9b"), "")
    view.change_answer(replace(again, answerer="elm-9b", text="An elm.", ending=AnswerEnding.COMPLETE), "An elm.")
    assert ["oak-7b" in view.answers[0].figures.text, "elm-9b" in view.answers[1].figures.text] == [True, True]
    view.show_conversation(Conversation())
    add_turn(view, "Which tree?", "A larch.")
    assert "oak" not in view.answers[0].figures.text
