"""A request to stop, made in one thread and heeded in another."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.errors import Cancelled


class Stop:
    """Once made, it stands. What blocks meanwhile, such as a connection that is being read, can be interrupted."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._interrupts: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        """Whether to stop."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Make the request; from any thread, at any time."""
        with self._lock:  # held, so that nothing is interrupted whose block has ended
            self._asked.set()
            for interrupt in self._interrupts:
                interrupt()

    def check(self) -> None:
        """Raise `Cancelled` if it was made."""
        if self._asked.is_set():
            raise Cancelled

    def wait(self, seconds: float) -> None:
        """Wait, but raise `Cancelled` as soon as the request is made."""
        self._asked.wait(seconds)
        self.check()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While the block runs, the thread that asks calls `interrupt`. Raises `Cancelled` if one has asked before."""
        with self._lock:
            self._interrupts.append(interrupt)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)
