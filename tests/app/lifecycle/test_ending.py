"""The system wants the program to end, or hands it a file: the program hears of both."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.shell.application import Ending
from app.system.paths import ROOT, folders_below
from tests.campaigns.extent import choose

if os.name != "posix":
    pytest.skip("signals are a matter of POSIX", allow_module_level=True)

PATIENCE_MS = 60_000
BETWEEN_MS = 20  # two signals: the first one is not awaited

OPENED = """
import sys
from PySide6.QtCore import QTimer, QUrl
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QWidget
from app.shell.application import Application

application = Application(["coppice"])
asked = []
application.file_asked.connect(asked.append)
application.sendEvent(application, QFileOpenEvent(QUrl.fromLocalFile(sys.argv[1])))
assert asked == [sys.argv[1]], asked
window = QWidget()
window.show()
seen = []
application.quit_asked.connect(lambda: seen.append(window.isVisible()))
QTimer.singleShot(0, application.quit)
application.exec()
assert seen[0], "before the window is closed"
assert not window.isVisible()
"""


@pytest.fixture
def ending(qtbot: QtBot) -> Iterator[Ending]:
    """Signals come here, as long as the test runs."""
    made = Ending()
    yield made
    made.release()


@pytest.mark.parametrize(
    ("number", "ends_it_now"), [(signal.SIGTERM, True), (signal.SIGINT, True), (signal.SIGHUP, False)]
)
def test_a_signal_is_told_until_somebody_ends_the_program_and_the_same_again_does(
    qtbot: QtBot, ending: Ending, number: signal.Signals, ends_it_now: bool
) -> None:
    with qtbot.waitSignals([ending.asked] * 3):
        os.kill(os.getpid(), number)
    assert (signal.getsignal(number) is signal.SIG_DFL) == ends_it_now
    others = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} - {number}
    assert all(signal.getsignal(each) is not signal.SIG_DFL for each in others)


def test_signals_belong_to_their_former_owner_afterwards(qtbot: QtBot) -> None:
    former = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    Ending().release()
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == former


def test_a_signal_that_is_ignored_stays_ignored(qtbot: QtBot) -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ending = Ending()
    try:
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        ending.release()
        signal.signal(signal.SIGHUP, former)


@pytest.mark.parametrize(
    "numbers",
    [
        [signal.SIGHUP] * 2,  # SIGTERM: test_private_files.py
        *choose([], [[signal.SIGTERM], [signal.SIGINT], [signal.SIGHUP], [signal.SIGTERM, signal.SIGHUP]]),
    ],
)
def test_a_window_that_is_ended_by_signals_is_closed_in_order(
    engine_python: Path, qtbot: QtBot, tmp_path: Path, numbers: list[signal.Signals]
) -> None:
    folders = folders_below(tmp_path / "data")
    environment = os.environ | {"COPPICE_ENGINE_PYTHON": str(engine_python)}
    command = [sys.executable, "-m", "app", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        qtbot.waitUntil(folders.engine_log.exists, timeout=PATIENCE_MS)  # its window is on its way
        for number in numbers:
            process.send_signal(number)
            qtbot.wait(BETWEEN_MS)
        qtbot.waitUntil(lambda: process.poll() is not None, timeout=PATIENCE_MS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert json.loads(folders.settings_file.read_text(encoding="utf-8"))["geometry"]
    assert not (folders.logs / "fault.txt").exists(), "the next start would tell of a crash"


def test_a_file_that_the_desktop_hands_over_is_told(tmp_path: Path) -> None:
    file = tmp_path / "Bäume und Räume.coppice"
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(file)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
