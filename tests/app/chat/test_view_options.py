"""Reading a conversation: views near the reader only, zoom, selections across messages, thinking, copies."""

import math

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QCursor, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Message
from app.chat.panel import ChatPanel
from app.chat.typesetting.layout_cost import Budget
from app.chat.view.conversation_view import ConversationView
from app.chat.view_options import ViewOptions
from app.settings.store import SettingsFile
from app.ui.notices import NoticeStack
from app.ui.theme import LIGHT
from engine.protocol.messages import Seconds, Statistics
from tests.app.chat.mouse import drag, hold, release
from tests.campaigns.extent import choose


@pytest.fixture
def view(qtbot: QtBot) -> ConversationView:
    """An empty list of messages on the screen; the mouse, which other tests have left somewhere, is not over it."""
    QCursor.setPos(QGuiApplication.primaryScreen().geometry().bottomRight())
    made = ConversationView(LIGHT)
    qtbot.addWidget(made)
    made.resize(900, 500)
    with qtbot.waitExposed(made):
        made.show()
    return made


def add_turn(view: ConversationView, question: str, answer: str, statistics: Statistics | None = None) -> None:
    view.add_turn(Message("user", question), Message("assistant", answer, AnswerEnding.COMPLETE, statistics))
    for _ in range(5):
        QApplication.processEvents()


def test_only_what_is_near_is_built_and_scrolling_builds_the_rest(view: ConversationView, qtbot: QtBot) -> None:
    conversation = Conversation()
    for number in range(choose(150, 500)):
        _, answer = conversation.ask(f"Question {number}")
        conversation.change(Message("assistant", "Words. " * 40, parent=answer.parent, id=answer.id))
    view.show_conversation(conversation)
    assert len(view.column.views) < 60
    assert view.verticalScrollBar().value() == view.verticalScrollBar().maximum()
    view.verticalScrollBar().setValue(0)
    qtbot.waitUntil(lambda: view.questions[0].text.toPlainText() == "Question 0")
    assert len(view.column.views) < 120


def test_views_are_built_as_long_as_there_is_time_and_at_least_one(view: ConversationView) -> None:
    conversation = Conversation()
    for number in range(20):
        conversation.ask(f"Question {number}")
    view.show_conversation(conversation)
    before = len(view.column.views)
    assert view.column.show_part(0, 4000, Budget(0.0))
    assert len(view.column.views) == before + 1
    assert view.column.show_part(0, 4000, Budget(math.inf))
    assert len(view.column.views) > before + 2


def test_the_size_of_the_text_is_remembered(settings: SettingsFile, qtbot: QtBot) -> None:
    panel = ChatPanel(LIGHT, NoticeStack())
    qtbot.addWidget(panel)
    view = panel.view
    add_turn(view, "q", "a")
    view_options = ViewOptions(panel, settings, panel)
    size = view.answers[0].text.font().pointSizeF()
    view_options.zoom(1)
    assert view.answers[0].text.font().pointSizeF() > size
    assert settings.current.chat_zoom == 110
    view_options.zoom(0)
    assert view.answers[0].text.font().pointSizeF() == size


def test_a_selection_spans_messages_and_is_copied_in_order(view: ConversationView) -> None:
    add_turn(view, "the question", "the answer")
    first, last = view.questions[0].text, view.answers[0].text.viewport()
    end = last.mapToGlobal(QPoint(last.width() - 1, last.height() - 1))
    hold(first, QPoint(0, first.viewport().height() // 2))
    drag(first, first.viewport().mapFromGlobal(end))
    release(first)
    view.questions[0].text.copy_requested.emit()
    assert QGuiApplication.clipboard().text() == "the question\n\nthe answer"


def test_thinking_is_folded_away_and_never_copied(view: ConversationView) -> None:
    add_turn(view, "q", "<think>a *secret*</think>\n\nThe answer.")
    answer = view.answers[0]
    assert answer.thought is not None
    assert answer.thought.text is None, "it is not even written"
    assert answer.text.toPlainText().strip() == "The answer."
    QTest.keyClick(answer.thought.header, Qt.Key.Key_Space)
    assert answer.thought.text is not None
    assert "a secret" in answer.thought.text.toPlainText()  # type: ignore[unreachable]
    answer.copy()
    assert QGuiApplication.clipboard().text() == "The answer."
    view.copy_conversation()
    assert QGuiApplication.clipboard().text() == "**You**\n\nq\n\n**Answer**\n\nThe answer.\n"


def test_a_code_block_is_copied_by_key(view: ConversationView, qtbot: QtBot) -> None:
    add_turn(view, "q", "```python\nx = 1\n```")
    text = view.answers[0].text
    view.activateWindow()
    text.setFocus()
    qtbot.waitUntil(text.hasFocus)
    QTest.keyClick(text, Qt.Key.Key_Tab)
    QTest.keyClick(text, Qt.Key.Key_Return)
    assert QGuiApplication.clipboard().text() == "x = 1"


def test_tab_goes_through_the_tools_as_they_stand(view: ConversationView) -> None:
    add_turn(view, "q", "a")
    names, tool = [], view.answers[0].edit_tool
    for _ in range(3):
        names.append(tool.accessibleName())
        tool = tool.nextInFocusChain()  # type: ignore[assignment]
    assert names == ["Edit answer", "Regenerate answer", "Compare answers"]


def test_the_figures_say_where_the_time_went(view: ConversationView) -> None:
    seconds = Seconds(prefill=1.0, draft=0.5, target=2.0, other=0.5, decode=3.0, hidden_draft=0.5)
    add_turn(
        view, "q", "a", Statistics(method="specexec", budget=64, new_tokens=9, passes=3, seconds=seconds, note="N.")
    )
    figures = view.answers[0].figures
    QTest.keyClick(figures, Qt.Key.Key_Space)
    assert figures.popup is not None
    assert sum(part.seconds for part in figures.popup.parts) == pytest.approx(4.0)
    assert "64 nodes" in figures.popup.text
    assert figures.popup.text.endswith("N.")
    QTest.keyClick(figures, Qt.Key.Key_Escape)
    assert figures.popup is None


@pytest.mark.parametrize("place", [QPoint(-50, 20), QPoint(100, 400), QPoint(760, 700)])
def test_the_popup_of_the_figures_is_never_over_them(view: ConversationView, place: QPoint) -> None:
    """The mouse would leave them for it, whereupon it closes, and come back, whereupon it opens, without an end."""
    add_turn(view, "q", "a", Statistics(new_tokens=9, passes=3, seconds=Seconds(decode=3.0, target=2.0, draft=1.0)))
    figures = view.answers[0].figures
    view.window().move(view.window().pos() + place - figures.mapToGlobal(QPoint(0, 0)))
    QTest.keyClick(figures, Qt.Key.Key_Space)
    assert figures.popup is not None
    row = QRect(figures.mapToGlobal(QPoint(0, 0)), figures.size())
    assert not figures.popup.geometry().intersects(row)
    assert figures.popup.x() >= 0
