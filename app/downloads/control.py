"""How other threads stop a download: at once while it waits or reads, and before its next bytes while it works."""

from enum import Enum

from app.system.background import Stop
from engine.errors import Cancelled


class StopKind(Enum):
    """What somebody wants of a running download."""

    PAUSE = "pause"
    CANCEL = "cancel"


class Stopped(Cancelled):
    """Raised in the download's thread when it is to stop."""

    def __init__(self, kind: StopKind) -> None:
        super().__init__(kind.value)
        self.kind = kind


class Control(Stop):
    """A stop that says whether to keep what has arrived, and that can be cleared; a cancel is never weakened."""

    def __init__(self) -> None:
        super().__init__()
        self.kind: StopKind | None = None  # what was asked for and not yet cleared

    def stop(self, kind: StopKind) -> None:
        """Ask the download to stop; a connection that it waits for is hung up."""
        with self._lock:
            if self.kind is not StopKind.CANCEL:
                self.kind = kind
        self.ask()

    def clear(self) -> None:
        """Let it run again."""
        with self._lock:
            self.kind = None
            self._asked.clear()

    def check(self) -> None:
        """Raise `Stopped` if the download is to stop."""
        if self.asked:
            assert self.kind is not None
            raise Stopped(self.kind)
