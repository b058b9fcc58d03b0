"""Whole chats: their rounds, deleted and back, out to files and in."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from app.chat.history.message import AnswerEnding
from tests.app.session.person import Session
from tests.app.test_rounds_in_window import marked, place_of, shown_round
from tests.app.test_window import notice_button
from tests.campaigns.extent import choose


def test_a_token_leads_to_its_round(session: Session) -> None:
    session.begin()
    session.ask("What is the capital of France?")
    text = session.window.chat_panel.view.answers[-1].text
    session.wait(lambda: "Paris" in text.toPlainText())
    last = len(session.window.tree_panel.player.history)
    session.wait(lambda: shown_round(session.window) == last)
    text.hovered.emit(text.document().find("The").selectionStart())
    session.wait(lambda: marked(session.window) != "" and shown_round(session.window) == 1)
    text.hovered.emit(-1)

    def chosen() -> bool:
        QTest.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=place_of(text, "Paris"))
        return "Paris" in marked(session.window)

    session.wait(chosen)
    assert not session.window.tree_panel.player.is_live


def test_a_deleted_chat_comes_back_whole(session: Session) -> None:
    session.begin()
    text = session.ask("List five fruits.").text
    session.window.actions_.delete_chat.trigger()
    assert "List five fruits." not in session.titles
    assert session.window.chat.conversation.is_empty
    notice_button(session.window, "Undo").click()
    session.wait(lambda: not session.window.chat.conversation.is_empty)
    assert session.answer.text == text
    assert "List five fruits." in session.titles


@pytest.mark.parametrize("ending", choose(["json"], ["md", "json"]))
def test_a_chat_goes_out_and_comes_in(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    file = tmp_path / f"story.{ending}"
    session.begin()
    session.ask()
    said = [(each.role, each.text.strip()) for each in session.window.chat.conversation.messages]
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(file), ""))
    session.window.actions_.export_chat.trigger()
    session.wait(file.exists)
    session.window.actions_.new_chat.trigger()
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(file)], ""))
    session.window.actions_.import_chats.trigger()
    session.wait(lambda: not session.window.chat.conversation.is_empty)
    assert [(each.role, each.text.strip()) for each in session.window.chat.conversation.messages] == said
    assert session.ask("Go on.").ending in (AnswerEnding.COMPLETE, AnswerEnding.LENGTH)
