"""How long computation takes on the device that does it: launching work says nothing about that."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from engine import accelerator


class Clock(Protocol):
    """Marks places in a device's work."""

    def mark(self) -> Any:
        """Behind all work that was launched until now."""

    def seconds(self, begin: Any, end: Any) -> float | None:
        """What the device took from one mark to a later one; None as long as it has not come there."""


class HostClock:
    """Of a processor, which has done its work when a call returns."""

    def mark(self) -> float:
        """See `Clock.mark`."""
        return time.perf_counter()

    def seconds(self, begin: float, end: float) -> float:
        """See `Clock.seconds`."""
        return end - begin


class DeviceClock:
    """Of an accelerator: events, which it passes in its own time. Nobody waits for them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> accelerator.Event:
        """See `Clock.mark`."""
        return accelerator.record_event(self._device, timed=True)

    def seconds(self, begin: accelerator.Event, end: accelerator.Event) -> float | None:
        """See `Clock.seconds`."""
        return begin.elapsed_time(end) / 1000 if end.query() else None


def clock_for(device: torch.device) -> Clock:
    """The clock of the work that is launched for a device."""
    return DeviceClock(device) if accelerator.is_accelerator(device) else HostClock()


class PendingTimes:
    """Stretches of work that are told once the device has done them, in their order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: deque[tuple[Sequence[tuple[Any, Any]], Callable[[float], None]]] = deque()

    def add(self, stretches: Sequence[tuple[Any, Any]], tell: Callable[[float], None]) -> None:
        """`tell` what all stretches, from mark to mark, took together: now, or when a later one is added."""
        self._pending.append((stretches, tell))
        while self._pending:
            first, tell_first = self._pending[0]
            total = 0.0
            for begin, end in reversed(first):  # the last one ends last: before, it is no use to ask for the others
                seconds = self._clock.seconds(begin, end)
                if seconds is None:
                    return
                total += seconds
            self._pending.popleft()
            tell_first(total)
