"""Conversations with their list and archive, and what a person chooses for them."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from app.chat.archive.chat_list import ChatList
from app.chat.archive.worker import Archive
from app.chat.conversations import Conversations
from app.chat.generation.controller import ChatController
from app.chat.history.conversation import Conversation
from app.engine.state import EngineState, Phase
from app.settings.store import SettingsFile
from app.ui.notices import Notice
from app.ui.theme import Theme
from tests.app.fake_engine import loaded
from tests.app.fake_link import FakeLink


class Desk:
    """Conversations without a window around them."""

    def __init__(self, link: FakeLink, settings: SettingsFile, path: Path, theme: Theme, parent: QWidget) -> None:
        self.link, self.path = link, path
        self.chat = ChatController(link, settings)
        self.chats = ChatList(Archive(path / "chats.sqlite3"))
        self.conversations = Conversations(self.chat, self.chats, theme.colors, parent)
        self.notices: list[Notice] = []
        self.conversations.notice_raised.connect(self.notices.append)
        link.events_arrived.connect(self.chat.on_events)
        self.chat.on_engine_state(EngineState(Phase.READY, pair=loaded(1)))
        self.chats.start()

    def close(self) -> None:
        """As a window that closes, and the program with it."""
        self.conversations.leave()
        self.chats.close()

    def converse(self, question: str) -> int:
        """A whole turn of a new chat; returns its id."""
        self.chat.show_conversation(Conversation())
        self.chat.ask(question)
        self.link.say(f"Answer to {question}")
        self.link.finish()
        return self.conversations.autosave.current

    def told(self, key: str) -> list[Notice]:
        return [each for each in self.notices if each.key == key]


def choose(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """The paths that a person will choose for saving, one after the other."""
    chosen = iter(paths)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(next(chosen)), ""))


def bring_in(desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, *files: Path) -> None:
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(each) for each in files], ""))
    with qtbot.waitSignal(desk.conversations.archive.imported):
        desk.conversations.import_files()
