"""One program per data folder, and what a later start does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalSocket
from pytestqt.qtbot import QtBot

from app.lifecycle.instance import Instance
from app.paths import ROOT
from engine.errors import InputError

LATER = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.lifecycle.instance import Instance

application = QCoreApplication()
instance = Instance(Path(sys.argv[1]))
assert not instance.claim()
instance.hand_over(sys.argv[2])
"""


@pytest.fixture
def instance(qtbot: QtBot, tmp_path: Path) -> Iterator[Instance]:
    """The program that has the folder."""
    made = Instance(tmp_path)
    assert made.claim()
    yield made
    made.release()


@pytest.mark.parametrize("file", ["", "/somewhere/räume und bäume.coppice"])
def test_a_later_start_hands_over_its_file(qtbot: QtBot, instance: Instance, tmp_path: Path, file: str) -> None:
    asked: list[str] = []
    instance.asked.connect(asked.append)
    assert not Instance(tmp_path).claim()
    # A process of its own: Qt's waiting would keep a thread of this one from answering.
    later = subprocess.Popen([sys.executable, "-c", LATER, str(tmp_path), file], cwd=ROOT)
    qtbot.waitUntil(lambda: later.poll() is not None)
    assert (later.returncode, asked) == (0, [file])


def test_another_folder_is_another_program(instance: Instance, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Instance(tmp_path / "other")
    assert other.claim()
    other.release()


def test_a_folder_that_was_let_go_can_be_taken(qtbot: QtBot, tmp_path: Path) -> None:
    first, second = Instance(tmp_path), Instance(tmp_path)
    assert first.claim()
    first.release()
    assert second.claim()
    second.release()


def test_a_program_that_does_not_answer_is_said(qtbot: QtBot, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not answer"):
        Instance(tmp_path).hand_over("")


@pytest.mark.parametrize("words", [b"nonsense\n", b"[]\n", json.dumps({"open": 5}).encode() + b"\n", b"x" * 70_000])
def test_nonsense_is_hung_up_on(qtbot: QtBot, instance: Instance, words: bytes) -> None:
    asked: list[str] = []
    instance.asked.connect(asked.append)
    socket = QLocalSocket()
    socket.connectToServer(instance._name)
    qtbot.waitUntil(lambda: socket.state() is QLocalSocket.LocalSocketState.ConnectedState)
    socket.write(words)
    qtbot.waitUntil(lambda: socket.state() is QLocalSocket.LocalSocketState.UnconnectedState)
    assert asked == []
