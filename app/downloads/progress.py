"""What a download is doing, as a record that travels between threads."""

from dataclasses import dataclass, field
from enum import StrEnum


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
    """What somebody wants: a repository at a revision, into the hub cache, or into the folder `to` if that is given."""

    repo_id: str
    revision: str = "main"
    to: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """A download at one moment. Counts are bytes; `bytes_total` is 0 while it is not known.

    `bytes_done` counts what is safely on the disk, from earlier sessions too. `seconds_left` and `seconds_to_retry` are
    None when there is nothing to say. `message` and `hint` say why it failed, paused or waits; `error` is the failure
    itself, such as a `RefusalError` with its page. `path` is the model's folder once it is done.
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
