"""Threads that do compiled shares together with the thread that asks, and stay awake while more may come.

Waking a thread takes 50 microseconds, on some virtual machines a thousand: as long as a layer's products of one row.
A pass of few rows asks for some hundred batches one shortly behind the other, while torch computes in one thread: in
such a pass helpers wait for the next batch in a loop, for a millisecond at most, and then sleep.
"""

import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from engine.model.products.layouts import Array

AWAKE_SECONDS = 1e-3  # that helpers wait for more in a pass of few rows: about what lies between two batches of it
BETWEEN_SECONDS = 1.0  # inside a program, which wakes nobody: longer than any step that one thread does alone
ASLEEP_SECONDS = 2e-5  # and elsewhere, where torch's own threads want the processors
MEASURED_LOOKS = 20_000


class Team:
    """Helpers are begun when they are first needed, and never ended."""

    def __init__(self) -> None:
        native = _native()
        self._state = native.np.zeros(native.STATE, native.np.int64)
        self._address = self._state.ctypes.data
        self._helpers: list[_Helper] = []
        self._is_free = threading.Lock()
        self._patience = 0.0  # seconds

    @property
    def is_awake(self) -> bool:
        """Whether all helpers that there are look for shares."""
        return all(helper.is_awake for helper in self._helpers)

    def run(self, table: Array, threads: int, more_follow: bool) -> None:
        """Do the shares of a table int64 [shares, `SHARE`] in this thread and up to `threads` - 1 others.

        Returns when nobody works on any. Where the team is at work for another thread, this one does all.
        """
        native = _native()
        place = table.__array_interface__["data"][0]
        if threads < 2 or not self._is_free.acquire(blocking=False):
            native.do_all(place, len(table))
            return
        try:
            self._call_helpers(threads, AWAKE_SECONDS if more_follow else ASLEEP_SECONDS)
            try:
                native.lead(self._address, place, len(table), _looks(ASLEEP_SECONDS))
            finally:
                self._settle()
        finally:
            self._is_free.release()

    def run_steps(self, programs: Sequence[tuple[int, int]], threads: int, more_follow: bool) -> None:
        """Do the steps of programs one behind the other, its shares as `run` does.

        A program: the address of int64 [count, `steps.STEP`], and the count. Helpers stay awake between shares, and
        behind the last one if `more_follow`.
        """
        go_on, looks = _native().go_on, _looks(ASLEEP_SECONDS)
        if threads < 2 or not self._is_free.acquire(blocking=False):
            for place, count in programs:
                go_on(self._address, place, 0, count, looks, True)
            return
        is_over = False
        try:
            self._call_helpers(threads, BETWEEN_SECONDS)
            for place, count in programs:
                step = go_on(self._address, place, 0, count, looks, False)
                while step:
                    self._settle()
                    step = go_on(self._address, place, step, count, looks, False)
            is_over = True
        finally:
            if not is_over:  # what interrupts comes when compiled code has ended
                self._settle()
            self._be_patient(AWAKE_SECONDS if more_follow else ASLEEP_SECONDS)
            self._is_free.release()

    def _call_helpers(self, threads: int, patience: float) -> None:
        native, state = _native(), self._state
        self._be_patient(patience)
        state[native.CALLS] += 1
        while len(self._helpers) < threads - 1:
            helper = _Helper(self._address)
            try:
                helper.start()
            except RuntimeError:  # the system gives no more
                break
            self._helpers.append(helper)
        for helper in self._helpers[: threads - 1]:
            helper.wake()

    def _be_patient(self, seconds: float) -> None:
        if self._patience != seconds:
            self._patience, self._state[_native().PATIENCE] = seconds, _looks(seconds)

    def _settle(self) -> None:
        """Return once no helper reads the table any more, even if it is interrupted."""
        native, interrupted = _native(), None
        while not native.is_over(self._address):
            try:
                time.sleep(0)
            except BaseException as error:  # noqa: BLE001  # Ctrl+C: raised when it does no harm
                interrupted = error
        if interrupted is not None:
            raise interrupted


class _Helper(threading.Thread):
    def __init__(self, state: int) -> None:
        super().__init__(name="products", daemon=True)  # asleep when the process ends
        self._state, self._awake = state, _native().np.zeros(1, _native().np.int64)
        self._asleep = threading.Lock()
        self._asleep.acquire()

    @property
    def is_awake(self) -> bool:
        """Whether it looks for shares."""
        return bool(self._awake[0])

    def wake(self) -> None:
        """Have it look for shares; nothing if it does."""
        if not self._awake[0] and self._asleep.locked():  # or it has been told already
            self._asleep.release()

    def run(self) -> None:
        """Sleep and help in turns."""
        native, awake = _native(), self._awake.ctypes.data
        while True:
            self._asleep.acquire()
            native.help_out(self._state, awake)


@lru_cache
def _looks(seconds: float) -> int:
    """How many looks take so long."""
    return max(1, int(seconds / _look_seconds()))


@lru_cache(maxsize=1)
def _look_seconds() -> float:
    native = _native()
    native.wait(1)
    found = []
    for _ in range(3):
        begin = time.perf_counter()
        native.wait(MEASURED_LOOKS)
        found.append((time.perf_counter() - begin) / MEASURED_LOOKS)
    return max(min(found), 1e-10)


@lru_cache(maxsize=1)
def _native() -> Any:
    """What is compiled; numba is imported with it."""
    from engine.model.products import native  # noqa: PLC0415

    return native


@lru_cache(maxsize=1)
def team() -> Team:
    """The one team of this process."""
    return Team()
