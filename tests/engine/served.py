"""An engine process within the test's own process: its threads, its connection, and errors to raise in them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from engine.process import EngineProcess
from engine.protocol.messages import Shutdown

PATIENCE_SECONDS = 60


class Cry(BaseException):
    """As a panic: no `Exception`."""


ERRORS = [RuntimeError("boom"), Cry("boom")]


class Served:
    """An engine process without a process: its two threads, and the application's end of the connection."""

    def __init__(self) -> None:
        theirs: Connection[Any, Any]
        self.ours, theirs = Pipe()
        self.left: list[int] = []
        self.gone = threading.Event()
        reading: Future[None] = Future()
        reading.set_result(None)
        self.process = EngineProcess(theirs, reading, self._leave)

    def _leave(self, code: int) -> None:
        self.left.append(code)
        self.gone.set()

    def begin(self) -> None:
        for target in (self.process._listen, self._answer_requests):
            threading.Thread(target=target, daemon=True).start()

    def _answer_requests(self) -> None:
        self.process._worker.run()

    def ask(self, command: Any) -> Any:
        self.ours.send(command)
        assert self.ours.poll(PATIENCE_SECONDS), f"no answer to {command}"
        return self.ours.recv()

    def close(self) -> None:
        self.ours.send(Shutdown())
        assert self.gone.wait(PATIENCE_SECONDS)


def raises(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail
