"""Nothing goes on beside a window that has been closed."""

import threading
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.chat.formulas import Formulas, Latex
from app.window import MainWindow
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink


def names() -> list[str]:
    return [each.name for each in threading.enumerate()]


def test_formulas_and_files_end_with_the_window(open_window: OpenWindow, qtbot: QtBot, tmp_path: Path) -> None:
    window: MainWindow = open_window(FakeLink())
    before = names()
    file = tmp_path / "notes.txt"
    file.write_text("notes")
    window.chat_panel.composer.attach([file])
    window.chat_panel.view.formulas.is_known(Latex("x^2", "$", False))
    started = [each for each in names() if each not in before]
    assert len(started) == 2
    qtbot.waitUntil(lambda: not window.chat_panel.composer.tray.is_reading)
    window.close()
    qtbot.waitUntil(lambda: not set(started) & set(names()))


def test_nothing_is_drawn_after_the_end() -> None:
    formulas = Formulas()
    formulas.close()
    before = names()
    assert not formulas.is_known(Latex("x^2", "$", False))
    assert names() == before
