"""What becomes of servers that die, hang, send rubbish or too much, and ask for what they are not given."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import anyio
import psutil
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream

from engine.protocol.tool_servers import Broken, Listed, ProgramServer, Report
from engine.tool_servers import connection as connections
from engine.tool_servers import programs
from engine.tool_servers.connection import Connection
from tests.engine.tool_servers.asked import called, held, rough

Told = MemoryObjectReceiveStream[Report]


def broken(to: ProgramServer) -> Broken:
    """What a server that gives no connection is told of."""
    told = held(to)
    assert isinstance(told, Broken), told
    return told


def test_a_server_that_dies_at_once_is_told_with_its_last_words() -> None:
    told = broken(rough("dies", "no", "key"))
    assert told.reason == "The program ended with exit code 3."
    assert told.lines == ("cannot go on: no key",)
    assert told.may_pass


@pytest.mark.parametrize(
    ("server", "reason", "hint"),
    [
        (ProgramServer("no-such-one"), "There is no program 'no-such-one'.", "Install it, or give its full path."),
        (ProgramServer("/nowhere/at/all"), "There is no program '/nowhere/at/all'.", ""),
        (ProgramServer(sys.executable, folder="/nowhere"), "There is no folder '/nowhere'.", ""),
        (ProgramServer("/"), "'/' may not be run.", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_started_says_what_is_missing(server: ProgramServer, reason: str, hint: str) -> None:
    told = broken(server)
    assert (told.reason, told.hint, told.may_pass) == (reason, hint, False)


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECT_SECONDS", 0.2)
    told = broken(rough("deaf"))
    assert told.reason == "It has not answered within 0.2 seconds."
    assert told.hint


def test_a_message_without_an_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_MESSAGE_BYTES", 1 << 20)
    monkeypatch.setattr(programs, "SECONDS_TO_EXIT", 0.1)
    assert broken(rough("floods")).reason == "It sent a message of more than 1 MiB."


def test_lines_that_are_no_messages_are_passed_over() -> None:
    async def ask(connection: Connection, _: Told) -> None:
        assert (await called(connection)).parts == ("fine",)

    held(rough("greets"), ask)


@pytest.mark.parametrize("mode", ["strict", "modern"])
def test_servers_of_an_older_and_of_the_newest_protocol(mode: str) -> None:
    """The one ends at a message that is not the handshake's, the other does not know that."""

    async def ask(connection: Connection, _: Told) -> None:
        answered = await called(connection)
        assert mode == "modern" or answered.parts == ("fine",)

    assert isinstance(held(rough(mode), ask), Listed)


def test_a_server_that_knows_no_protocol_is_told_in_its_own_words() -> None:
    assert broken(rough("refuses")).reason == "The server refuses: What is that?"


def test_a_result_that_is_none_is_an_error() -> None:
    async def ask(connection: Connection, _: Told) -> None:
        answered = await called(connection)
        assert answered.is_error
        assert answered.parts == ("What the server sent is no result of a tool.",)

    held(rough("strange"), ask)


def test_a_call_that_gets_no_answer_ends_after_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connections, "CALL_SECONDS", 0.1)

    async def ask(connection: Connection, _: Told) -> None:
        answered = await called(connection)
        assert answered.is_error
        assert answered.parts[0].startswith("The tool has not answered within")

    held(rough("hangs", str(tmp_path / "pid")), ask)


def test_a_server_gets_no_answer_of_the_model_nor_of_the_person_and_no_folders() -> None:
    async def ask(connection: Connection, _: Told) -> None:
        codes = json.loads((await called(connection)).parts[0])
        assert codes == [-32600, -32600, -32600]

    held(rough("asks"), ask)


def test_of_very_many_tools_and_very_large_ones_some_are_told() -> None:
    told = held(rough("many"))
    assert isinstance(told, Listed)
    assert [each.name for each in told.tools] == [f"tool{number}" for number in range(128)]
    assert told.left_out == 1 + 1 + 22, "one too large, one of a name that was there, and those beyond 128"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_connection_that_ended_is_told_and_calls_of_it_are_over(tmp_path: Path) -> None:
    file = tmp_path / "pid"

    async def ask(connection: Connection, told: Told) -> None:
        async def kill() -> None:
            await anyio.sleep(0.05)
            os.kill(int(file.read_text()), signal.SIGKILL)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            answered = await called(connection)
        assert answered.parts == ("The connection to the server ended during the call.",)
        assert isinstance(broken := await told.receive(), Broken)
        assert broken.reason == "The program ended with exit code -9."
        assert (await called(connection)).parts == ("The server is not connected.",)

    held(rough("hangs", str(file)), ask)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_server_that_does_not_end_is_killed_with_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "SECONDS_TO_EXIT", 0.1)
    assert isinstance(held(rough("stays", str(tmp_path / "pids"))), Listed)
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        assert is_gone(pid)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, at least in a moment: an orphan waits for somebody to ask for its code."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False
