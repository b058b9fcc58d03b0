"""How long a device that computes on its own had nothing to do because weights were not there yet."""

from collections import deque

import torch

from engine import accelerator

SHORTEST_WAIT = 20e-6  # seconds of the host: less than two events cost


class IdleClock:
    """Of the stream that computes, by its own events: a host that waits for a layer may find it busy with earlier ones.

    The device was idle from the end of what it had been given until it was given more, and no longer than the host
    waited. Events lie on that one stream, where their distance is exact.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._seconds = 0.0
        self._end: accelerator.Event | None = None  # of the work that was launched so far
        self._waits: deque[tuple[accelerator.Event, accelerator.Event, float]] = deque()

    def launched(self) -> None:
        """A layer's work was launched; what comes next has to wait for weights."""
        self._end = accelerator.record_event(self._device, timed=True)

    def waited(self, seconds: float) -> None:
        """The host waited for weights, and launches a layer next."""
        if self._end is not None and seconds > SHORTEST_WAIT:
            self._waits.append((self._end, accelerator.record_event(self._device, timed=True), seconds))

    @property
    def seconds(self) -> float:
        """Of all waits that the device has passed by now: all of a pass, once its result was awaited."""
        while self._waits and self._waits[0][1].query():
            end, begin, most = self._waits.popleft()
            self._seconds += min(most, end.elapsed_time(begin) / 1e3)
        return self._seconds
