"""What downloads work with; tests replace the parts."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from app.downloads.control import Control
from app.downloads.disk import Disk
from app.hub.connection import STALL_SECONDS, Token
from app.hub.place import HubPlace, hub_place, stored_token
from app.hub.retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class Equipment:
    """The hub and its cache, the token, the disk, patience, and time.

    `find_place` and `token` are asked in the download's own thread, `token` again for every request.
    """

    find_place: Callable[[], HubPlace] = hub_place
    token: Token = stored_token
    disk: Disk = field(default_factory=Disk)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    stall_seconds: float = STALL_SECONDS
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[Control, float], None] = Control.wait
