"""How fast bytes arrive, smoothed so that a person can read it."""

import math
import time
from collections.abc import Callable

_SETTLING_SECONDS = 5.0  # what arrived longer ago than this counts for less than a third
_SHORTEST_SECONDS = 0.2


class Speedometer:
    """An exponentially weighted rate; it falls when nothing arrives, also without being told."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Begin again, after a pause for example."""
        self._since = self._clock()
        self._bytes = 0
        self._rate: float | None = None

    def add(self, count: int) -> None:
        """So many bytes have just arrived."""
        self._bytes += count
        if self._clock() - self._since >= _SHORTEST_SECONDS:
            self._rate = self.bytes_per_second
            self._since, self._bytes = self._clock(), 0

    @property
    def bytes_per_second(self) -> float:
        """The rate now; 0 before anything is known."""
        seconds = self._clock() - self._since
        if seconds < _SHORTEST_SECONDS:
            return self._rate or 0.0
        latest = self._bytes / seconds
        if self._rate is None:
            return latest
        weight = math.exp(-seconds / _SETTLING_SECONDS)
        return weight * self._rate + (1 - weight) * latest
