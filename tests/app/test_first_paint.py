"""What a start of the window waits for: nothing but what is seen first; and what comes a moment later."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QPaintEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.settings.store import SettingsFile
from app.shell import deferred
from app.shell.deferred import BESIDE, LATER, DeferredWork
from app.shell.window import MainWindow
from app.shell.wiring import connected_window
from app.system import imports
from app.system.paths import Folders
from app.tree.picture.moving.layer_strip import LayerStrip
from app.tree.widgets import EMPTY
from app.ui.theme import Theme
from engine.protocol.options import LoadOptions
from engine.protocol.watching import Passing
from tests.app.fake_engine import loaded
from tests.app.fake_link import FakeLink

ROOT = Path(__file__).parents[2]

HEAVY = {
    *("numpy", "pyqtgraph", "markdown_it", "pygments", "ziamath", "latex2mathml", "pypdf", "psutil", "filelock"),
    *("httpx2", "ssl", "huggingface_hub", "keyring", "email.utils", "html.parser", "importlib.metadata"),
    *(
        "app.installation.assistant.dialog",
        "app.installation.runtime.installation",
        "app.shell.diagnostics",
        "app.shell.dialogs",
        "app.shell.updates",
        "app.shell.tour.tour",
        "app.comparison.dialog",
        "app.downloads.download",
        "app.engine.remote.link",
        "app.hub.client",
        "app.chat.archive.exchange.formats",
        "app.chat.archive.exchange.importing",
        "app.chat.finding.bar",
        "app.chat.finding.search",
        "app.installation.runtime.tools",
        "app.shell.command_palette",
        "PIL",
    ),
    *(("ctypes",) if sys.platform == "linux" else ()),
    *BESIDE,
    *LATER,
}

SCRIPT = """
import builtins, gc, json, sys, threading
from pathlib import Path
from PySide6.QtCore import QEvent, QEventLoop, QObject
beside, in_turns = [], []
build = builtins.__build_class__
def watched(*arguments, **named):
    made = build(*arguments, **named)
    if isinstance(made, type(QObject)) and threading.current_thread() is not threading.main_thread():
        frame, calls = sys._current_frames()[threading.main_thread().ident], []
        while frame is not None:
            calls.append(frame.f_code.co_name)
            frame = frame.f_back
        (in_turns if "let_go_on" in calls else beside).append(made.__name__)
    return made
builtins.__build_class__ = watched
from app.main import begin_engine, build_application, build_parser
from app.system.paths import folders_below
import app.main
had_window = "app.shell.window" in sys.modules
folders = folders_below(Path(sys.argv[1]))
folders.create()
application = build_application()
link = begin_engine(folders)
engine = link.engine_pid
from app.shell.wiring import build_window
window = build_window(application, folders, build_parser().parse_args([]), link)
class Watch(QObject):
    seen = None
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint and self.seen is None:
            self.seen = [*sys.modules]
        return False
watch = Watch()
window.chat_panel.welcome.installEventFilter(watch)
window.show()
searched = []
window.deferred.do(lambda: searched.append(any(each is window.tree._panel for each in gc.get_objects())))
while watch.seen is None or window.tree._panel is None or not searched:
    application.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
print(json.dumps([had_window, engine, watch.seen, [*sys.modules], *searched, in_turns, beside]))
window.close()
link.wait_closed()
"""


def test_the_first_paint_waits_for_nothing_heavy_and_the_rest_comes_by_itself(
    engine_python: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "data")]
    environment = os.environ | {"COPPICE_ENGINE_PYTHON": str(engine_python)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    had_window, engine, painted, settled, searched, in_turns, beside = json.loads(done.stdout.splitlines()[-1])
    assert not had_window, "the engine is started before the window is imported"
    assert engine, "and so it was"
    assert set(painted) & HEAVY == set()
    assert {*BESIDE, *LATER} <= set(settled)
    assert in_turns
    assert not beside, "Qt's types are made only while no other thread asks for one: that crashed now and then"
    assert not searched, "the panel lives as long as the window: the search for garbage leaves it out"


@pytest.fixture
def late(qtbot: QtBot, settings: SettingsFile, folders: Folders, theme: Theme, link: FakeLink) -> Iterator[MainWindow]:
    """A window that was not painted yet: the panel of its tree is still to be made."""
    made = connected_window(link, settings, folders, theme, LoadOptions())
    qtbot.addWidget(made)
    assert made.tree._panel is None
    yield made
    made.models.close()


def test_where_the_tree_will_be_is_said_until_it_is_there(late: MainWindow) -> None:
    late.resize(1400, 860)
    late.show()
    words, before = late.tree_dock.widget(), late.tree_dock.size()
    assert isinstance(words, QLabel)
    assert words.text() == EMPTY
    panel = late.tree_panel
    assert late.tree_dock.widget() is panel
    assert late.tree_panel is panel, "made once"
    QApplication.processEvents()
    assert late.tree_dock.size() == before


def test_a_pair_that_was_loaded_before_the_panel_is_made_is_known_in_it(late: MainWindow, link: FakeLink) -> None:
    link.answer(replace(loaded(1, "big"), tiers=("ram", "ssd")))
    late.tree_panel.follow(5)
    link.answer(Passing(5, 0, waits=False, arriving=()))
    (strip,) = late.tree_panel.findChildren(LayerStrip)
    assert strip.words == "Computing layer 1 of 2"


def test_a_question_before_the_panel_is_made_is_seen_in_it(late: MainWindow, link: FakeLink) -> None:
    link.become_ready()
    late.chat.ask("Hello?")
    link.say("Hi", " there")
    assert len(late.tree_panel.player.history) == 2


def test_each_work_has_a_turn_when_the_modules_are_read(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    late, done = DeferredWork(window, ["no.such.module"], ["no.such.either", "json"]), list[int]()
    late.do(lambda: done.append(1))
    late.do(lambda: done.append(2))
    QApplication.processEvents()
    assert done == [], "not before it is painted"
    window.show()
    qtbot.waitUntil(lambda: done == [1, 2])
    late.do(lambda: done.append(3))
    assert done == [1, 2]
    qtbot.waitUntil(lambda: done == [1, 2, 3])


def test_a_module_that_is_broken_holds_nothing_up(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(name: str) -> None:
        raise AttributeError(name)

    monkeypatch.setattr(imports, "import_module", read)
    window = QWidget()
    qtbot.addWidget(window)
    late, done = DeferredWork(window, ["broken"], ["broken too"]), list[int]()
    late.do(lambda: done.append(1))
    window.show()
    qtbot.waitUntil(lambda: done == [1])


def test_no_further_module_is_read_when_the_program_ends(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()
    window = QWidget()
    qtbot.addWidget(window)
    late = DeferredWork(window, ["first"], ["second", "third"])

    def read_and_end(name: str) -> None:
        read.append(name)
        if name == "second":
            late.stop()

    monkeypatch.setattr(imports, "import_module", read_and_end)
    late.do(lambda: read.append("a panel that nobody sees"))
    window.show()
    with qtbot.waitSignal(late._reading.done):
        pass
    QApplication.processEvents()
    assert read == ["first", "second"]


class Painted(QWidget):
    """Says when it is painted."""

    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self.order = order

    def paintEvent(self, event: QPaintEvent) -> None:
        self.order.append("painted")


def test_a_paint_that_is_late_comes_before_the_modules(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may be so busy that the window is painted later than one that never is would be waited for."""
    order = list[str]()
    monkeypatch.setattr(deferred, "_LONGEST_MS", 1)
    monkeypatch.setattr(imports.ImportsInTurns, "read", lambda _self: order.append("read"))
    window = Painted(order)
    qtbot.addWidget(window)
    late = DeferredWork(window, (), ())
    late.do(lambda: order.append("done"))
    window.show()
    time.sleep(0.02)
    qtbot.waitUntil(lambda: "done" in order)
    assert order == ["painted", "read", "done"]


def test_a_window_that_is_never_painted_goes_on_too(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "_LONGEST_MS", 1)
    window = QWidget()
    qtbot.addWidget(window)
    late, done = DeferredWork(window, (), ()), list[int]()
    late.do(lambda: done.append(1))
    QApplication.sendEvent(window, QShowEvent())
    assert QShowEvent().type() == QEvent.Type.Show
    qtbot.waitUntil(lambda: done == [1])
