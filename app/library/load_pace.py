"""How long a load still takes, from how long its layers have taken so far."""

import time
from collections.abc import Callable

_SECONDS_TO_SETTLE = 2.0


class LoadPace:
    """Every stage of a load has a pace of its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage = ""
        self._since = 0.0
        self._first = 0

    def seconds_left(self, stage: str, done: int, total: int) -> float | None:
        """The rest of this stage, when `done` of `total` steps are behind us; None while that cannot be told."""
        if stage != self._stage or done < self._first:
            self._stage, self._since, self._first = stage, self._clock(), done
        seconds, steps = self._clock() - self._since, done - self._first
        if not steps or seconds < _SECONDS_TO_SETTLE:
            return None
        return seconds / steps * (total - done)
