"""An engine process as the application sees it: a real child and a real socket."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import psutil

from engine.protocol.messages import PROTOCOL, ChatMessage, Failed, Finished, Generate, Load, Ready, Round
from engine.protocol.options import GenerateOptions, LoadOptions

STORY = (ChatMessage("user", "Tell me a story about a dragon."),)
ENDLESS = GenerateOptions(max_new_tokens=1900, ignore_eos=True)
PATIENCE_SECONDS = 120


class Child:
    """An engine process and its connection."""

    def __init__(self, folder: Path, **variables: str) -> None:
        key = os.urandom(32)
        place = None if os.name == "nt" else str(folder / "engine")  # Windows names its pipes by itself
        with Listener(place, authkey=key) as listener:
            address = str(listener.address)
            environment = {**os.environ, "COPPICE_ENGINE_ADDRESS": address, "COPPICE_ENGINE_KEY": key.hex()}
            environment |= variables
            self.process = subprocess.Popen([sys.executable, "-m", "engine.process"], env=environment)
            self.connection: Connection[Any, Any] = listener.accept()

    def receive(self) -> Any:
        assert self.connection.poll(PATIENCE_SECONDS), "the engine says nothing"
        return self.connection.recv()

    def until_the_end(self, request: int) -> list[Any]:
        events = [self.receive()]
        while not (isinstance(events[-1], Finished | Failed) and events[-1].id == request):
            events.append(self.receive())
        return events

    def load(self, request: int, **options: Any) -> list[Any]:
        self.connection.send(Load(request, LoadOptions(**options)))
        return self.until_the_end(request)

    def start_endless(self, request: int) -> None:
        """Ask for a long answer and wait until it is being written."""
        self.connection.send(Generate(request, STORY, ENDLESS))
        while not isinstance(self.receive(), Round):
            pass

    def close(self) -> None:
        self.connection.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@contextmanager
def started(folder: Path) -> Iterator[Child]:
    """A process that has introduced itself."""
    child = Child(folder)
    try:
        assert child.receive() == Ready(PROTOCOL, child.process.pid)
        yield child
    finally:
        child.close()


def is_running(process: int) -> bool:
    """Whether there is such a process, and not only its end that nobody has asked for yet."""
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
