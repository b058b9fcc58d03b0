"""The state of one download: written by its thread, read by every other."""

import threading
from collections.abc import Callable
from dataclasses import replace

from app.downloads.progress import Progress, Request, State
from app.downloads.speed import Speedometer
from app.hub.plan import Plan, RemoteFile
from engine.errors import CoppiceError


class Tracker:
    """Keeps a `Progress` up to date. Bytes are counted per file, so that a file begun anew is counted once."""

    def __init__(self, number: int, request: Request, clock: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._progress = Progress(number, request)
        self._clock = clock
        self._speed = Speedometer(clock)
        self._there: dict[str, int] = {}
        self._retry_at: float | None = None

    def snapshot(self) -> Progress:
        """What it is doing now."""
        with self._lock:
            progress = self._progress
            if not progress.state.is_running:
                return progress
            rate = self._speed.bytes_per_second
            missing = progress.bytes_total - progress.bytes_done
            return replace(
                progress,
                bytes_per_second=rate,
                seconds_left=missing / rate if rate > 1 and progress.bytes_total else None,
                seconds_to_retry=None if self._retry_at is None else max(0.0, self._retry_at - self._clock()),
            )

    def enter(self, state: State) -> None:
        """Be in another state, with nothing to complain about."""
        with self._lock:
            if state is not self._progress.state or self._progress.message:
                self._progress = replace(self._progress, state=state, message="", hint="", error=None)
            self._retry_at = None

    def begin(self) -> None:
        """A thread has taken it up, for the first time or again."""
        with self._lock:
            self._speed.reset()
        self.enter(State.CHECKING)

    def wait(self, state: State, words: str, seconds: float) -> None:
        """Stand still for a while, and say why."""
        with self._lock:
            self._progress = replace(self._progress, state=state, message=words)
            self._retry_at = self._clock() + seconds

    def stop(self, state: State, error: CoppiceError | None = None) -> None:
        """Nothing more happens, because of an error or because somebody asked for it."""
        message, hint = (error.message, error.hint) if error else ("", "")
        with self._lock:
            self._progress = replace(self._progress, state=state, message=message, hint=hint, error=error)
            self._retry_at = None

    def finish(self, path: str) -> None:
        """All is there."""
        with self._lock:
            self._progress = replace(self._progress, state=State.DONE, message="", hint="", error=None, path=path)
            self._retry_at = None

    def expect(self, plan: Plan) -> None:
        """The size of everything is known."""
        with self._lock:
            self._progress = replace(self._progress, bytes_total=plan.bytes)

    def found(self, file: RemoteFile, count: int) -> None:
        """So much of a file is on the disk, whoever brought it."""
        with self._lock:
            self._there[file.name] = count
            self._progress = replace(
                self._progress,
                file=file.name,
                file_bytes=count,
                file_total=file.bytes,
                bytes_done=sum(self._there.values()),
            )

    def arrived(self, file: RemoteFile, there: int, count: int) -> None:
        """`count` bytes more have come over the network, and now so many are there."""
        self.enter(State.DOWNLOADING)
        with self._lock:
            self._speed.add(count)
        self.found(file, there)
