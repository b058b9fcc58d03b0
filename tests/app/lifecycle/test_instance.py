"""One program per data folder, and what a later start does."""

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QThread
from PySide6.QtNetwork import QLocalSocket
from pytestqt.qtbot import QtBot

from app.shell import instance as instance_module
from app.shell.instance import Instance, is_own_peer, socket_names
from app.system.paths import ROOT
from engine.errors import InputError
from tests.links import make_link

LATER = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.shell.instance import Instance

application = QCoreApplication()
instance = Instance(Path(sys.argv[1]))
assert not instance.claim()
instance.hand_over(sys.argv[2])
"""

ENDING = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.shell.instance import Instance
from tests.links import make_link

application = QCoreApplication()
instance = Instance(Path(sys.argv[1]))
assert instance.claim()
print("claimed", flush=True)
sys.stdin.readline()
instance.release()
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


def test_the_end_of_the_program_before_is_waited_for(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", ENDING, str(tmp_path)]
    before = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert before.stdout is not None
    assert before.stdout.readline().strip() == b"claimed"

    def let_it_end(_milliseconds: int) -> None:
        before.communicate(b"\n")

    monkeypatch.setattr(instance_module, "_HEARD_MS", 100)
    monkeypatch.setattr(instance_module, "_END_MS", 60_000)
    monkeypatch.setattr(QThread, "msleep", let_it_end)
    second = Instance(tmp_path)
    assert second.claim_or_hand_over("/some/file")
    second.release()
    assert before.returncode == 0, "it was waited for"


def test_a_program_that_neither_answers_nor_ends_is_said(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_module, "_HEARD_MS", 100)
    monkeypatch.setattr(instance_module, "_END_MS", 200)
    with pytest.raises(InputError, match="does not answer"):
        Instance(tmp_path).claim_or_hand_over("")


@pytest.mark.parametrize("words", [b"nonsense\n", b"[]\n", json.dumps({"open": 5}).encode() + b"\n", b"x" * 70_000])
def test_nonsense_is_hung_up_on(qtbot: QtBot, instance: Instance, words: bytes) -> None:
    asked: list[str] = []
    instance.asked.connect(asked.append)
    other = QLocalSocket()
    other.connectToServer(instance.name)
    qtbot.waitUntil(lambda: other.state() is QLocalSocket.LocalSocketState.ConnectedState)
    other.write(words)
    qtbot.waitUntil(lambda: other.state() is QLocalSocket.LocalSocketState.UnconnectedState)
    assert asked == []


# ---- sockets of somebody else ----------------------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="sockets with paths")


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files with a short path."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


_SQUATTER = """
import contextlib, itertools, socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listening", flush=True)
while True:
    peer, _ = listener.accept()
    with contextlib.suppress(OSError), peer:
        for piece in itertools.cycle(sys.argv[2:]):
            peer.sendall(bytes.fromhex(piece))
            time.sleep(0.05 * (len(sys.argv) > 3))
"""


@pytest.fixture
def squat() -> Iterator[Callable[..., None]]:
    """Listens somewhere before the program does, and answers everybody with these pieces, again and again.

    A process, not a thread: while Qt waits for an answer, no other thread of this program's Python can give one.
    """
    squatters: list[subprocess.Popen[bytes]] = []

    def begin(path: str, *pieces: bytes) -> None:
        command = [sys.executable, "-I", "-S", "-c", _SQUATTER, path, *(each.hex() for each in pieces)]
        squatters.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        assert squatters[-1].stdout is not None
        assert squatters[-1].stdout.readline() == b"listening\n"

    yield begin
    for each in squatters:
        each.kill()
        each.communicate()


@posix
def test_every_place_is_private_and_short(tmp_path: Path, temporary: Path) -> None:
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    for data in (tmp_path, deep):
        names = list(socket_names(data))
        assert names
        for each in map(Path, names):
            assert len(os.fsencode(each)) <= 103
            assert instance_module.is_private(each.parent)
            assert each.parent != temporary, "never in the folder that everybody shares"


@posix
def test_no_folder_is_made_where_a_better_one_is_used(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = temporary / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert Path(next(socket_names(tmp_path))).parent == runtime
    assert list(temporary.iterdir()) == [runtime]


@posix
def test_a_socket_at_the_old_place_is_not_asked(
    qtbot: QtBot, tmp_path: Path, temporary: Path, squat: Callable[..., None]
) -> None:
    squat(str(temporary / Path(next(socket_names(tmp_path))).name), b"done\n")
    with pytest.raises(InputError, match="does not answer"):
        Instance(tmp_path).hand_over("/my/secret.coppice")
    first = Instance(tmp_path)
    assert first.claim()
    assert instance_module.is_private(Path(first.name).parent)
    first.release()


@posix
@pytest.mark.parametrize("broken", ["open", "foreign", "link", "file"])
def test_a_folder_of_somebody_else_is_not_used(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    runtime, short = tmp_path / "runtime", temporary / f"coppice-{os.getuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    for folder in (runtime, short):
        if broken == "link":
            (tmp_path / "real").mkdir(mode=0o700, exist_ok=True)
            make_link(folder, tmp_path / "real")
        elif broken == "file":
            folder.write_text("")
        else:
            folder.mkdir(mode=0o755 if broken == "open" else 0o700)
    if broken == "foreign":
        uid = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: uid)
        real = Path.lstat

        def foreign(path: Path) -> os.stat_result:
            found = real(path)
            if path not in (runtime, short):
                return found
            return os.stat_result([*found[: stat.ST_UID], uid + 1, *found[stat.ST_UID + 1 : 10]])

        monkeypatch.setattr(Path, "lstat", foreign)
    data = temporary / "data"  # a short path, as sockets need
    data.mkdir(mode=0o700)
    assert [Path(each).parent for each in socket_names(data)] == [data]


@posix
def test_without_any_private_folder_the_window_opens_and_says_so_in_the_log(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(instance_module, "is_private", lambda _folder: False)
    alone = Instance(tmp_path)
    assert alone.claim()
    assert alone.name == ""
    assert "cannot reach this window" in caplog.text
    assert not Instance(tmp_path).claim(), "the lock holds all the same"
    alone.release()


@posix
def test_where_no_socket_can_be_made_the_next_place_is_taken(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir(mode=0o700)
    names = [str(tmp_path / "gone" / "missing" / "s"), str(tmp_path / "gone" / "s")]
    monkeypatch.setattr(instance_module, "socket_names", lambda _data: iter(names))
    first = Instance(tmp_path)
    assert first.claim()
    assert first.name == names[1]
    first.release()


@posix
@pytest.mark.parametrize("answer", [b"x" * 1000, b"done\nand more", b"don"], ids=["endless", "longer", "close"])
def test_a_hostile_server_at_the_new_place_is_given_up(
    qtbot: QtBot, tmp_path: Path, squat: Callable[..., None], answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in socket_names(tmp_path):
        squat(name, answer)
    if answer.startswith(b"done"):
        Instance(tmp_path).hand_over("")  # it is this user's program, and says that it has understood
        return
    monkeypatch.setattr(instance_module, "_HEARD_MS", 300)
    with pytest.raises(InputError, match="does not answer"):
        Instance(tmp_path).hand_over("")


@posix
def test_an_answer_that_comes_in_pieces_is_an_answer(qtbot: QtBot, tmp_path: Path, squat: Callable[..., None]) -> None:
    squat(next(socket_names(tmp_path)), b"do", b"ne\nand more")
    Instance(tmp_path).hand_over("")


@posix
def test_another_users_server_is_told_nothing(
    qtbot: QtBot, tmp_path: Path, squat: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    squat(next(socket_names(tmp_path)), b"done\n")
    monkeypatch.setattr(instance_module, "_peer_uid", lambda _descriptor: os.getuid() + 1)
    with pytest.raises(InputError, match="does not answer"):
        Instance(tmp_path).hand_over("/my/secret.coppice")


@posix
def test_another_users_words_are_not_heard(
    qtbot: QtBot, instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    instance.asked.connect(asked.append)
    monkeypatch.setattr(instance_module, "_peer_uid", lambda _descriptor: os.getuid() + 1)
    later = subprocess.Popen([sys.executable, "-c", LATER, str(tmp_path), "/x"], cwd=ROOT, stderr=subprocess.DEVNULL)
    qtbot.waitUntil(lambda: later.poll() is not None)
    assert later.returncode != 0
    assert asked == []


@posix
def test_who_is_at_the_other_end_is_known() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert instance_module._peer_uid(one.fileno()) == os.getuid()
        assert is_own_peer(one.fileno())
    with tempfile.TemporaryFile() as file:
        assert not is_own_peer(file.fileno()), "what is no socket is nobody's"


def test_who_says_nothing_is_hung_up_on(qtbot: QtBot, instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_module, "_WORDS_MS", 50)
    silent = QLocalSocket()
    silent.connectToServer(instance.name)
    qtbot.waitUntil(lambda: silent.state() is QLocalSocket.LocalSocketState.ConnectedState)
    qtbot.waitUntil(lambda: silent.state() is QLocalSocket.LocalSocketState.UnconnectedState)
