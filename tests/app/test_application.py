"""The application as a person starts it: its command line, its folders, its end."""

import os
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.settings.store import Settings
from app.shell.wiring import wanted_pair
from app.system.paths import RESOURCES, ROOT, platform_folders
from app.ui.theme import DARK, LIGHT, application_icon, icon
from engine import __version__
from engine.protocol.options import LoadOptions
from tests.app.conftest import FAKE_ENGINE
from tests.campaigns.extent import choose, for_the_proofs

PATIENCE_MS = 30_000


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """The application until it ends."""
    command = [sys.executable, "-m", "app", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def run_script(script: str, engine_python: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A script that opens the window, in front of a fake engine, until it ends."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env=os.environ | {"COPPICE_ENGINE_PYTHON": str(engine_python)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def application(engine_python: Path, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The application in its own process, with a fake engine."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "--data-dir", str(tmp_path / "data")],
        cwd=ROOT,
        env=os.environ | {"COPPICE_ENGINE_PYTHON": str(engine_python)},
    )
    yield process
    process.kill()
    process.wait()


def engines(application: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """The engine processes of an application that have come far enough to hold the connection."""
    children = psutil.Process(application.pid).children(recursive=True)  # of Windows' command line, there
    return [each for each in children if is_fake_engine(each)]


def is_fake_engine(process: psutil.Process) -> bool:
    """Not, where it has just begun or ended."""
    try:
        return str(FAKE_ENGINE) in process.cmdline() and "cmd.exe" not in process.name()
    except psutil.Error:
        return False


@pytest.mark.parametrize("arguments", [["--target", ""], *choose([], [["--no-such-option"], ["stray"], ["--target"]])])
def test_a_wrong_command_line_is_one_line_and_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_data_folder_that_cannot_be_made_is_one_line_and_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("--data-dir", str(tmp_path / "file" / "below"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "--data-dir" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_second_start_ends_at_once_and_the_first_writes_below_its_folder_and_leaves_no_engine(
    application: "subprocess.Popen[bytes]", qtbot: QtBot, tmp_path: Path
) -> None:
    """The first one is killed at the end."""
    qtbot.waitUntil(lambda: bool(engines(application)), timeout=PATIENCE_MS)
    # It answers as soon as its window is there, for which a second start does not wait for ever.
    qtbot.waitUntil((tmp_path / "data" / "data" / "chats.sqlite3-wal").exists, timeout=PATIENCE_MS)
    second = run("--data-dir", str(tmp_path / "data"))
    assert (second.returncode, second.stderr) == (0, "")
    assert application.poll() is None
    qtbot.waitUntil((tmp_path / "data" / "logs" / "engine.log").exists, timeout=PATIENCE_MS)
    assert {each.name for each in (tmp_path / "data").iterdir()} == {"config", "data", "cache", "logs"}
    assert not any(folder.exists() for folder in (platform_folders().logs, platform_folders().config))
    running = engines(application)
    application.kill()
    application.wait(timeout=30)
    _, alive = psutil.wait_procs(running, timeout=30)
    assert alive == []


@pytest.mark.skipif(os.name != "posix", reason="signals are a matter of POSIX")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
@for_the_proofs  # how a window ends by signals is in lifecycle/test_ending.py
def test_an_application_that_is_ended_leaves_no_engine(
    application: "subprocess.Popen[bytes]", qtbot: QtBot, end: signal.Signals
) -> None:
    qtbot.waitUntil(lambda: bool(engines(application)), timeout=PATIENCE_MS)
    running = engines(application)
    application.send_signal(end)
    application.wait(timeout=30)
    _, alive = psutil.wait_procs(running, timeout=30)
    assert alive == []


def test_the_version_is_told_and_types_are_made_when_qt_is_imported_not_in_the_middle_of_something() -> None:
    code = (
        "import contextlib\n"
        "from app.__main__ import main\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main(['--version'])\n"
        "from PySide6 import QtWidgets\n"
        "print('QWizardPage' in vars(QtWidgets))\n"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYSIDE6_OPTION_LAZY"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    assert done.stdout == f"coppice {__version__}\nTrue\n"


@pytest.mark.parametrize(
    ("target", "draft", "wanted"),
    [
        (None, None, LoadOptions("/last/target", "/last/draft")),
        (None, "none", LoadOptions("/last/target", "none")),
        ("embedded", None, LoadOptions("embedded", "auto")),
        ("org/model", "org/draft", LoadOptions("org/model", "org/draft")),
        (".", "none", LoadOptions(str(Path.cwd()), "none")),
    ],
)
def test_the_command_line_goes_before_the_last_session(
    target: str | None, draft: str | None, wanted: LoadOptions
) -> None:
    settings = Settings(target="/last/target", draft="/last/draft")
    assert wanted_pair(Namespace(target=target, draft=draft), settings) == wanted


def test_a_folder_that_is_called_like_a_word_of_the_engine_is_not_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("heads", "mine"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    wanted = [
        wanted_pair(Namespace(target="embedded", draft=each), Settings()).draft
        for each in ("heads", "mine", "mine+heads")
    ]
    assert wanted == ["heads", str(tmp_path / "mine"), f"{tmp_path / 'mine'}+heads"]


@pytest.mark.parametrize("path", sorted((RESOURCES / "icons").glob("*.svg")), ids=lambda path: path.stem)
def test_every_icon_can_be_drawn(qapp: QApplication, path: Path) -> None:
    for colors in (LIGHT, DARK):
        drawn: QIcon = icon(path.stem, colors.text)
        image = drawn.pixmap(24, 24).toImage()
        assert any(image.pixelColor(x, y).alpha() for x in range(24) for y in range(24))


def test_the_application_icon_is_there_at_every_size(qapp: QApplication) -> None:
    assert {size.width() for size in application_icon().availableSizes()} >= {16, 32, 256}


INTERRUPTED = """
import os, signal, sys
from contextlib import suppress

signal.signal(signal.SIGINT, {handler})

class Interrupting:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "app.main":
            with suppress(KeyboardInterrupt):  # as Qt's bindings do in the middle of an import
                os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting)
from app.__main__ import main
main(["--version"])
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are a matter of POSIX")
@pytest.mark.parametrize(
    ("handler", "code"),
    [("signal.default_int_handler", -signal.SIGINT), ("signal.SIG_IGN", 0)],
    ids=["asked", "ignored"],
)
def test_an_interrupt_while_the_window_is_imported_is_not_lost(handler: str, code: int) -> None:
    """A program in the background of a shell ignores it."""
    script = INTERRUPTED.format(handler=handler)
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")


FAILING = """
import sys
from PySide6.QtWidgets import QApplication
from app.chat.archive.store import Store
from app.main import main
from app.ui.notices import NoticeStack

class Panic(BaseException):
    pass

def fail(store):
    raise Panic("unforeseen")

def add(stack, notice):
    print(notice.text, flush=True)
    if "cannot be saved in" in notice.text:
        QApplication.quit()

Store.conversations = fail
NoticeStack.add = add
sys.exit(main(["--data-dir", sys.argv[1]]))
"""


def test_what_a_thread_meets_is_shown_in_the_window_and_logged(engine_python: Path, tmp_path: Path) -> None:
    done = run_script(FAILING, engine_python, str(tmp_path / "data"))
    assert done.returncode == 0, done.stderr
    assert "The chats could not be read or saved because of an error in this program (Panic: unforeseen)" in done.stdout
    logs = [each.read_text(encoding="utf-8") for each in (tmp_path / "data" / "logs").glob("*.log")]
    assert any("An error in the thread 'archive'" in log and "Panic: unforeseen" in log for log in logs)


WORKING = """
import atexit, sys, time
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from app import main
from app.shell.deferred import DeferredWork
from app.system import background

def work_and_end(self):
    background.start("a long work", lambda: time.sleep(float(sys.argv[2])))
    QTimer.singleShot(0, QApplication.quit)

DeferredWork._on_beginning = work_and_end
main._PATIENCE_SECONDS = float(sys.argv[3])
atexit.register(print, "Python has ended", flush=True)
sys.exit(main.main(["--data-dir", sys.argv[1]]))
"""


@pytest.mark.parametrize(("work", "patience"), [(0.2, 30), (60, 0.2)])
def test_python_ends_when_no_thread_is_at_work_and_is_left_out_where_one_stays(
    work: float, patience: float, engine_python: Path, tmp_path: Path
) -> None:
    """It would stop a thread in the middle of a library's frames, which crashed now and then."""
    done = run_script(WORKING, engine_python, str(tmp_path / "data"), str(work), str(patience))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("Python has ended\n" if work < patience else "")
    assert ("these threads still run: a long work" in done.stderr) == (work > patience)


def test_a_display_that_cannot_be_had_is_one_line_and_2_not_a_core_file(tmp_path: Path) -> None:
    """As where a session has ended, or a library that Qt needs is missing."""
    done = subprocess.run(
        [sys.executable, "-m", "app", "--data-dir", str(tmp_path / "data")],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "of-no-system"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: There is no display (")
    assert "of-no-system" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a display")
@pytest.mark.parametrize(
    ("given", "code"), [({}, 2), ({"XDG_SESSION_TYPE": "tty"}, 2), ({"QT_QPA_PLATFORM": "offscreen"}, 0)]
)
def test_without_a_display_it_says_so_in_a_line(given: dict[str, str], code: int, tmp_path: Path) -> None:
    """As over ssh; Qt would abort the program."""
    of_displays = ("DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "QT_QPA_PLATFORM", "XDG_SESSION_TYPE")
    bare = {name: value for name, value in os.environ.items() if name not in of_displays}
    script = "from app import main; main.build_application = lambda: sys.exit(0); sys.exit(main.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {script}", "--data-dir", str(tmp_path / "data")],
        cwd=ROOT,
        env=bare | given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert done.stderr.startswith("error: There is no display. ") == bool(code)
