"""`coppice download` in processes of its own: what it prints, how it ends, and what is left when it is killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.downloads import command as download_command
from app.downloads.command import describe
from app.downloads.dependencies import Dependencies
from app.downloads.download import Download
from app.downloads.progress import Progress, Request, State
from app.hub.names import INDEX
from app.i18n.units import time_text
from app.system.command_line import BAD_INPUT
from tests.app.downloads.models import FILES, REPO, SHARDS, WEIGHTS, body_bytes, contents, put_up
from tests.campaigns.extent import choose
from tests.hub import Hub, drop, stall

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 60

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Begin = Callable[..., "subprocess.Popen[str]"]


def command(*arguments: str) -> list[str]:
    """The command line of `coppice`."""
    return [sys.executable, "-m", "app", "download", *arguments]


@pytest.fixture
def environment(hub: Hub, tmp_path: Path) -> dict[str, str]:
    """Of a process that knows only the loopback hub."""
    here = {name: value for name, value in hub.environment(tmp_path / "hf").items() if value}
    gone = {name for name, value in hub.environment(tmp_path).items() if not value}
    return {name: value for name, value in os.environ.items() if name not in gone} | here


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Runs the command to its end."""

    def run_(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments),
            cwd=ROOT,
            env=environment | more,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    return run_


@pytest.fixture
def begin(environment: dict[str, str]) -> Iterator[Begin]:
    """Starts the command with `--json`, and ends it with the test."""
    begun: list[subprocess.Popen[str]] = []

    def begin_(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(*arguments, "--json"),
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield begin_
    for process in begun:
        process.kill()
        process.communicate()


def wait_for(process: "subprocess.Popen[str]", file: str, count: int) -> None:
    """Read what it prints until so many bytes of a file are there."""
    assert process.stdout
    for line in process.stdout:
        told = json.loads(line)
        if (told["file"], told["bytes"]) == (file, count):
            return
    raise AssertionError(f"it ended before that: {process.communicate()}")


def test_json_tells_of_every_file_and_ends_with_the_path_where_qt_does_not_work(
    hub: Hub, environment: dict[str, str], cache: Path
) -> None:
    repo = put_up(hub)
    hub.fail(SHARDS[0], drop(after=10))
    code = (
        "import sys; sys.modules['PySide6'] = None; from app.__main__ import main; "
        f"code = main(['download', '{REPO}', '--json']); print(code, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    *printed, end = done.stdout.splitlines()
    assert (end, done.stderr) == ("0 False", "")
    *lines, last = map(json.loads, printed)
    assert last == {"state": "done", "path": str(cache / "snapshots" / repo.commit)}
    assert all(list(line) == ["file", "bytes", "total", "state"] for line in lines)
    assert contents(cache / "snapshots" / repo.commit) == FILES


def test_in_words_the_path_is_all_there_is_on_stdout(
    hub: Hub, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put_up(hub, branches=("main", "v1"))
    to = tmp_path / "model"
    assert download_command.run([REPO, "--to", str(to), "--revision", "v1"], Dependencies()) == 0
    assert capsys.readouterr().out == f"{to}\n"
    assert contents(to) == FILES


@pytest.mark.parametrize(
    ("arguments", "more", "words"),
    [
        (["org/nothing"], {}, "The hub has no model org/nothing that you can see."),
        (["nonsense"], {}, "That is not the name of a model on the hub."),
        ([REPO, "--revision", "v9"], {}, "has no such revision"),
        ([REPO], {"HTTP_PROXY": "nonsense://x"}, "of the proxy cannot be used"),
    ],
)
def test_what_cannot_be_had_is_one_line_and_2(
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    more: dict[str, str],
    words: str,
) -> None:
    put_up(hub)
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    assert download_command.run(arguments, Dependencies()) == BAD_INPUT
    printed, errors = capsys.readouterr()
    assert printed == ""
    *_, line = errors.splitlines()
    assert line.startswith("error: ")
    assert words in line


@pytest.mark.parametrize(
    ("arguments", "more", "words"),
    [
        ([REPO], {"HF_HUB_OFFLINE": "1"}, "Coppice is set to stay offline, in Preferences or by HF_HUB_OFFLINE."),
        *choose([], [([], {}, "The following arguments are required: REPO")]),
    ],
)
def test_the_process_ends_with_one_line_and_2(
    hub: Hub, run: Run, arguments: list[str], more: dict[str, str], words: str
) -> None:
    put_up(hub)
    done = run(*arguments, **more)
    assert (done.returncode, done.stdout) == (BAD_INPUT, "")
    *_, line = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert words in line
    assert "Traceback" not in done.stderr


def test_a_kill_in_the_middle_costs_nothing(hub: Hub, begin: Begin, cache: Path) -> None:
    repo = put_up(hub)
    for name, after in ((SHARDS[0], 123_456), (SHARDS[1], 7)):
        hub.fail(name, stall(after=after))
        process = begin(REPO)
        wait_for(process, name, after)
        process.kill()
        assert process.wait(PATIENCE_SECONDS) == (1 if os.name == "nt" else -signal.SIGKILL)
    assert (cache / "blobs" / f"{repo.etag(SHARDS[1])}.incomplete").stat().st_size == 7
    assert download_command.run([REPO], Dependencies()) == 0
    assert contents(cache / "snapshots" / repo.commit) == FILES
    assert {path.name for path in (cache / "blobs").iterdir()} == {repo.etag(name) for name in FILES}
    assert [each.first_byte for each in hub.asked(SHARDS[0])] == [0, 123_456]
    assert [each.first_byte for each in hub.asked(SHARDS[1])] == [0, 7]
    small = [name for name in FILES if name not in SHARDS]
    asked = dict.fromkeys(small, 1) | {INDEX: 2}  # also before all others, for the names of the shards
    assert {name: len(hub.asked(name)) for name in small} == asked


def test_a_kill_while_writing_a_plain_folder_costs_nothing(hub: Hub, begin: Begin, tmp_path: Path) -> None:
    put_up(hub)
    hub.fail(SHARDS[0], stall(after=99_999))
    process = begin(REPO, "--to", str(tmp_path / "model"))
    wait_for(process, SHARDS[0], 99_999)
    process.kill()
    process.wait(PATIENCE_SECONDS)
    assert download_command.run([REPO, "--to", str(tmp_path / "model")], Dependencies()) == 0
    assert contents(tmp_path / "model") == FILES
    assert [each.first_byte for each in hub.asked(SHARDS[0])] == [0, 99_999]


@pytest.mark.skipif(os.name == "nt", reason="Ctrl+C is another thing there")
def test_an_interrupt_keeps_the_partial_file_and_says_so(hub: Hub, begin: Begin, cache: Path) -> None:
    repo = put_up(hub)
    hub.fail(SHARDS[0], stall(after=50_000))
    process = begin(REPO)
    wait_for(process, SHARDS[0], 50_000)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert errors == "Interrupted. What has arrived is kept: the same command goes on from there.\n"
    partial = cache / "blobs" / f"{repo.etag(SHARDS[0])}.incomplete"
    assert partial.read_bytes() == WEIGHTS[:50_000]
    assert download_command.run([REPO], Dependencies()) == 0
    assert contents(cache / "snapshots" / repo.commit) == FILES


def test_two_at_once_do_not_write_the_same_file(hub: Hub, begin: Begin, cache: Path) -> None:
    repo = put_up(hub)
    hub.fail(SHARDS[0], stall(after=1000))
    first = begin(REPO)
    wait_for(first, SHARDS[0], 1000)
    second = begin(REPO)
    assert second.stdout
    assert any(json.loads(line)["state"] == "waiting to retry" for line in second.stdout)
    hub.release()
    for process in (first, second):
        process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0
    assert contents(cache / "snapshots" / repo.commit) == FILES
    assert body_bytes(hub, SHARDS[0]) >= 1000
    assert [each.first_byte for each in hub.asked(SHARDS[1])] == [0]


def test_the_line_of_progress_reads_well() -> None:
    progress = Progress(1, Request(REPO), State.DOWNLOADING, "a.safetensors", bytes_done=1_300_000_000)
    from dataclasses import replace

    progress = replace(progress, bytes_total=3_100_000_000, bytes_per_second=24e6, seconds_left=75.4)
    assert describe(progress) == "downloading   42%  1.3 GB of 3.1 GB  24.0 MB/s  1 min 15 s left  a.safetensors"
    waiting = replace(progress, state=State.WAITING, message="the connection was lost", seconds_to_retry=8.2)
    assert describe(waiting).startswith("waiting to retry  (the connection was lost)   42%")
    assert describe(waiting).endswith("again in 8 s")
    assert [time_text(seconds) for seconds in (0.4, 59.4, 3599, 7260)] == ["0 s", "59 s", "59 min 59 s", "2 h 1 min"]


def test_an_error_of_ours_ends_it_with_words(
    dependencies: Dependencies,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    thread_errors: list[BaseException | None],
) -> None:
    def fail(_download: Download) -> None:
        raise KeyError("unforeseen")

    monkeypatch.setattr(Download, "run", fail)
    assert download_command.run(["org/tiny"], dependencies) == BAD_INPUT
    assert "error in this program" in capsys.readouterr().err
    assert [type(each) for each in thread_errors] == [KeyError]
