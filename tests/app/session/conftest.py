"""One engine for all tests of this folder; it is started once, and ends with its window."""

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.engine.link import EngineLink
from app.engine.program import engine_program
from app.system.paths import folders_below
from app.ui.theme import Theme
from tests.app.session.person import Session, opened


@pytest.fixture(scope="package")
def started(qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The window and its engine, for all tests of this folder."""
    palette, theme = qapp.palette(), Theme(qapp)
    folders = folders_below(tmp_path_factory.mktemp("session"))
    folders.create()
    link = EngineLink(engine_program(folders.engine_log))
    window = opened(folders, link, theme)
    made = Session(window, link, folders, theme, [])
    window.chat.asked.connect(lambda _id, prompt, _options: made.prompts.append(prompt))
    yield made
    window.close()
    link.close()
    link.wait_closed()
    window.deleteLater()
    qapp.styleHints().colorSchemeChanged.disconnect(theme._on_scheme_changed)
    theme.deleteLater()
    qapp.setStyleSheet("")
    qapp.setPalette(palette)


@pytest.fixture
def session(started: Session, qtbot: QtBot) -> Session:
    """The session, with a model that is ready."""
    started.wait(lambda: started.window.library.state.ready)
    return started
