"""What a download is doing: a record that travels between threads, and the tracker that keeps it up to date."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from engine.errors import CoppiceError
from engine.protocol.variants import join_source, split_source

if TYPE_CHECKING:
    from app.hub.files import Plan, RemoteFile


class State(StrEnum):
    """Where a download is. The values are also what `coppice download --json` prints."""

    QUEUED = "queued"
    CHECKING = "checking"
    DOWNLOADING = "downloading"
    STALLED = "stalled"
    WAITING = "waiting to retry"
    VERIFYING = "verifying"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_running(self) -> bool:
        """Whether a thread is at work on it."""
        return self in (State.CHECKING, State.DOWNLOADING, State.STALLED, State.WAITING, State.VERIFYING)

    @property
    def is_over(self) -> bool:
        """Whether nothing will happen any more unless somebody asks for it."""
        return self in (State.DONE, State.FAILED, State.CANCELLED)


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody wants: a repository at a revision, into the hub cache, or into the folder `to` if that is given.

    With a `variant`, no more of it than the GGUF files that hold this variant.
    """

    repo_id: str
    revision: str = "main"
    to: str = ""
    variant: str = ""

    @classmethod
    def of(cls, source: str, revision: str = "main", to: str = "") -> Self:
        """The request for what is called that: `org/name`, or `org/name:Q4_K_M`."""
        repo, variant = split_source(source)
        return cls(repo, revision, to, variant)

    @property
    def source(self) -> str:
        """What it is called, and what the engine loads once it is here."""
        return join_source(self.repo_id, self.variant)


@dataclass(frozen=True, slots=True)
class Progress:
    """A download at one moment. Counts are bytes; `bytes_total` is 0 while it is not known.

    `bytes_done` counts what is safely on the disk, from earlier sessions too. `seconds_left` and `seconds_to_retry` are
    None when there is nothing to say. `message` and `hint` say why it failed, paused or waits; `error` is the failure
    itself, such as a `HubError` with its page. `path` is the model's folder once it is done.
    """

    id: int
    request: Request
    state: State = State.QUEUED
    file: str = ""
    file_bytes: int = 0
    file_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    bytes_per_second: float = 0.0
    seconds_left: float | None = None
    seconds_to_retry: float | None = None
    message: str = ""
    hint: str = ""
    path: str = ""
    error: Exception | None = field(default=None, compare=False)

    @property
    def fraction(self) -> float:
        """How much of it is there, from 0 to 1."""
        return min(1.0, self.bytes_done / self.bytes_total) if self.bytes_total else float(self.state is State.DONE)


_SETTLING_SECONDS = 5.0  # what arrived longer ago than this counts for less than a third
_SHORTEST_SECONDS = 0.2


class Speedometer:
    """An exponentially weighted rate; it falls when nothing arrives, also without being told."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Begin again, after a pause for example."""
        self._since = self._clock()
        self._bytes = 0
        self._rate: float | None = None

    def add(self, count: int) -> None:
        """So many bytes have just arrived."""
        self._bytes += count
        if self._clock() - self._since >= _SHORTEST_SECONDS:
            self._rate = self.bytes_per_second
            self._since, self._bytes = self._clock(), 0

    @property
    def bytes_per_second(self) -> float:
        """The rate now; 0 before anything is known."""
        seconds = self._clock() - self._since
        if seconds < _SHORTEST_SECONDS:
            return self._rate or 0.0
        latest = self._bytes / seconds
        if self._rate is None:
            return latest
        weight = math.exp(-seconds / _SETTLING_SECONDS)
        return weight * self._rate + (1 - weight) * latest


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

    def stop(self, state: State, error: CoppiceError | None = None, path: str = "") -> None:
        """Nothing more happens, because of an error, because somebody asked for it, or as all is there, in `path`."""
        message, hint = (error.message, error.hint) if error else ("", "")
        with self._lock:
            self._progress = replace(self._progress, state=state, message=message, hint=hint, error=error, path=path)
            self._retry_at = None

    def expect(self, plan: "Plan") -> None:
        """The size of everything is known; files that are not in the plan no longer count."""
        names = {file.name for file in plan.files}
        with self._lock:
            self._there = {name: count for name, count in self._there.items() if name in names}
            self._progress = replace(self._progress, bytes_total=plan.bytes)

    def discarded(self, plan: "Plan") -> None:
        """What was partial is gone; files that were complete are there."""
        whole = {file.name for file in plan.files if self._there.get(file.name) == file.bytes}
        with self._lock:
            self._there = {name: count for name, count in self._there.items() if name in whole}
            self._progress = replace(self._progress, file_bytes=0, bytes_done=sum(self._there.values()))

    def found(self, file: "RemoteFile", count: int) -> None:
        """So much of a file is on the disk, from this session or an earlier one."""
        with self._lock:
            self._there[file.name] = count
            self._progress = replace(
                self._progress,
                file=file.name,
                file_bytes=count,
                file_total=file.bytes,
                bytes_done=sum(self._there.values()),
            )

    def arrived(self, file: "RemoteFile", there: int, count: int) -> None:
        """`count` bytes more have come over the network, and now so many are there."""
        self.enter(State.DOWNLOADING)
        with self._lock:
            self._speed.add(count)
        self.found(file, there)
