"""What the making of a runtime is doing, as a record that travels between threads, and how it can fail."""

from dataclasses import dataclass, field
from enum import StrEnum

from app.downloads.progress import Progress, Request
from engine.errors import CoppiceError
from engine.protocol.sentences import say


class Stage(StrEnum):
    """Where it is. The values are also what `coppice runtime --json` prints."""

    IDLE = "idle"
    CHECKING = "checking"
    DOWNLOADING = "downloading"
    INSTALLING = "installing"
    VERIFYING = "verifying"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_running(self) -> bool:
        """Whether a thread is at work."""
        return self in (Stage.CHECKING, Stage.DOWNLOADING, Stage.INSTALLING, Stage.VERIFYING)


_SHARES = {
    Stage.CHECKING: (0.0, 0.02),
    Stage.DOWNLOADING: (0.02, 0.7),
    Stage.INSTALLING: (0.7, 0.93),
    Stage.VERIFYING: (0.93, 0.99),
}
_LOCAL_SHARES = {Stage.CHECKING: (0.0, 0.05), Stage.INSTALLING: (0.05, 0.75), Stage.VERIFYING: (0.75, 0.99)}
"""Which part of the whole bar a stage has; where wheels come from a folder, there is nothing to download."""


@dataclass(frozen=True, slots=True)
class InstallProgress:
    """The making of a runtime at one moment. `part` is how much of the stage is done, from 0 to 1.

    `fetched` counts bytes while wheels arrive, and after a pause or a failure those that are kept. `message` and `hint`
    say why it failed or paused by itself; `error` is that failure itself.
    """

    stage: Stage = Stage.IDLE
    is_local: bool = False
    part: float = 0.0
    fetched: Progress = field(default_factory=lambda: Progress(0, Request("")))
    message: str = ""
    hint: str = ""
    error: Exception | None = field(default=None, compare=False)

    @property
    def fraction(self) -> float:
        """How much of everything is done, from 0 to 1."""
        if self.stage is Stage.DONE:
            return 1.0
        stage, part = self.stage, self.part
        if stage in (Stage.PAUSED, Stage.FAILED) and self.fetched.bytes_total:
            stage, part = Stage.DOWNLOADING, self.fetched.fraction
        first, last = (_LOCAL_SHARES if self.is_local else _SHARES).get(stage, (0.0, 0.0))
        return first + (last - first) * min(1.0, part)


class MissingWheelsError(CoppiceError):
    """A folder or an index lacks what the lock names."""


class DamagedWheelError(CoppiceError):
    """A file is not the one that the lock names."""


class UncheckableError(CoppiceError):
    """A wheel's checksum is not known, so that any file could take its place."""


class UnpackError(CoppiceError):
    """The wheels could not be unpacked into the runtime."""


class UnfitError(CoppiceError):
    """The runtime is complete, and yet it does not work here."""


_MOST_NAMES = 3


def names_text(names: list[str]) -> str:
    """Some names, and how many more there are: `a, b, c and 4 more`."""
    shown, more = ", ".join(names[:_MOST_NAMES]), len(names) - _MOST_NAMES
    return say("{names} and {count} more", names=shown, count=more) if more > 0 else shown
