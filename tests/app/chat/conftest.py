"""What is shown of conversations, empty, on the screen; and conversations without a window around them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.chat.text.document_style import Look
from app.chat.text.markdown_view import MarkdownView
from app.chat.view.conversation_view import ConversationView
from app.settings.store import SettingsFile
from app.ui.theme import LIGHT, Theme
from tests.app.chat.desk import Desk
from tests.app.fake_link import FakeLink


@pytest.fixture
def view(qtbot: QtBot) -> ConversationView:
    """A list of messages."""
    made = ConversationView(LIGHT)
    qtbot.addWidget(made)
    made.resize(1000, 400)
    with qtbot.waitExposed(made):
        made.show()
    return made


@pytest.fixture
def body(qtbot: QtBot) -> MarkdownView:
    """An answer's text alone."""
    made = MarkdownView(Look(LIGHT))
    qtbot.addWidget(made)
    made.resize(700, 10)
    made.show()
    return made


@pytest.fixture
def desk(
    qtbot: QtBot, qapp: QApplication, link: FakeLink, settings: SettingsFile, tmp_path: Path, theme: Theme
) -> Iterator[Desk]:
    """Conversations of a window."""
    parent = QWidget()
    qtbot.addWidget(parent)
    made = Desk(link, settings, tmp_path, theme, parent)
    yield made
    made.close()
