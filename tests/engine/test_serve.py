"""`serve`: what it says, and how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import uvicorn

from app.engine.serve import run as become_server
from app.system.paths import platform_folders
from engine.__main__ import main
from engine.cli.arguments import build_parser
from engine.cli.serve import KEY_VARIABLE, serve, serve_options
from engine.cli.serving_log import ServingLog, line_of
from engine.errors import Cancellation, Cancelled, CoppiceError
from engine.protocol.options import LoadOptions
from engine.protocol.serving import ServeOptions, Visit
from engine.serving.desk import SERVED_FROM
from engine.serving.worker import Worker
from tests.engine.serving.stub import soon

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 120


@pytest.fixture
def process() -> Iterator["subprocess.Popen[str]"]:
    """`coppice serve` at a free port."""
    command = [sys.executable, "-m", "app", "serve", "--port", "0", "--json", "--draft", "none"]
    pipe = subprocess.PIPE
    begun = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)
    yield begun
    begun.kill()
    begun.communicate()


def address_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    found = json.loads(process.stdout.readline())
    assert found["pid"] == process.pid
    address: str = found["address"]
    return address


def health(address: str) -> int:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=PATIENCE_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.skipif(sys.platform == "win32", reason="a signal there ends a process unheard")
def test_the_application_becomes_a_server_that_ends_when_it_is_told(process: "subprocess.Popen[str]") -> None:
    address = address_of(process)
    assert health(address) in (200, 503), "it answers from the beginning"
    assert process.stderr
    said = next(line for line in process.stderr if " is loaded" in line)
    assert said.startswith("demo-target is loaded, for ")
    assert soon(lambda: health(address) == 200), "as soon as the worker has what was loaded"
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, rest) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="a signal there ends a process unheard")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_ends_by_a_signal_while_its_worker_works(
    number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left, is_over, cancellations = list[int](), threading.Event(), list[Cancellation]()

    def work(worker: Worker) -> None:
        cancellations.append(worker._cancellation)
        worker._cancellation.begin(SERVED_FROM, asker="127.0.0.1")
        os.kill(os.getpid(), number)
        is_over.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(Worker, "run", work)
    serve(ServeOptions(port=0), LoadOptions(), leave=left.append)
    is_over.set()
    assert left == [code]
    with pytest.raises(Cancelled):
        cancellations[0].check()  # what is under way for a client ends within one layer
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")


def test_a_server_that_ends_by_itself_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    async def end(_server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        pass

    monkeypatch.setattr(uvicorn.Server, "serve", end)
    monkeypatch.setattr(Worker, "run", lambda _worker: None)
    with pytest.raises(CoppiceError, match="ended by itself"):
        serve(ServeOptions(port=0), LoadOptions())


def test_a_port_that_is_taken_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.startswith(f"error: The server cannot listen at 127.0.0.1:{port}: ")
    assert said.count("\n") == 1
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "without a key"),
        (["--port", "70000"], "out of range"),
        (["--port", "x"], "Argument --port"),
        (["--api-key", "a\nb"], "No client can send"),
        (["--api-key", " a"], "No client can send"),
        (["--origin", "*", "--origin", "foo"], "No browser sends 'foo'"),
        (["--origin", "http://a.example/"], "without a slash"),
        (["--origin", "http://A.example"], "in small letters"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert main(["serve", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(("given", "key"), [([], "from-outside"), (["--api-key", "given"], "given")])
def test_the_key_comes_from_the_environment_and_does_not_stay_there(
    given: list[str], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "from-outside\n")
    words = ["serve", "--host", "0.0.0.0", "--origin", "http://a", "--origin", "http://b", "--alias", "gpt-99", *given]
    options = serve_options(build_parser().parse_args(words))
    assert options == ServeOptions("0.0.0.0", 8383, key, ("http://a", "http://b"), ("gpt-99",))
    assert KEY_VARIABLE not in os.environ


@pytest.mark.parametrize("origin", ["*", "null", "http://localhost:3000", "http://[::1]:80", "app://obsidian.md"])
def test_every_origin_that_browsers_send_can_be_named(origin: str) -> None:
    ServeOptions(api_key="schl\udcffssel mit Raum", origins=(origin,)).check()


def test_a_request_that_is_over_is_one_line_whatever_a_client_calls_itself(capsys: pytest.CaptureFixture[str]) -> None:
    visit = Visit(1, "127.0.0.1", "evil\n\x1b[31m", "/v1/completions", "done", 0, 200, 12, 34, 1.5)
    assert line_of(visit)[19:] == r"  127.0.0.1  'evil\n\x1b[31m'  '/v1/completions'  200  12 + 34 tokens  1.50 s"
    log = ServingLog()
    log.tell(Visit(1, "127.0.0.1", "", "/health", "answering"))
    log.tell(Visit(1, "127.0.0.1", "", "/health", "failed", status=401, words="No key."))
    ServingLog(quiet=True).tell(visit)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith("401  0.00 s  failed  No key.\n")


@pytest.mark.parametrize(("words", "most"), [((), -1), (("--keep-gb", "0"), 0), (("--keep-gb", "2.5"), 2_500_000_000)])
def test_as_much_is_kept_on_disk_as_is_told(words: tuple[str, ...], most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        "engine.cli.serve.serve", lambda *_, keep_bytes, as_json, quiet: told.append((keep_bytes, as_json and quiet))
    )
    assert main(["serve", *words]) == 0
    assert told == [(most, False)]
    assert main(["serve", "--keep-gb", "-1"]) == 2


@pytest.mark.parametrize(
    ("words", "below"),
    [
        (("--data-dir", "named"), "named/cache"),
        (("--portable",), "coppice-data/cache"),
        ((), ""),
        (("--data-dir", "named", "--cache-dir", "own"), "own"),
    ],
)
def test_what_is_kept_lies_in_the_folder_that_was_named(
    words: tuple[str, ...], below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become, served = Mock(return_value=0), Mock()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("app.system.paths.portable_folder", lambda: tmp_path / "coppice-data")
    monkeypatch.setattr("app.engine.serve._become", become)
    assert become_server(words) == 0
    command = become.call_args.args[0]
    monkeypatch.setattr("engine.cli.serve.serve", served)
    assert main(command[command.index("serve") :]) == 0
    load: LoadOptions = served.call_args.args[1]
    assert Path(load.cache_dir).absolute() == (tmp_path / below if below else platform_folders().cache)


@pytest.mark.skipif(sys.platform == "win32", reason="a signal there ends a process unheard")
@pytest.mark.parametrize("is_in_the_way", [True, False])
def test_a_cache_folder_that_cannot_be_written_is_told_once(
    is_in_the_way: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_in_the_way:
        (tmp_path / "file").touch()
    monkeypatch.setattr(Worker, "run", lambda _worker: os.kill(os.getpid(), signal.SIGINT))
    serve(ServeOptions(port=0), LoadOptions(cache_dir=str(tmp_path / "file" / "cache")), leave=lambda _code: None)
    said = capsys.readouterr().err
    assert said.count("Nothing can be kept in ") == is_in_the_way
    assert not list(tmp_path.glob("file/cache/*"))


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_what_the_server_keeps_is_for_nobody_else_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.system.files._Umask.own", None)
    monkeypatch.setattr(os, "execve", Mock(side_effect=OSError("nothing is started")))
    before = os.umask(0o022)
    assert become_server(["--data-dir", str(tmp_path / "data")]) == 2
    assert os.umask(before) == 0o077
