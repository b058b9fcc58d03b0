"""Long texts of a person: shown as they were typed, a little at a time, and attached where no field could hold them."""

import itertools

import pytest
from PySide6.QtCore import QMimeData
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPlainTextEdit, QToolTip
from pytestqt.qtbot import QtBot

from app.chat.composer.attachment_tray import MOST_FILES
from app.chat.composer.composer import Composer
from app.chat.history.message import Message
from app.chat.text.document_style import Look
from app.chat.text.message_text import MessageText
from app.chat.text.plain_text_view import PlainStream, PlainTextView
from app.chat.typesetting.layout_cost import is_long, is_writable
from app.chat.view.answer_view import AnswerView
from app.chat.view.conversation_view import ConversationView
from app.chat.view.message_tools import EditorField
from app.chat.view.question_view import QuestionView
from app.ui.theme import LIGHT

LINES = "".join(f"line {number}\n" for number in range(3_000))
TEXTS = {
    "lines": LINES,
    "blank lines": "a\n\n\n" * 500 + "\n" * 300 + "b",
    "one line": "word " * 10_000,
    "no place to cut": "a" * 30_000,
    "blanks": "  two  and\ttab  \n" * 900,
    "marks": "<b>bold</b> **stars** $x^2$ &amp; # no heading\n" * 900,
    "two directions": "a\u0627" * 4_000,
    "signs that mean something to a document": "a\r\nb\x00c\x0cd\u2028e\u2029f\u00a0g\ufdd0h\n" * 900,
    "emoji": "\U0001f469\u200d\U0001f467 " * 2_000,
}


def mime(text: str) -> QMimeData:
    """What a clipboard would hold."""
    data = QMimeData()
    data.setText(text)
    return data


def mark(text: MessageText, begin: int, end: int) -> None:
    """Select this part of a document."""
    cursor = text.textCursor()
    cursor.setPosition(begin)
    cursor.setPosition(end, cursor.MoveMode.KeepAnchor)
    text.setTextCursor(cursor)


def whole(view: PlainTextView) -> PlainTextView:
    """Written to its end, as if all of it could be seen."""
    view.show_part(0, 10_000_000)
    while view.is_behind:
        view.work()
    return view


@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_is_cut_and_nothing_of_it_is_lost(name: str) -> None:
    text, stream = TEXTS[name], PlainStream()
    pieces = (text[begin : begin + 700] for begin in range(0, len(text), 700))
    blocks = [block for piece in pieces for block in stream.feed(piece)]
    blocks += stream.open_blocks
    assert len(blocks) > 3
    joined = "".join(("" if not number else block.joint) + block.source for number, block in enumerate(blocks))
    assert joined.rstrip("\n") == text.rstrip("\n")
    assert all(text.startswith(block.source, block.begin) for block in blocks), "each knows where it stands"


@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_is_shown_and_copied_as_it_was_typed(qtbot: QtBot, name: str) -> None:
    view = PlainTextView(TEXTS[name], Look(LIGHT))
    qtbot.addWidget(view)
    view.resize(600, 400)
    for text in whole(view).texts:
        text.selectAll()
    assert view.selection.rstrip("\n") == TEXTS[name].rstrip("\n")


@pytest.mark.parametrize("name", TEXTS)
def test_parts_of_a_long_text_are_copied_exactly(qtbot: QtBot, name: str) -> None:
    view = PlainTextView(TEXTS[name], Look(LIGHT))
    qtbot.addWidget(view)
    view.resize(600, 400)
    first, last = (whole(view).texts[index] for index in (0, -1))
    mark(first, 42, first.document().characterCount() - 1)
    mark(last, 0, 20)
    begins = len(TEXTS[name].encode("utf-16-le")[:84].decode("utf-16-le"))
    assert TEXTS[name].startswith(view.selection, begins)
    assert begins + len(view.selection) > view.manuscript.begin(1)


def test_a_long_question_is_a_few_documents_however_long_it_is(qtbot: QtBot) -> None:
    view = ConversationView(LIGHT)
    qtbot.addWidget(view)
    view.resize(800, 600)
    view.show()
    view.add_turn(Message("user", LINES * 30), Message("assistant", "Hm."))
    question = view.questions[-1]
    qtbot.waitUntil(lambda: "line 2999" in question.texts[-1].toPlainText())
    assert max(text.document().characterCount() for text in question.texts) < 20_000
    assert len(question.texts) < 25
    view.verticalScrollBar().setValue(0)
    qtbot.waitUntil(lambda: "line 0\nline 1\n" in question.texts[0].toPlainText())
    qtbot.waitUntil(lambda: view.verticalScrollBar().maximum() > 90_000 * 10)  # there is room for all lines
    question.copy()
    assert QGuiApplication.clipboard().text() == LINES * 30


def test_a_long_question_is_written_a_piece_in_a_turn(qtbot: QtBot) -> None:
    view = PlainTextView("", Look(LIGHT))
    qtbot.addWidget(view)
    view.show_text(LINES)
    written = []
    while view.is_behind:
        view.work(0.0)
        written.append(sum(each.document.blocks_written for each in view.shown))
    assert len(written) > 10
    assert max(after - before for before, after in itertools.pairwise(written)) == 1


def test_blank_lines_are_copied(qtbot: QtBot) -> None:
    view = QuestionView(Message("user", "a\n\n\nb\nc"), Look(LIGHT))
    qtbot.addWidget(view)
    view.text.selectAll()
    assert view.selection == "a\n\n\nb\nc"


def test_a_short_question_is_one_document(qtbot: QtBot) -> None:
    view = QuestionView(Message("user", "**Why** <b>?</b>"), Look(LIGHT))
    qtbot.addWidget(view)
    assert [text.toPlainText() for text in view.texts] == ["**Why** <b>?</b>"]


@pytest.mark.parametrize(
    ("text", "long", "writable"),
    [
        ("a" * 5_000, False, True),
        ("a" * 10_000, True, True),
        ("a" * 100_000, True, False),
        ("x = 1\n" * 3_000, True, True),
        ("x = 1\n" * 5_000, True, False),
        (("x" * 999 + "\n") * 300, True, False),
        ("\u0627" * 5_000, True, False),
        ("a\u0627" * 5_000, True, False),
        ("Größe, Übung – „Mühe“. " * 150, False, True),
    ],
)
def test_what_is_long_and_what_nobody_can_write_in(text: str, long: bool, writable: bool) -> None:
    assert (is_long(text), is_writable(text)) == (long, writable)


def test_a_text_that_is_too_long_to_write_in_is_attached(qtbot: QtBot) -> None:
    composer = Composer(LIGHT)
    qtbot.addWidget(composer)
    composer.set_can_ask(True)
    composer.field.insertFromMimeData(mime("short"))
    composer.field.insertFromMimeData(mime("a" * 100_000))
    composer.field.insertFromMimeData(mime("b\n" * 100_000))
    assert composer.field.toPlainText() == "short"
    assert [each.name for each in composer.tray.attachments] == ["Pasted text 1", "Pasted text 2"]
    with qtbot.waitSignal(composer.sent) as sent:
        composer.field.submitted.emit()
    text, attachments, _ = sent.args
    assert (text, [len(each.text) for each in attachments]) == ("short", [100_000, 200_000])


def test_short_texts_do_not_make_a_line_that_is_too_long(qtbot: QtBot) -> None:
    composer = Composer(LIGHT)
    qtbot.addWidget(composer)
    for _ in range(5):
        composer.field.insertFromMimeData(mime("a" * 6_000))
    assert len(composer.field.toPlainText()) == 18_000
    assert len(composer.tray.attachments) == 2


def test_no_more_texts_are_attached_than_files(qtbot: QtBot) -> None:
    composer = Composer(LIGHT)
    qtbot.addWidget(composer)
    refused: list[str] = []
    composer.tray.refused.connect(refused.append)
    for _ in range(MOST_FILES + 1):
        composer.tray.add_text("a")
    assert len(composer.tray.attachments) == MOST_FILES
    assert len(refused) == 1


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_message_that_is_too_long_is_not_edited_and_it_is_said(qtbot: QtBot, role: str) -> None:
    text = "a" * 50_000
    view = QuestionView(Message("user", text), Look(LIGHT)) if role == "user" else None
    shown = view or AnswerView(Message("assistant", text), Look(LIGHT))
    qtbot.addWidget(shown)
    shown.show()
    shown.edit()
    assert shown.editor is None
    qtbot.waitUntil(lambda: "too long" in QToolTip.text())
    QToolTip.hideText()


def test_a_field_takes_no_text_that_is_too_long(qtbot: QtBot) -> None:
    field: QPlainTextEdit = EditorField("before")
    qtbot.addWidget(field)
    field.insertFromMimeData(mime("a" * 50_000))
    field.insertFromMimeData(mime("b"))
    assert sorted(field.toPlainText()) == sorted("beforeb")
    QToolTip.hideText()
