"""Threads that take shares of a computation together with the thread that asks for it.

A pass over few rows asks some hundred times, each time for less than a millisecond. An executor's futures and queue
took a fifth of that; here a share costs one call, and waking a thread one lock. Nobody spins: who has no share sleeps.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

Share = Callable[[], object]
"""Part of a computation; it lets other threads run for most of its time."""


class Crew:
    """Threads that sleep until there are shares; begun when they are first needed, and never ended."""

    def __init__(self) -> None:
        self._helpers: list[Helper] = []
        self._is_free = threading.Lock()

    def run(self, shares: Iterable[Share], threads: int) -> None:
        """Do all shares, in this thread and up to `threads` - 1 others; returns, or raises, when nobody works on.

        Each thread takes the next share when it has done one. Where the crew is at work for another thread, or the
        system gives no more threads, this one does all of them.
        """
        left = iter(shares)  # one iterator for all: the interpreter hands each share out once
        if threads < 2 or not self._is_free.acquire(blocking=False):
            _do(left)
            return
        woken: list[Helper] = []
        try:
            try:
                for helper in islice(self._called(), threads - 1):
                    woken.append(helper)  # before it begins: Ctrl+C may come in between
                    helper.begin(left)
                _do(left)
            finally:
                errors = [helper.end() for helper in woken]
        finally:
            for helper in woken:  # once more: Ctrl+C may have come while they were waited for
                helper.end()
            self._is_free.release()
        _raise_first(errors)

    def _called(self) -> Iterator["Helper"]:
        """The crew's threads, then new ones."""
        yield from list(self._helpers)
        while True:
            helper = Helper()
            try:
                helper.start()
            except RuntimeError:  # the system gives no more
                return
            self._helpers.append(helper)
            yield helper


class Helper(threading.Thread):
    """A thread of a crew. One lock wakes it, and it holds another while it works; it holds no share while it sleeps."""

    def __init__(self) -> None:
        super().__init__(name="product", daemon=True)  # asleep when the process ends
        self._wake, self._works = threading.Lock(), threading.Lock()
        self._wake.acquire()
        self._shares: Iterator[Share] = iter(())
        self._error: BaseException | None = None

    def begin(self, shares: Iterator[Share]) -> None:
        """Wake it to take of these."""
        self._shares = shares
        if self._wake.locked():  # or it has yet to wake from an earlier run
            self._wake.release()

    def end(self) -> BaseException | None:
        """Wait until it takes no more, and take over what was raised in it; may be repeated, and without `begin`.

        If it has not woken by now, it goes on sleeping.
        """
        self._wake.acquire(blocking=False)
        self._shares = iter(())  # what it finds if it has woken and not looked yet
        with self._works:
            error, self._error = self._error, None
        return error

    def run(self) -> None:
        """Sleep and work in turns."""
        while True:
            self._wake.acquire()
            with self._works:
                try:
                    _do(self._shares)
                except BaseException as error:  # noqa: BLE001  # raised where the work was asked for
                    self._error = error


def _do(shares: Iterator[Share]) -> None:
    for share in shares:
        share()


def _raise_first(errors: list[BaseException | None]) -> None:
    """Raise the first error, and drop the list: an error holds this frame, and frames hold the shares' tensors."""
    error = next(filter(None, errors), None)
    errors.clear()
    if error is not None:
        try:
            raise error
        finally:
            del error


CREW = Crew()
