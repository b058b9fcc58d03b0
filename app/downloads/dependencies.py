"""What downloads depend on, and how long they wait before the next attempt; tests replace the parts."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from app.downloads.control import Control
from app.downloads.disk import Disk
from app.hub.place import HubPlace, hub_place
from app.hub.transport import STALL_SECONDS, TokenOf

LONGEST_RETRY_AFTER_SECONDS = 3600.0


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
        return max(longest * (0.5 + 0.5 * self.random()), min(retry_after, LONGEST_RETRY_AFTER_SECONDS))


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What downloads depend on: the hub and its cache, the token, the disk, retries, and time.

    `find_place` and `token` are asked in the download's own thread, `token` again for every request.
    """

    find_place: Callable[[], HubPlace] = hub_place
    token: TokenOf = str
    disk: Disk = field(default_factory=Disk)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    stall_seconds: float = STALL_SECONDS
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[Control, float], None] = Control.wait
