"""How long to wait before the next attempt, and how many attempts are enough."""

import random
from collections.abc import Callable
from dataclasses import dataclass

LONGEST_WISH_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with jitter, counted in attempts that brought nothing.

    The wait doubles from `first_seconds` to `longest_seconds`, of which a random half is taken away, so that many who
    were cut off together do not come back together. A longer wait that the server asks for is granted.
    """

    first_seconds: float = 1.0
    longest_seconds: float = 60.0
    attempts: int = 8
    random: Callable[[], float] = random.random

    def gives_up(self, failures: int) -> bool:
        """Whether so many failures in a row, without a byte between them, are enough."""
        return failures >= self.attempts

    def seconds(self, failures: int, retry_after: float = 0.0) -> float:
        """The wait after the `failures`-th failure in a row, from 1."""
        longest = min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures - 1, 30))
        return max(longest * (0.5 + 0.5 * self.random()), min(retry_after, LONGEST_WISH_SECONDS))
