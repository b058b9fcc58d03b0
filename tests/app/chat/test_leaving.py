"""Nothing goes on beside a window that has been closed."""

import threading
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.chat.typesetting.formulas import Formulas, Latex
from app.shell.window import MainWindow
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink


def working() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith(("formulas", "attachments"))}


def test_formulas_and_files_end_with_the_window(open_window: OpenWindow, qtbot: QtBot, tmp_path: Path) -> None:
    window: MainWindow = open_window(FakeLink())
    before = working()
    file = tmp_path / "notes.txt"
    file.write_text("notes")
    window.chat_panel.composer.attach([file])
    window.chat_panel.view.formulas.is_known(Latex("x^2", "$", False))
    started = working() - before
    assert len(started) == 2
    qtbot.waitUntil(lambda: not window.chat_panel.composer.tray.is_reading)
    window.close()
    qtbot.waitUntil(lambda: not started & working())


def test_nothing_is_drawn_after_the_end() -> None:
    formulas = Formulas()
    formulas.close()
    before = working()
    assert not formulas.is_known(Latex("x^2", "$", False))
    assert working() <= before
