"""Text from elsewhere steers nothing but itself: no other text is turned round, and no marks are taken for ours."""

from pathlib import Path

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.chat.composer.attachment_tray import AttachmentChip
from app.chat.history.message import Attachment, Message
from app.chat.history.records import ConversationRecord, SearchHit
from app.chat.sidebar.model import ConversationModel
from app.chat.sidebar.rows import hit_rows
from app.chat.text.blocks import Block
from app.chat.text.document_style import Look
from app.chat.text.rendering import BlockRenderer
from app.chat.view.question_view import QuestionView
from app.system.plain_text import can_be_seen, marked, runs_leftwards, tip, unsteered
from app.ui.notices import Notice, NoticeStack
from app.ui.theme import LIGHT

RLO, RLI, PDI, ZWSP = "\u202e", "\u2067", "\u2069", "\u200b"
STEERING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def test_what_steers_is_taken_away_and_letters_stay() -> None:
    assert unsteered(f"a{STEERING}b") == "ab"
    persian = "می\u200cخواهم 👨\u200d👩\u200d👧 \u200eשלום"
    assert unsteered(persian) == persian


def test_code_shows_what_would_deceive() -> None:
    assert marked(f"if {RLO}a{PDI}:{ZWSP}") == "if ⟨RLO⟩a⟨PDI⟩:⟨ZWSP⟩"
    assert marked("emoji 👨\u200d👩 é") == "emoji 👨\u200d👩 é"


@pytest.mark.parametrize("source", [f"```python\nx = '{RLO}a'\n```\n", f"text `x = '{RLO}a'`\n", f"    x = '{RLO}a'\n"])
def test_code_of_an_answer_shows_it_too_and_is_copied_as_it_was(source: str) -> None:
    rendered = BlockRenderer(LIGHT).render(Block(source))
    shown = rendered.html + "".join(each.code for each in rendered.codes)
    assert RLO not in shown
    assert "⟨RLO⟩" in shown
    assert rendered.code is None or RLO in rendered.code.text


def test_titles_in_the_list_and_their_tips(qtbot: QtBot) -> None:
    record = ConversationRecord(7, title=f"<b>evil</b> {RLO}gnp.exe")
    assert record.shown_title == "<b>evil</b> gnp.exe"
    model = ConversationModel()
    model.show_rows(hit_rows([SearchHit(record)]))
    index = model.index_of(7)
    assert RLO not in str(index.data(Qt.ItemDataRole.DisplayRole))
    assert index.data(Qt.ItemDataRole.ToolTipRole) == "<b>evil</b> gnp.exe"


@pytest.mark.parametrize("title", ["", ZWSP * 9, f"{RLO}", "\u3164", " \ufeff "])
def test_a_title_that_cannot_be_seen_is_none(title: str) -> None:
    assert not can_be_seen(title)
    assert ConversationRecord(7, auto_title=title).shown_title == "New chat"


def test_notices(qtbot: QtBot) -> None:
    stack = NoticeStack()
    qtbot.addWidget(stack)
    stack.add(Notice("key", f"Deleted “{RLO}abc”."))
    assert [each.text() for each in stack.findChildren(QLabel)] == ["Deleted “abc”."]


def test_files(qtbot: QtBot, tmp_path: Path) -> None:
    name = f"<i>photo{RLO}gpj.exe"
    chip = AttachmentChip(tmp_path / name, QSize(96, 96))
    question = QuestionView(Message("user", "see", attachments=(Attachment(name, "x", "<b>cut</b>"),)), Look(LIGHT))
    for widget in (chip, question):
        qtbot.addWidget(widget)
    assert RLO not in chip.words.text() + chip.toolTip() + question.files.text
    assert "<i>photogpj.exe" in chip.words.text()
    (sent,) = question.files.chips
    assert tip("<b>cut</b>") in sent.toolTip()


def test_a_tip_of_nothing_is_none() -> None:
    assert tip("") == ""
    assert tip("a\nb") == "a\nb"


def test_a_text_runs_as_its_first_letter_does() -> None:
    assert runs_leftwards("123 עברית abc")
    assert not runs_leftwards("“Latin” עברית")
    assert not runs_leftwards("… 12")
