"""A device that computes on its own, played by the host: what a GPU's copies must get right fails here too.

Copies are adversaries: they arrive at the last moment that is allowed, which is when the computation waits for
something, and until then the memory they go to is poison. See `slot_watch` for what else is checked.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from engine.weights.streaming.copy_stream import Arrival
from tests.engine.weights.slot_watch import POISON, SlotWatch, overlap, poison, span_of, watched_slots

LATE = 0.6  # of the copies; the others arrive at once, which is allowed too
PATIENCE_SECONDS = 0.02  # for a computation that does something else instead of waiting


class Computation:
    """The thread that computes: whether it waits for another one, as seen by the copies that it may wait for."""

    def __init__(self, watch: SlotWatch) -> None:
        self.watch = watch
        self._thread = threading.get_ident()
        self._waits = 0
        self._changed = threading.Condition()

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """Notice all its waiting: for conditions, which futures and events are made of, and for the end of threads."""
        wait, join = threading.Condition.wait, threading.Thread.join

        def noticed_wait(condition: threading.Condition, timeout: float | None = None) -> bool:
            with self._waiting():
                return wait(condition, timeout)

        def noticed_join(thread: threading.Thread, timeout: float | None = None) -> None:
            with self._waiting():
                join(thread, timeout)

        waits = patch.object(threading.Condition, "wait", noticed_wait)
        with waits, patch.object(threading.Thread, "join", noticed_join):
            yield

    def until_it_waits(self) -> None:
        """Return once the computation cannot go on; at once on its own thread."""
        if threading.get_ident() != self._thread:
            with self._changed:
                self._changed.wait_for(lambda: self._waits > 0, PATIENCE_SECONDS)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        if threading.get_ident() != self._thread:
            yield
            return
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def _add(self, count: int) -> None:
        with self._changed:
            self._waits += count
            self._changed.notify_all()


_computations: list[Computation] = []  # the one that the adversary plays against, if any


def computation() -> Computation | None:
    """The one that the adversary plays against now."""
    return _computations[-1] if _computations else None


@contextmanager
def adversary(operations: bool) -> Iterator[Computation]:
    """Play against the computation on this thread: slots are watched, copies arrive late; see `watched_slots`."""
    with watched_slots(operations) as watch:
        against = Computation(watch)
        _computations.append(against)
        try:
            with against.noticed():
                yield against
        finally:
            _computations.pop()


class LateArrival:
    """A copy that was started, and with it all those before it; no byte of it is there until somebody waits."""

    def __init__(self, copies: "StandInCopyStream", number: int, is_late: bool) -> None:
        self._copies, self._number, self._is_late = copies, number, is_late

    def synchronize(self) -> None:
        """Return when the bytes are there: where it is late, not before the computation waits for something."""
        against = computation()
        if against and self._is_late:
            against.until_it_waits()
        self._copies.finish(self._number)


class StandInCopyStream:
    """Copies late, over poison; nobody may copy into a slot that the computation has not passed."""

    device = torch.device("cpu")

    def __init__(self, seed: int = 0, fails_from: int | None = None) -> None:
        """`fails_from`: the number of the first copy that fails, from 1; those behind it do so until it is None."""
        self.copies = 0
        self.peak_bytes = 0
        self._chance = random.Random(seed)
        self.fails_from = fails_from
        self._memory: list[Tensor] = []
        self._queue: list[tuple[int, Tensor, Tensor]] = []
        self._lock = threading.Lock()

    def another(self) -> "StandInCopyStream":
        """The same one: it counts for both."""
        return self

    def allocate(self, nbytes: int) -> Tensor:
        """See `CopyStream.allocate`; whoever reads too early reads NaN."""
        self.peak_bytes += nbytes
        memory = torch.full((nbytes,), POISON, dtype=torch.uint8)
        self._memory.append(memory)
        return memory

    def record_event(self) -> Any:
        """See `CopyStream.record_event`: how far the computation is."""
        against = computation()
        return against.watch.clock if against else 0

    def copy(self, source: Tensor, target: Tensor, after: Any) -> None:
        """See `CopyStream.copy`."""
        self.start(source, target, after).synchronize()

    def start(self, source: Tensor, target: Tensor, after: Any) -> Arrival:
        """Begin a copy; its target is poison until it arrives."""
        assert self._is_own(target), "copied to memory that is not the device's"
        assert not self._is_own(source), "copied from the device"
        if against := computation():
            assert after is None or after <= against.watch.clock, "an event that was never recorded"
            against.watch.require_passed(target, after)
        with self._lock:
            self.copies += 1
            if self.fails_from is not None and self.copies >= self.fails_from:
                raise RuntimeError("the copy engine failed")
            poison(target)
            self._queue.append((self.copies, source, target))
            return LateArrival(self, self.copies, self._chance.random() < LATE)

    def finish(self, number: int) -> None:
        """Do the copies up to this one that are not done yet."""
        with self._lock:
            while self._queue and self._queue[0][0] <= number:
                _, source, target = self._queue.pop(0)
                target.copy_(source)

    def _is_own(self, memory: Tensor) -> bool:
        return any(overlap(span_of(memory), span_of(each)) for each in self._memory)
