"""A long answer is a column of sections: few exist at a time, each turn does a little, and copies miss nothing."""

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Message
from app.chat.text.document import MarkdownDocument
from app.chat.text.markdown_view import MarkdownView
from app.chat.text.message_text import MessageText
from app.chat.view.answer_view import AnswerView
from app.chat.view.conversation_view import ConversationView
from app.ui.theme import DARK
from tests.app.chat.text.test_manuscript import Steps
from tests.campaigns.extent import choose

WORDS = "".join(f"word{number} " for number in range(choose(6_000, 20_000)))
TABLE = "| a | b |\n|---|---|\n" + "".join(f"| r{number} | x |\n" for number in range(choose(900, 3_000)))


def stored(text: str) -> Conversation:
    """A conversation with one answer."""
    conversation = Conversation()
    _, answer = conversation.ask("q")
    conversation.change(Message("assistant", text, parent=answer.parent, id=answer.id))
    return conversation


def settled(view: ConversationView, qtbot: QtBot) -> AnswerView:
    """The last answer, when all that can be seen of it is written, at the width that it gets."""

    def is_still() -> bool:
        before = view.answers[-1].body.size()
        for _ in range(5):
            QApplication.processEvents()
        body = view.answers[-1].body
        return not body.is_behind and body.size() == before and body.width() > view.viewport().width() // 2

    qtbot.waitUntil(is_still, timeout=60_000)
    return view.answers[-1]


def words(texts: list[MessageText]) -> list[str]:
    """All words that are shown."""
    return " ".join(each.toPlainText() for each in texts).split()


def test_the_clock_is_looked_at_after_every_block(body: MarkdownView, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    original = MarkdownDocument._write

    def write(self: MarkdownDocument, *arguments: object) -> object:
        written.append(1)
        return original(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(MarkdownDocument, "_write", write)
    body.show_text("A paragraph.\n\n" * 100)
    turns = 0
    while body.is_behind:
        written.clear()
        body.work(0, Steps())
        assert len(written) <= 2  # one that is closed, and the open end behind the last
        turns += 1
    assert turns > 50
    assert words(body.texts).count("paragraph.") == 100


@pytest.mark.parametrize("text", [WORDS, TABLE], ids=["words", "table"])
def test_few_sections_exist_of_a_long_answer(view: ConversationView, qtbot: QtBot, text: str) -> None:
    view.show_conversation(stored(text))
    answer = settled(view, qtbot)
    assert answer.markdown.count > 3
    assert len(answer.texts) < answer.markdown.count
    assert answer.markdown.text == text
    last = text.split()[-2] if text is TABLE else text.rsplit(maxsplit=1)[-1]
    assert last in words(answer.texts), "the end is what is seen first"


def test_what_is_scrolled_to_is_written(view: ConversationView, qtbot: QtBot) -> None:
    view.show_conversation(stored(WORDS))
    count = len(WORDS.split())

    def seen() -> list[int]:
        """The numbers of the words of all sections of which something can be seen."""
        height, texts = view.viewport().height(), settled(view, qtbot).texts
        tops = [text.mapTo(view.viewport(), QPoint()).y() for text in texts]
        inside = [text for text, top in zip(texts, tops, strict=True) if top < height and top + text.height() > 0]
        return [int(word.removeprefix("word")) for word in words(inside)]

    assert seen()[-1] == count - 1
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum() // 2)
    qtbot.waitUntil(lambda: any(count * 0.4 < number < count * 0.6 for number in seen()))
    numbers = [int(word.removeprefix("word")) for word in words(settled(view, qtbot).texts)]
    assert numbers == sorted(numbers)
    assert numbers[-1] == count - 1, "the end is kept"


def test_sections_stand_one_below_the_other(view: ConversationView, qtbot: QtBot) -> None:
    view.show_conversation(stored(WORDS))
    body = settled(view, qtbot).body
    bottoms = [text.y() + text.height() for text in body.texts]
    assert bottoms[-1] == body.height()
    for below, text in zip(body.texts[1:], body.texts, strict=False):
        assert below.y() >= text.y() + text.height()


def test_another_width_or_theme_keeps_few_sections_and_all_text(view: ConversationView, qtbot: QtBot) -> None:
    view.show_conversation(stored(WORDS))
    before = settled(view, qtbot).body.height()
    view.resize(500, 400)
    view.set_theme(DARK)
    answer = settled(view, qtbot)
    assert answer.body.height() > before
    assert len(answer.texts) < answer.markdown.count
    assert WORDS.split()[-1] in words(answer.texts)


def test_what_was_guessed_at_another_width_is_guessed_again(body: MarkdownView) -> None:
    """Also of a section that exists and is not written yet: a view is 100 pixels wide until it has its place."""
    body.resize(100, 10)
    body.show_text(WORDS)
    body.work(0, Steps())
    assert body.texts
    narrow = body.height()
    body.resize(700, 10)
    assert body.height() < narrow / 4


def test_a_long_answer_is_copied_whole(view: ConversationView, qtbot: QtBot) -> None:
    view.show_conversation(stored(TABLE))
    settled(view, qtbot).copy()
    assert QGuiApplication.clipboard().text() == TABLE


def test_a_selection_over_sections_misses_nothing(body: MarkdownView) -> None:
    body.show_part(0, 10_000_000)
    body.show_text(WORDS)
    while body.is_behind:
        body.work()
    assert len(body.texts) == body.manuscript.count > 3
    for text in body.texts:
        text.selectAll()
    assert body.selection.split() == WORDS.split()
    first, last = body.texts[0], body.texts[-1]
    for text in body.texts[1:-1]:
        cursor = text.textCursor()
        cursor.clearSelection()
        text.setTextCursor(cursor)
    body.show_part(0, 100)
    assert first in body.texts
    assert last in body.texts
    assert body.selection.split() == WORDS.split(), "what does not exist, or is passed over, comes as it was written"


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("```\n" + "x" * 6_000 + "\n```\n\nend", "x" * 6_000 + "\n\nend"),
        ("a" * 9_000, "a" * 9_000),
        ("```\n" + "".join(f"{n}\n" for n in range(100)) + "```\n", "\n".join(map(str, range(100)))),
    ],
)
def test_cuts_cannot_be_seen_in_what_is_copied(body: MarkdownView, text: str, copied: str) -> None:
    body.show_text(text)
    body.work()
    cursor = QTextCursor(body.texts[0].document())
    cursor.select(QTextCursor.SelectionType.Document)
    body.texts[0].setTextCursor(cursor)
    assert body.selection == copied


def test_code_that_goes_on_in_another_section_is_seen_from_its_first_line(body: MarkdownView) -> None:
    body.show_part(0, 10_000_000)
    body.show_text("```\n" + "x = 1\n" * 2_000)
    while body.is_behind:
        body.work()
    for text in body.texts[1:]:
        layout = text.document().documentLayout()
        block = text.document().findBlock(text.document().rootFrame().childFrames()[0].firstPosition())
        assert layout.blockBoundingRect(block).top() >= 0


def test_a_word_costs_the_same_in_a_long_answer(view: ConversationView, qtbot: QtBot) -> None:
    view.add_turn(Message("user", "q"), Message("assistant", "", AnswerEnding.OPEN))
    view.change_answer(Message("assistant", "", AnswerEnding.OPEN), "Some words in a paragraph.\n\n" * 3_000)
    answer = settled(view, qtbot)
    longest = max(text.document().blockCount() for text in answer.texts)
    view.change_answer(Message("assistant", "", AnswerEnding.OPEN), "Some words in a paragraph.\n\n" * 3_000)
    answer = settled(view, qtbot)
    assert max(text.document().blockCount() for text in answer.texts) <= longest * 1.2
    assert len(answer.texts) < 10


@pytest.mark.parametrize("again", ["", "Only this."])
def test_another_text_takes_the_place_of_a_long_one_whose_beginning_is_not_laid_out(
    body: MarkdownView, qtbot: QtBot, again: str
) -> None:
    body.show_text(WORDS)
    body.work()
    body.show_part(body.height() - 400, body.height())
    body.work()
    body.resize(600, body.height())  # what nobody sees is given up
    assert all("word0 " not in text.toPlainText() for text in body.texts)
    body.show_text(again)
    body.work()
    assert [text.toPlainText().strip() for text in body.texts] == [again]
    assert not body.is_behind
