"""A request to stop, made in one thread and heeded in another."""

import threading

from engine.errors import Cancelled


class Stop:
    """Once made, it stands."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    @property
    def asked(self) -> bool:
        """Whether to stop."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Make the request; from any thread, at any time."""
        self._asked.set()

    def check(self) -> None:
        """Raise `Cancelled` if it was made."""
        if self._asked.is_set():
            raise Cancelled
