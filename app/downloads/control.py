"""How other threads stop a download: at once while it waits, and before its next bytes while it works."""

import threading
from collections.abc import Callable
from enum import Enum


class Wish(Enum):
    """What somebody wants of a running download."""

    PAUSE = "pause"
    CANCEL = "cancel"


class Stopped(Exception):  # noqa: N818  # a request, not an error
    """Raised in the download's thread when it is to stop."""

    def __init__(self, wish: Wish) -> None:
        super().__init__(wish.value)
        self.wish = wish


class Control:
    """A stop that stays until it is cleared; a cancel is never weakened to a pause."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self._wish: Wish | None = None
        self._interrupt: Callable[[], None] | None = None
        self._lock = threading.Lock()

    @property
    def wish(self) -> Wish | None:
        """What was asked for and not yet cleared."""
        return self._wish

    def stop(self, wish: Wish) -> None:
        """Ask the download to stop; a connection that it waits for is hung up."""
        with self._lock:
            if self._wish is not Wish.CANCEL:
                self._wish = wish
            self._set.set()
            interrupt = self._interrupt
        if interrupt is not None:
            interrupt()

    def clear(self) -> None:
        """Let it run again."""
        with self._lock:
            self._wish = None
            self._set.clear()

    def on_stop(self, interrupt: Callable[[], None] | None) -> None:
        """What is to be interrupted by `stop`, from its thread; None for nothing."""
        with self._lock:
            self._interrupt = interrupt

    def check(self) -> None:
        """Raise `Stopped` if the download is to stop."""
        if self._set.is_set():
            assert self._wish is not None
            raise Stopped(self._wish)

    def wait(self, seconds: float) -> None:
        """Wait, but raise `Stopped` as soon as the download is to stop."""
        self._set.wait(seconds)
        self.check()
