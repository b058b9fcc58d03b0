"""What a fault leaves, and what the next start makes of it."""

import faulthandler
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.shell.dialogs import ReportDialog
from app.shell.faults.crash import CrashWatch, reports
from app.system.paths import ROOT, Folders

TOKEN = "hf_" + "a" * 30
CRASH = """
import ctypes, sys
from pathlib import Path
from app.shell.faults.crash import CrashWatch
from app.system.paths import folders_below

def fall() -> None:
    ctypes.string_at(0)

watch = CrashWatch(folders_below(Path(sys.argv[1])))
watch.begin()
fall()
"""


@pytest.fixture(autouse=True)
def _faults() -> Iterator[None]:
    """Give the test runner its own handler back."""
    yield
    faulthandler.enable(2)


def crash(folders: Folders) -> int:
    """The exit code of a program that falls."""
    command = [sys.executable, "-c", CRASH, str(folders.logs.parent)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode


def test_a_fault_becomes_a_report_at_the_next_start_and_only_once(folders: Folders) -> None:
    folders.application_log.write_text(f"INFO asked with {TOKEN}\n")
    assert crash(folders) != 0
    watch = CrashWatch(folders)
    report = watch.begin()
    assert report is not None
    text = report.read_text("utf-8")
    assert "in fall" in text
    assert TOKEN not in text
    watch.end()
    again = CrashWatch(folders)
    assert again.begin() is None
    again.end()
    assert reports(folders) == [report]


def test_an_orderly_end_leaves_nothing(folders: Folders) -> None:
    watch = CrashWatch(folders)
    watch.begin()
    watch.end()
    assert list(folders.logs.iterdir()) == []


DIALOG = 'Windows fatal exception: code 0x8001010d\n\nThread 0x00001f4c (most recent call first):\n  File "a.py"\n\n'


@pytest.mark.parametrize(
    ("stack", "is_told"),
    [(2 * DIALOG, False), (DIALOG + "Windows fatal exception: access violation\n", True), ("no known words", True)],
)
def test_what_a_dialog_of_windows_catches_again_is_no_crash(folders: Folders, stack: str, is_told: bool) -> None:
    """The file stays where the program was ended from outside after such a dialog."""
    (folders.logs / "fault.txt").write_text(stack)
    watch = CrashWatch(folders)
    report = watch.begin()
    watch.end()
    assert (report is not None) is is_told


def test_the_oldest_reports_go(folders: Folders) -> None:
    for number in range(8):
        (folders.logs / f"crash-20200101-00000{number}.txt").write_text("old")
    (folders.logs / "fault.txt").write_text("Fatal Python error: Segmentation fault\n")
    watch = CrashWatch(folders)
    newest = watch.begin()
    watch.end()
    assert len(reports(folders)) == 5
    assert reports(folders)[-1] == newest


def test_the_report_can_be_read(qtbot: QtBot, tmp_path: Path) -> None:
    report = tmp_path / "crash-1.txt"
    report.write_text("Fatal Python error\n")
    dialog = ReportDialog(report)
    qtbot.addWidget(dialog)
    assert "Fatal Python error" in dialog.text.toPlainText()
