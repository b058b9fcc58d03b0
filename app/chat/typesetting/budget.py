"""How long something may go on working before the window has to be served again."""

import math
import time
from collections.abc import Callable

Clock = Callable[[], float]  # seconds, only ever forward


class Budget:
    """Runs from when it is made. Whoever works under it does one thing, asks, does the next, and so on."""

    def __init__(self, seconds: float = math.inf, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def is_spent(self) -> bool:
        """Whether the rest has to wait."""
        return self._clock() >= self._end
