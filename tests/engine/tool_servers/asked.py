"""The program, started as the window starts it, and a connection without it."""

import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from engine.protocol.tool_servers import (
    Answered,
    Listed,
    Order,
    ProgramServer,
    Report,
    WebServer,
    from_line,
    to_line,
)
from engine.tool_servers.connection import Connection

FOLDER = Path(__file__).parent
PATIENCE_SECONDS = 60
Kind = TypeVar("Kind", bound=Report)


def rough(*words: str) -> ProgramServer:
    """The server in `rough_server.py`, with these words."""
    return ProgramServer(sys.executable, ("-S", str(FOLDER / "rough_server.py"), *words))


STUB = ProgramServer(sys.executable, (str(FOLDER / "stub_server.py"),))


class Program:
    """`python -m engine.tool_servers`, in a process of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.heard: list[Report] = []

    def say(self, order: Order) -> None:
        """Give an order."""
        assert self.process.stdin
        self.process.stdin.write(to_line(order))
        self.process.stdin.flush()

    def hear(self, kind: type[Kind]) -> Kind:
        """The next report of a kind; those before it are in `heard`."""
        assert self.process.stdout
        while True:
            report = from_line(self.process.stdout.readline())
            if isinstance(report, kind):
                return report
            assert not isinstance(report, Order)
            self.heard.append(report)


@contextmanager
def program() -> Iterator[Program]:
    """It ends by itself when its input does."""
    words = [sys.executable, "-m", "engine.tool_servers"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        watch = threading.Timer(5 * PATIENCE_SECONDS, process.kill)  # what is waited for in vain then fails
        watch.start()
        try:
            yield Program(process)
            assert process.stdin
            process.stdin.close()
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            watch.cancel()
            process.kill()


def held(
    to: ProgramServer | WebServer,
    then: Callable[[Connection, MemoryObjectReceiveStream[Report]], Awaitable[None]] | None = None,
) -> Report:
    """What is first told of a connection, which is ended once `then` has asked what it wants of it."""

    async def run() -> Report:
        sent, told = anyio.create_memory_object_stream[Report](100)
        connection = Connection("it", to, sent.send)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            with anyio.fail_after(PATIENCE_SECONDS):
                first = await told.receive()
                if then is not None:
                    assert isinstance(first, Listed), first
                    await then(connection, told)
            connection.end()
        sent.close()
        told.close()
        return first

    return anyio.run(run)


async def called(connection: Connection, tool: str = "tool0", **arguments: object) -> Answered:
    """What a call comes to."""

    async def ignore(*_: object) -> None:
        pass

    return Answered(0, *await connection.call(tool, arguments, ignore))
