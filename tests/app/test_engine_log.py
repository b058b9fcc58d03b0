"""What the engine prints: its last words are kept, and the file does not grow without end, whatever the engine does."""

import os
import sys
import time
from pathlib import Path

import pytest

from app.engine.process import BROKEN, EngineChild, EngineLog
from app.engine.program import EngineProgram

MOST = 200_000
FLOOD = "import sys\nfor _ in range(2000): sys.stderr.write('a warning ' * 100 + chr(10))\n"


def run(log: Path, script: str) -> int:
    """The exit code of an engine that is this script, and never calls the window."""
    child = EngineChild(EngineProgram((sys.executable, "-S", "-c", script), log))
    with pytest.raises(BROKEN):
        child.connect().recv()
    return child.end()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("app.engine.process._LOG_BYTES", MOST)
    return tmp_path / "engine.log"


def sizes(log: Path) -> list[int]:
    return [each.stat().st_size for each in log.parent.iterdir()]


def test_an_engine_that_prints_without_end_does_not_fill_the_disk(log: Path) -> None:
    assert run(log, FLOOD + "print('the last words', file=sys.stderr)") == 0
    assert sorted(each.name for each in log.parent.iterdir()) == ["engine.log", "engine.old.log"]
    assert max(sizes(log)) <= MOST
    assert log.read_bytes().endswith(b"the last words\n")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_last_words_of_a_killed_engine_are_kept(log: Path) -> None:
    assert run(log, "import os, sys; print('first'); os.write(2, b'last'); os.kill(os.getpid(), 9)") == -9
    assert log.read_bytes() == b"first\nlast"


def test_a_crash_leaves_the_trace_of_its_fault(log: Path) -> None:
    script = "import faulthandler, os\nfaulthandler.enable()\ndef fall(): os.abort()\nfall()"
    if os.name == "posix":
        script = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n" + script
    assert run(log, script) != 0
    assert "in fall" in log.read_text("utf-8")


@pytest.mark.skipif(os.name != "posix", reason="processes of POSIX")
def test_an_engine_whose_child_still_lives_ends_all_the_same(log: Path) -> None:
    """The child holds the other end of the pipe."""
    pid = log.with_name("pid")
    spawn = "import subprocess, sys, pathlib\nchild = subprocess.Popen([sys.executable, '-S', '-c', 'input()'],"
    spawn += f" stdin=subprocess.PIPE)\npathlib.Path({str(pid)!r}).write_text(str(child.pid))\nprint('said')\n"
    begun = time.monotonic()
    assert run(log, spawn + "import os; os.kill(os.getpid(), 9)") == -9
    assert time.monotonic() - begun < 60
    assert "said" in log.read_text("utf-8")


def test_a_log_that_cannot_be_written_stops_no_engine(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    log.mkdir()
    assert run(log, FLOOD) == 0
    assert caplog.text.count("cannot be written") == 1


def test_an_old_log_that_cannot_be_replaced_does_not_let_the_new_one_grow(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program may hold it open, which Windows respects."""

    def refuse(_path: Path, _target: Path) -> None:
        raise PermissionError(13, "The process cannot access the file")

    monkeypatch.setattr(Path, "replace", refuse)
    kept = EngineLog(log)
    for number in range(30):
        kept.write(f"{number} ".encode() * 10_000)
    kept.close()
    assert sizes(log)[0] <= MOST
    assert log.read_bytes().endswith(b"29 ")


def test_a_log_that_can_be_written_again_goes_on(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    log.mkdir()
    kept = EngineLog(log)
    kept.write(b"lost")
    log.rmdir()
    kept.write(b"kept")
    kept.close()
    assert log.read_bytes() == b"kept"


@pytest.mark.parametrize(("script", "has_printed"), [("print('here')", True), ("", False)])
def test_an_engine_that_printed_nothing_is_known(log: Path, script: str, has_printed: bool) -> None:
    log.write_text("of an earlier engine\n", encoding="utf-8")
    child = EngineChild(EngineProgram((sys.executable, "-S", "-c", script), log))
    with pytest.raises(BROKEN):
        child.connect().recv()
    child.end()
    assert child.has_printed == has_printed
