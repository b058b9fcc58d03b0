"""The link in front of a process that speaks the protocol: every way to begin, to be busy, and to end."""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.engine.link import EngineLink
from app.engine.process import EngineChild, describe_exit
from app.engine.program import EngineProgram, engine_program
from engine.protocol.messages import UNHEARD_EXIT, ChatMessage, Event, Failed, Finished, Load, Loaded, Ready, Round
from engine.protocol.options import GenerateOptions, LoadOptions
from tests.app.fake_engine import round_of

PATIENCE_MS = 20_000


class Listener:
    """Keeps what a link says, in its order."""

    def __init__(self, link: EngineLink) -> None:
        self.events: list[Event] = []
        self.story: list[object] = []
        self.lists: list[int] = []  # how many events came at once
        link.engine_starting.connect(lambda: self.story.append("starting"))
        link.engine_stopped.connect(self.story.append)
        link.events_arrived.connect(self._on_events)

    def _on_events(self, events: list[Event]) -> None:
        assert events, "an empty list is no news"
        self.events += events
        self.story += events
        self.lists.append(len(events))

    @property
    def stops(self) -> list[Failed]:
        """Every end of an engine."""
        return [each for each in self.story if isinstance(each, Failed) and each.id == 0]

    def endings(self, request: int) -> list[Event]:
        """Every ending of a request; there must never be two."""
        return [each for each in self.events if isinstance(each, Finished | Failed) and each.id == request]

    def text(self, request: int) -> str:
        """What has arrived of an answer."""
        return "".join(each.text for each in self.events if isinstance(each, Round) and each.id == request)

    def is_ready(self) -> bool:
        """Whether an engine has introduced itself."""
        return any(isinstance(each, Ready) for each in self.events)


StartLink = Callable[[EngineProgram], tuple[EngineLink, Listener]]


@pytest.fixture
def start_link(qtbot: QtBot) -> Iterator[StartLink]:
    """Starts links, and ends them with the test."""
    links: list[EngineLink] = []

    def start(program: EngineProgram) -> tuple[EngineLink, Listener]:
        link = EngineLink(program)
        links.append(link)
        listener = Listener(link)
        link.start()
        return link, listener

    yield start
    for link in links:
        link.close()
        link.wait_closed()


def ask(link: EngineLink, question: str) -> int:
    """Put one question."""
    return link.generate((ChatMessage("user", question),), GenerateOptions())


def test_whoever_hears_of_the_engine_hears_it_in_the_thread_of_the_window(
    qtbot: QtBot, fake_program: EngineProgram
) -> None:
    """Else it could be painted, or clicked, when one part of it knows that the engine is gone and another not."""
    here = threading.get_ident()
    link = EngineLink(fake_program)
    heard: list[tuple[str, int]] = []
    for name in ("engine_starting", "events_arrived", "engine_stopped"):
        signal_ = getattr(link, name)
        signal_.connect(
            lambda *_, name=name: heard.append((name, threading.get_ident())), Qt.ConnectionType.DirectConnection
        )
    link.start()
    qtbot.waitUntil(lambda: ("events_arrived", here) in heard)
    link.restart()
    qtbot.waitUntil(lambda: ("engine_stopped", here) in heard)
    link.close()
    link.wait_closed()
    assert {thread for _, thread in heard} == {here}


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie that nobody has collected counts as running."""
    return not psutil.pid_exists(pid)


def test_a_pair_is_loaded_and_a_question_answered(
    qtbot: QtBot, start_link: StartLink, fake_program: EngineProgram
) -> None:
    link, heard = start_link(fake_program)
    load, question = link.load(LoadOptions()), ask(link, "say one two three")
    qtbot.waitUntil(lambda: bool(heard.endings(question)), timeout=PATIENCE_MS)
    assert heard.endings(load) == [Finished(load, "loaded")]
    assert heard.text(question) == "one two three"
    assert isinstance(heard.events[0], Ready)
    assert any(isinstance(each, Loaded) for each in heard.events)


def test_events_that_have_arrived_come_as_one_list(
    qtbot: QtBot, fake_program: EngineProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.link._SECONDS_TO_GATHER", PATIENCE_MS / 1000)
    link = EngineLink(fake_program)
    heard = Listener(link)
    ours, theirs = Pipe()
    for index in range(10):  # a pipe of Windows holds 8 kB
        theirs.send(round_of(1, index, "word "))
    link._pass_events(ours)
    qtbot.waitUntil(lambda: bool(heard.events))
    assert heard.lists == [10]
    assert heard.text(1) == "word " * 10


def test_an_engine_that_sends_as_fast_as_is_read_is_shown_meanwhile(
    qtbot: QtBot, fake_program: EngineProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = EngineLink(fake_program)
    heard = Listener(link)
    ours, theirs = Pipe()
    read = iter(range(10_000))

    def recv() -> Event:
        theirs.send_bytes(b"the next one")
        time.sleep(0.005)  # as long as a token may take a small model
        ours.recv_bytes()
        return round_of(1, next(read), "word ")

    monkeypatch.setattr(ours, "recv", recv)
    theirs.send_bytes(b"the first one")
    link._pass_events(ours)
    qtbot.waitUntil(lambda: bool(heard.events))
    assert heard.lists[0] <= 5


def test_a_stop_ends_an_answer_once(qtbot: QtBot, start_link: StartLink, fake_program: EngineProgram) -> None:
    link, heard = start_link(fake_program)
    question = ask(link, "hang")
    qtbot.waitUntil(lambda: heard.text(question) != "", timeout=PATIENCE_MS)
    link.cancel(question)
    after = ask(link, "say done")
    qtbot.waitUntil(lambda: bool(heard.endings(after)), timeout=PATIENCE_MS)
    endings = heard.endings(question)
    assert [type(each) for each in endings] == [Finished]
    assert isinstance(endings[0], Finished)
    assert endings[0].reason == "cancelled"


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("kill", "exit code 15" if os.name == "nt" else "killed, perhaps because memory ran out"),
        ("exit 3", "exit code 3"),
    ],
)
def test_a_dying_engine_fails_the_request_and_says_how(
    qtbot: QtBot, start_link: StartLink, fake_program: EngineProgram, question: str, words: str
) -> None:
    link, heard = start_link(fake_program)
    request, queued = ask(link, question), ask(link, "say nothing")
    qtbot.waitUntil(lambda: bool(heard.endings(queued)), timeout=PATIENCE_MS)
    assert heard.text(request) == "Once upon"
    assert [type(each) for each in heard.endings(request)] == [Failed]
    assert words in heard.stops[0].message
    assert heard.stops[0].hint == "", "it has printed nothing that could be looked into"
    first_failure = heard.endings(request)[0]
    assert heard.story.index(heard.stops[0]) < heard.story.index(first_failure), "the reason comes first"


def test_a_new_engine_serves_with_growing_ids(qtbot: QtBot, start_link: StartLink, fake_program: EngineProgram) -> None:
    link, heard = start_link(fake_program)
    first = ask(link, "kill")
    qtbot.waitUntil(lambda: bool(heard.stops), timeout=PATIENCE_MS)
    refused = ask(link, "say anybody there?")
    qtbot.waitUntil(lambda: bool(heard.endings(refused)), timeout=PATIENCE_MS)
    assert isinstance(heard.endings(refused)[0], Failed)
    link.restart()
    second = ask(link, "say back again")
    qtbot.waitUntil(lambda: heard.text(second) == "back again", timeout=PATIENCE_MS)
    assert first < refused < second
    assert heard.story.count("starting") == 2


def test_a_busy_engine_can_be_restarted(qtbot: QtBot, start_link: StartLink, fake_program: EngineProgram) -> None:
    link, heard = start_link(fake_program)
    request = ask(link, "deaf")
    qtbot.waitUntil(lambda: heard.text(request) != "", timeout=PATIENCE_MS)
    pid = link.engine_pid
    assert pid is not None
    link.restart()
    again = ask(link, "say hello")
    qtbot.waitUntil(lambda: heard.text(again) == "hello", timeout=PATIENCE_MS)
    assert gone(pid)
    assert heard.stops[0].message == "The engine was restarted."
    assert [type(each) for each in heard.endings(request)] == [Failed]


def test_an_engine_that_dies_before_it_calls_is_noticed(
    qtbot: QtBot,
    start_link: StartLink,
    fake_program: EngineProgram,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("COPPICE_FAKE_START", "mute")
    link, heard = start_link(fake_program)
    request = link.load(LoadOptions())
    qtbot.waitUntil(lambda: bool(heard.endings(request)), timeout=PATIENCE_MS)
    assert "exit code 7" in heard.stops[0].message
    assert "The engine has ended: exit code 7" in caplog.text
    monkeypatch.delenv("COPPICE_FAKE_START")
    link.restart()
    qtbot.waitUntil(heard.is_ready, timeout=PATIENCE_MS)


def test_what_a_dead_engine_has_printed_is_named(qtbot: QtBot, start_link: StartLink, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    _, heard = start_link(EngineProgram((sys.executable, "-S", "-c", "print('the last words')"), log))
    qtbot.waitUntil(lambda: bool(heard.stops), timeout=PATIENCE_MS)
    assert str(log) in heard.stops[0].hint


@pytest.mark.parametrize(("start", "words"), [("protocol", "different installations"), ("garbage", "cannot be read")])
def test_an_engine_of_another_kind_is_refused(
    qtbot: QtBot,
    start_link: StartLink,
    fake_program: EngineProgram,
    monkeypatch: pytest.MonkeyPatch,
    start: str,
    words: str,
) -> None:
    monkeypatch.setenv("COPPICE_FAKE_START", start)
    link, heard = start_link(fake_program)
    qtbot.waitUntil(lambda: bool(heard.stops), timeout=PATIENCE_MS)
    assert words in heard.stops[0].message
    assert not heard.is_ready()
    assert link.engine_pid is None


def test_a_missing_python_is_an_event(qtbot: QtBot, start_link: StartLink, tmp_path: Path) -> None:
    link, heard = start_link(EngineProgram((str(tmp_path / "no-python"),), tmp_path / "engine.log"))
    request = link.load(LoadOptions())
    qtbot.waitUntil(lambda: bool(heard.endings(request)), timeout=PATIENCE_MS)
    assert "could not be started" in heard.stops[0].message
    link.restart()
    qtbot.waitUntil(lambda: len(heard.stops) == 2, timeout=PATIENCE_MS)


@pytest.mark.parametrize("question", ["hang", "deaf"])
def test_closing_ends_a_busy_engine(
    qtbot: QtBot, start_link: StartLink, fake_program: EngineProgram, question: str
) -> None:
    link, heard = start_link(fake_program)
    request = ask(link, question)
    qtbot.waitUntil(lambda: heard.text(request) != "", timeout=PATIENCE_MS)
    pid = link.engine_pid
    assert pid is not None
    link.close()
    link.wait_closed()
    assert link.isFinished()
    assert gone(pid)
    assert not heard.stops, "an end that was asked for is no news"


def test_closing_while_the_engine_starts_leaves_none(
    qtbot: QtBot, start_link: StartLink, fake_program: EngineProgram
) -> None:
    link, heard = start_link(fake_program)
    qtbot.waitUntil(lambda: link.engine_pid is not None, timeout=PATIENCE_MS)
    pid = link.engine_pid
    assert pid is not None
    link.close()
    link.wait_closed()
    assert gone(pid)
    assert not heard.stops


def test_nothing_is_left_in_the_temporary_folder(
    qtbot: QtBot, start_link: StartLink, fake_program: EngineProgram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    _link, heard = start_link(fake_program)
    qtbot.waitUntil(heard.is_ready, timeout=PATIENCE_MS)
    assert set(tmp_path.iterdir()) == before


def test_the_key_and_the_address_stay_off_the_command_line(
    qtbot: QtBot, start_link: StartLink, fake_program: EngineProgram
) -> None:
    link, heard = start_link(fake_program)
    qtbot.waitUntil(heard.is_ready, timeout=PATIENCE_MS)
    assert psutil.Process(link.engine_pid).cmdline() == list(fake_program.arguments)


def test_the_engine_runs_in_the_python_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert engine_program(tmp_path).arguments == (sys.executable, "-m", "engine.process")
    monkeypatch.setenv("COPPICE_ENGINE_PYTHON", "/opt/python")
    assert engine_program(tmp_path).arguments[0] == "/opt/python"


def test_a_long_log_is_set_aside(qtbot: QtBot, start_link: StartLink, fake_program: EngineProgram) -> None:
    fake_program.log.write_bytes(b"x" * 1_000_001)
    _link, heard = start_link(fake_program)
    qtbot.waitUntil(heard.is_ready, timeout=PATIENCE_MS)
    assert fake_program.log.stat().st_size == 0
    assert fake_program.log.with_suffix(".old.log").stat().st_size == 1_000_001


OF_SIGNALS = [(-9, "memory"), (-11, "crashed (SIGSEGV)"), (-15, "from outside"), (-999, "signal 999")]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended by itself"),
        (2, "exit code 2"),
        (UNHEARD_EXIT, "could not read what the window told it"),
        (0xC0000005, "crashed (0xC0000005)"),
        *(OF_SIGNALS if os.name == "posix" else []),
    ],
)
def test_an_exit_code_becomes_a_sentence(code: int, words: str) -> None:
    assert words in describe_exit(code)


def test_a_load_and_a_question_have_different_ids(fake_program: EngineProgram) -> None:
    link = EngineLink(fake_program)
    ids = [link.load(LoadOptions()), ask(link, "a"), link.load(LoadOptions())]
    assert ids == sorted(set(ids))
    assert Load(ids[0], LoadOptions()) != Load(ids[2], LoadOptions())


@pytest.mark.skipif(os.name != "posix", reason="a socket with a path")
@pytest.mark.parametrize("runtime", ["XDG_RUNTIME_DIR", ""])
def test_an_engine_starts_though_the_temporary_folder_has_a_long_path(
    fake_program: EngineProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    if not runtime:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
    child = EngineChild(fake_program)
    folder = Path(child._folder)
    try:
        assert folder.parent == Path(os.environ.get(runtime, "/tmp"))
        assert folder.stat().st_mode & 0o777 == 0o700
        with child.connect() as connection:
            assert isinstance(connection.recv(), Ready)
    finally:
        child.kill()
        child.end()
    assert not folder.exists()
    assert list(deep.iterdir()) == []


def test_a_socket_that_cannot_be_made_leaves_no_folder(
    fake_program: EngineProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr("app.engine.process._LONGEST_PATH", 1000)
    monkeypatch.setattr("app.engine.process.Listener", Mock(side_effect=OSError("no")))
    with pytest.raises(OSError, match="no"):
        EngineChild(fake_program)
    assert list(temporary.iterdir()) == []
