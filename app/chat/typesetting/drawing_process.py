"""The process that draws formulas and colours code: started when it is asked, ended when it misses its deadline."""

import subprocess
import threading
from queue import Empty, SimpleQueue
from typing import Any

from app.system import json_text as json
from app.system import own_program
from app.system.background import report, start
from app.system.bundle import DRAW

DEADLINE_VARIABLE = "COPPICE_DRAWING_SECONDS"
READY = "ready"
"""What the process says first."""

SECONDS = 2.0  # for one formula or one piece of code; most take milliseconds
_SECONDS_TO_START = 60.0
_LONGEST_ANSWER = 4 << 20  # bytes
_MOST_FAILED_STARTS = 3


class DrawingProcess:
    """Asked from one thread; `close` may come from any, and ends what is being drawn."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._is_closed = False
        self._running: _Running | None = None
        self._failed_starts = 0

    @property
    def pid(self) -> int | None:
        """The process id, if one runs."""
        return self._running.process.pid if self._running else None

    def ask(self, request: dict[str, object]) -> Any:
        """The answer; None if there is none, or none in time: then another process takes the next request."""
        running = self._ready()
        if running is None:
            return None
        answer = running.ask(request, self._seconds)
        if answer is _NOTHING:
            self.end()
            return None
        return answer

    def end(self) -> None:
        """End the process that runs; a later request starts another."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.end()

    def close(self) -> None:
        """Draw nothing more."""
        with self._lock:
            self._is_closed = True
            if self._running is not None:
                self._running.process.kill()  # the thread that asks sees it end

    def _ready(self) -> "_Running | None":
        """The process that runs, or a new one that has loaded what it needs; None where none can be had."""
        if self._running is not None:
            return self._running
        with self._lock:
            if self._is_closed or self._failed_starts >= _MOST_FAILED_STARTS:
                return None
            self._running = running = _Running(self._seconds)
        if running.answer(_SECONDS_TO_START) == READY:
            self._failed_starts = 0
            return running
        self.end()
        if not self._is_closed:
            self._failed_starts += 1
            if self._failed_starts == _MOST_FAILED_STARTS:
                report(RuntimeError("The process that draws formulas does not start; they are shown as written."))
        return None


_NOTHING: Any = object()


class _Running:
    """One process and what it answers. A thread of its own reads, so that waiting for an answer can have an end."""

    def __init__(self, seconds: float) -> None:
        self._answers: SimpleQueue[bytes] = SimpleQueue()
        self.process = subprocess.Popen(
            _command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(seconds),
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self._reader = start("drawing answers", self._read, lambda _error: self._answers.put(b""))

    def ask(self, request: dict[str, object], seconds: float) -> Any:
        """The answer to a request, or `_NOTHING`."""
        assert self.process.stdin is not None, "it is a pipe"
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            return _NOTHING
        return self.answer(seconds)

    def answer(self, seconds: float) -> Any:
        """The next answer, or `_NOTHING` if the process ends before, or the time does."""
        try:
            line = self._answers.get(timeout=seconds)
            return json.loads(line) if line.endswith(b"\n") else _NOTHING
        except (Empty, ValueError):
            return _NOTHING

    def end(self) -> None:
        """Kill it, and leave nothing of it."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # the request that it did not read
                pass

    def _read(self) -> None:
        """Pass on the lines; the last one, which is empty or has no end, says that there are no more."""
        assert self.process.stdout is not None, "it is a pipe"
        line = b"\n"
        while line.endswith(b"\n"):
            try:
                line = self.process.stdout.readline(_LONGEST_ANSWER)
            except (OSError, ValueError):
                line = b""
            self._answers.put(line)


def _command() -> list[str]:
    return own_program.command(DRAW, "app.chat.typesetting.drawing_program")


def _environment(seconds: float) -> dict[str, str]:
    """It ends by itself when nobody is there to end it."""
    return own_program.environment() | {DEADLINE_VARIABLE: str(seconds + 1.0)}
