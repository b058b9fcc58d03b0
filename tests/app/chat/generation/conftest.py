"""What tests of the generation settings share."""

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.chat.generation.controller import ChatController
from app.chat.generation.popover import GenerationPopover
from app.chat.generation.presets import Presets
from app.settings.store import SettingsFile
from tests.app.fake_link import FakeLink


@pytest.fixture
def chat(link: FakeLink, settings: SettingsFile) -> ChatController:
    """The conversation whose settings these are."""
    return ChatController(link, settings)


@pytest.fixture
def presets(settings: SettingsFile) -> Presets:
    """Those of the settings' file."""
    return Presets(settings)


@pytest.fixture
def popover(qtbot: QtBot, chat: ChatController, presets: Presets) -> GenerationPopover:
    """The settings, open below a button."""
    button = QPushButton("Settings")
    qtbot.addWidget(button)
    button.show()
    made = GenerationPopover(chat, presets)
    qtbot.addWidget(made)
    made.open_below(button)
    return made
