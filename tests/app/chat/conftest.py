"""What is shown of conversations, empty, on the screen."""

import pytest
from pytestqt.qtbot import QtBot

from app.chat.text.document_style import Look
from app.chat.text.markdown_view import MarkdownView
from app.chat.view.conversation_view import ConversationView
from app.ui.theme import LIGHT


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
