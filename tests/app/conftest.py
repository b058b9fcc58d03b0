"""What the application's tests share: folders, settings, a theme, and windows in front of a fake link."""

import gc
import os
import shlex
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QLocale
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from pytestqt.wait_signal import SignalBlocker

from app.engine.link import EngineLink
from app.engine.program import EngineProgram
from app.i18n.translation import install
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from app.shell.wiring import connected_window
from app.system.files import _Umask
from app.system.paths import Folders, folders_below
from app.ui.theme import Theme
from engine.protocol.options import LoadOptions
from tests.app.fake_link import FakeLink
from tests.app.plainness import rich_widgets

HERE = Path(__file__).parent
FAKE_ENGINE = HERE / "fake_engine.py"

OpenWindow = Callable[..., MainWindow]

PATIENCE_MS = 30_000  # what has not happened by then never will, on however busy a machine


# A thread may emit a signal once more than is waited for; its call is queued, and must still find who waited for it.
_BLOCKERS: deque[SignalBlocker] = deque(maxlen=100)


class PatientBot(QtBot):
    """Waits longer than five seconds where a test does not say how long."""

    def waitUntil(self, callback: Callable[[], bool | None], *, timeout: int = PATIENCE_MS) -> None:
        super().waitUntil(callback, timeout=timeout)

    def waitExposed(self, widget: QWidget, *, timeout: int = PATIENCE_MS) -> Any:
        return super().waitExposed(widget, timeout=timeout)

    def waitSignal(
        self,
        signal: Any,
        *,
        timeout: int = PATIENCE_MS,
        raising: bool | None = None,
        check_params_cb: Callable[..., bool] | None = None,
    ) -> SignalBlocker:
        blocker = super().waitSignal(signal, timeout=timeout, raising=raising, check_params_cb=check_params_cb)
        _BLOCKERS.append(blocker)
        return blocker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every window without a screen makes Qt say that it has no window manager."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(
                pytest.mark.qt_log_ignore(r"This plugin does not support (propagateSizeHints|raise|grabbing)")
            )


@pytest.fixture(autouse=True)
def english_numbers(qapp: QApplication) -> None:
    """As English writes them, whatever this system and the test before have as their language.

    There is an application for every test: without one Qt ends the process where a font is asked for, and whether an
    earlier test has made one depends on how the files are shared out.
    """
    QLocale.setDefault(QLocale("en"))


@pytest.fixture(autouse=True)
def usual_text(qapp: QApplication) -> Iterator[None]:
    """The next text is no larger for this one: themes take the font that the application has for the usual one."""
    before = QFont(qapp.font())
    yield
    if qapp.font() != before:
        qapp.setFont(before)


_MANY = 20  # modules


def delete_what_was_closed() -> None:
    """Widgets that wait for their deletion wait for an event loop, which a test that only calls slots never starts.

    Without this, windows would pile up, and each new one would style all of them again: 0.3 s after ten tests.
    """
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture(autouse=True)
def garbage_in_this_thread() -> Iterator[None]:
    """As in the application: what belongs to Qt ends in the thread where it lives, not in one that just allocated.

    A test that is the first to import torch or the charts would make every later collection of its file look at them,
    up to 0.3 s each: they are left out from then on.
    """
    modules = len(sys.modules)
    gc.disable()
    yield
    delete_what_was_closed()
    gc.collect()
    if len(sys.modules) > modules + _MANY:
        gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def secrets_stay_here() -> Iterator[None]:
    """What a test gives a keyring is there when it ends, and comes into none of the next test."""
    yield
    for thread in threading.enumerate():
        if thread.name == "passwords":
            thread.join(PATIENCE_MS / 1000)


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """What the application does to the umask of this process ends with the test."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)
    _Umask.own = None


@pytest.fixture
def thread_errors(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """What threads report in this test, which is about such errors; in all others, one fails the test."""
    met: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: met.append(arguments.exc_value))
    return met


@pytest.fixture
def german(qapp: QApplication) -> Iterator[None]:
    """The window in German, until the test is over."""
    installed = install(qapp, "de")
    yield
    for each in installed:
        qapp.removeTranslator(each)


@pytest.fixture
def qtbot(qapp: QApplication, request: pytest.FixtureRequest) -> QtBot:
    """Drives widgets, and waits for them with patience."""
    return PatientBot(request)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Folders of this test alone."""
    made = folders_below(tmp_path / "data")
    made.create()
    return made


@pytest.fixture
def settings(folders: Folders) -> SettingsFile:
    """Settings that nobody has touched."""
    return SettingsFile(folders.settings_file)


@pytest.fixture
def theme(qapp: QApplication) -> Iterator[Theme]:
    """The theme, taken off again at the end."""
    palette = qapp.palette()
    made = Theme(qapp)
    yield made
    delete_what_was_closed()
    qapp.styleHints().colorSchemeChanged.disconnect(made._on_scheme_changed)
    qapp.setStyleSheet("")
    qapp.setPalette(palette)
    made.deleteLater()


@pytest.fixture
def link() -> FakeLink:
    """A link that only keeps what it is told."""
    return FakeLink()


@pytest.fixture
def fake_program(folders: Folders) -> EngineProgram:
    """The fake engine as a process."""
    return EngineProgram((sys.executable, str(FAKE_ENGINE)), folders.engine_log)


@pytest.fixture
def engine_python(tmp_path: Path) -> Path:
    """Something to start as the engine's Python that is a fake engine: `COPPICE_ENGINE_PYTHON` names it."""
    if os.name == "nt":
        script = tmp_path / "engine-python.cmd"
        script.write_text(f'@"{sys.executable}" "{FAKE_ENGINE}"\n', "mbcs")
        return script
    script = tmp_path / "engine-python"
    script.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(FAKE_ENGINE))}\n")
    script.chmod(0o755)
    return script


def close_all(window: MainWindow) -> None:
    """End its program as a person would, with every window that is still open."""
    open_ones = [window, *window.program.windows]
    window.program.close_all()
    for each in open_ones:
        if shiboken6.isValid(each):
            each.deleteLater()


@pytest.fixture
def open_window(qtbot: QtBot, settings: SettingsFile, folders: Folders, theme: Theme) -> Iterator[OpenWindow]:
    """Opens windows, and ends their engines when the test is over."""
    links: list[EngineLink] = []
    windows: list[MainWindow] = []
    stands_for: list[QWidget] = []

    def open_(link: EngineLink, wanted: LoadOptions | None = None) -> MainWindow:
        window = connected_window(link, settings, folders, theme, wanted or LoadOptions())
        stands_for.append(QWidget())  # the window itself may be gone by then
        qtbot.addWidget(stands_for[-1], before_close_func=lambda _: close_all(window))
        links.append(link)
        windows.append(window)
        window.show()
        window.tree.make_panel()  # as it is a moment later
        return window

    yield open_
    for window in windows:
        assert not shiboken6.isValid(window) or rich_widgets(window) == [], (
            "a text from elsewhere would be read as HTML"
        )
        window.models.close()
    for link in links:
        link.close()
        link.wait_closed()


@pytest.fixture
def window(open_window: OpenWindow, link: FakeLink) -> MainWindow:
    """A window in front of a fake link whose engine is ready."""
    opened = open_window(link)
    link.become_ready()
    return opened
