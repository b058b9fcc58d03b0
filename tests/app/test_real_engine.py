"""Beginnings and ends with the real engine: closed, killed, and wrong targets; the rest is in tests/app/session."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.chat.history.message import Message
from app.engine.link import EngineLink
from app.engine.process import engine_program
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from app.system.paths import ROOT, Folders
from tests.app.conftest import OpenWindow
from tests.campaigns.extent import choose

PATIENCE_MS = 120_000  # torch is imported by a process of low priority, perhaps on a busy machine

GREEDY = GenerationSettings(temperature=0.0, seed=1)
# Every token equally likely, so that the one that ends an answer hardly ever comes; with this seed it does not.
ENDLESS = GenerationSettings(method="none", temperature=100.0, top_p=1.0, seed=1, max_new_tokens=1500)
STORY = "Tell me a story about a dragon."


@pytest.fixture
def link(folders: Folders) -> EngineLink:
    """A link to the real engine."""
    return EngineLink(engine_program(folders.engine_log))


@pytest.fixture
def window(open_window: OpenWindow, link: EngineLink, qtbot: QtBot) -> MainWindow:
    """A window whose embedded pair is loaded."""
    opened: MainWindow = open_window(link)
    qtbot.waitUntil(lambda: opened.library.state.ready, timeout=PATIENCE_MS)
    return opened


def ask(window: MainWindow, question: str) -> None:
    """Write a question and send it."""
    QTest.keyClicks(window.chat_panel.composer.field, question)
    QTest.keyClick(window.chat_panel.composer.field, Qt.Key.Key_Return)


def answer(window: MainWindow) -> Message:
    """The last answer."""
    last = window.chat.conversation.last_answer
    assert last is not None
    return last


def shown_answer(window: MainWindow) -> str:
    """The text of the last answer on the screen."""
    return window.chat_panel.view.answers[-1].text.toPlainText().strip()


def begin_endless_answer(window: MainWindow, settings: SettingsFile, qtbot: QtBot) -> None:
    """Ask for an answer that will not be finished soon, and wait until it has begun."""
    settings.change(generation=ENDLESS)
    ask(window, STORY)
    qtbot.waitUntil(lambda: shown_answer(window) != "", timeout=PATIENCE_MS)
    assert window.chat.is_answering


def test_closing_in_mid_answer_ends_the_engine(
    window: MainWindow, settings: SettingsFile, link: EngineLink, qtbot: QtBot
) -> None:
    begin_endless_answer(window, settings, qtbot)
    pid = link.engine_pid
    assert pid is not None
    window.close()
    qtbot.waitUntil(link.isFinished, timeout=PATIENCE_MS)
    assert not psutil.pid_exists(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="the engine watches its parent by other means there")
@pytest.mark.parametrize("busy", choose([True], [False, True]))
def test_a_window_that_is_killed_leaves_no_engine(tmp_path: Path, qtbot: QtBot, busy: bool) -> None:
    script = f"""
import sys
from PySide6.QtCore import QTimer
from app.shell.wiring import build_window
from app.main import begin_engine, build_application, build_parser
from app.system.paths import folders_below
from app.settings.store import GenerationSettings
from pathlib import Path
folders = folders_below(Path({str(tmp_path)!r}))
folders.create()
application = build_application()
window = build_window(application, folders, build_parser().parse_args([]), begin_engine(folders))
window.chat._settings.change(generation={ENDLESS!r})
def tell(*_):
    print("there", flush=True)
if {busy}:
    window.chat.ask({STORY!r})
    window.chat.round_arrived.connect(tell)
else:
    window.library.pair_loaded.connect(tell)
window.show()
application.exec()
"""
    application = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE)
    assert application.stdout is not None
    assert application.stdout.readline() == b"there\n"
    engines = psutil.Process(application.pid).children()
    assert len(engines) == 1
    application.kill()
    application.wait()
    application.stdout.close()
    _, alive = psutil.wait_procs(engines, timeout=30)
    assert alive == []
