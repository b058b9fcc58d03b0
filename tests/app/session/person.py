"""A person's session: a window in front of the real engine and the embedded pair, and what is done with it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.chat.history.message import Message
from app.chat.view.message_tools import VersionSwitch
from app.engine.link import EngineLink
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from app.shell.wiring import connected_window
from app.system.paths import Folders
from app.ui.theme import Theme
from engine.protocol.messages import ChatMessage
from engine.protocol.options import LoadOptions

PATIENCE_SECONDS = 240  # torch is imported by a process of low priority, perhaps on a busy machine
_BETWEEN_MS = 25
STORY = "Tell me a story about a dragon."
SHORT = GenerationSettings(temperature=0.0, seed=1, max_new_tokens=16)
# Every token equally likely, so that the one that ends an answer hardly ever comes; with this seed it does not.
ENDLESS = GenerationSettings(method="none", temperature=100.0, top_p=1.0, seed=1, max_new_tokens=1500)


@dataclass
class Session:
    """The window, its link to the engine, and the conversations that went to it."""

    window: MainWindow
    link: EngineLink
    folders: Folders
    theme: Theme
    prompts: list[tuple[ChatMessage, ...]]

    def wait(self, condition: Callable[[], bool]) -> None:
        """Let the window work until something is so.

        An engine takes seconds, and to look every hundredth of one, as the bot does, costs more than what is awaited.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "it never was"
            QTest.qWait(_BETWEEN_MS)

    def begin(self, generation: GenerationSettings = SHORT) -> None:
        """A chat of its own."""
        self.window.actions_.new_chat.trigger()
        self.window.chat.change_settings(generation)

    def ask(self, question: str = STORY) -> Message:
        """Write, send, and wait for the answer."""
        composer = self.window.chat_panel.composer
        QTest.keyClicks(composer.field, question)
        QTest.keyClick(composer.field, Qt.Key.Key_Return)
        return self.answered()

    def answered(self) -> Message:
        """The answer, once it is over."""
        self.wait(lambda: not self.window.chat.is_answering)
        return self.answer

    @property
    def answer(self) -> Message:
        last = self.window.chat.conversation.last_answer
        assert last is not None
        return last

    @property
    def shown(self) -> str:
        return self.window.chat_panel.view.answers[-1].text.toPlainText().strip()

    @property
    def versions(self) -> VersionSwitch:
        return self.window.chat_panel.view.answers[-1].versions

    @property
    def titles(self) -> list[str]:
        return [each.shown_title for each in self.window.conversations.autosave.records]


def opened(folders: Folders, link: EngineLink, theme: Theme) -> MainWindow:
    """A window on the session's data folder."""
    window = connected_window(link, SettingsFile(folders.settings_file), folders, theme, LoadOptions())
    window.show()
    return window
