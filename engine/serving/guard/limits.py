"""How much one client may take of the server, and all of them together."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.protocol.sentences import say
from engine.serving.guard.errors import SOON, ApiError

MOST_ADDRESSES = 1024  # whose rates are remembered
SHORT_BYTES = 1 << 20  # of a body that always finds room beside large pictures, whose answers take minutes


@dataclass(frozen=True, slots=True)
class Limits:
    """What no client can go beyond. The server needs none of it larger, and a computer can well bear it.

    `body_bytes`: the largest picture is 43 MiB of base64. `json_bytes`: of that, beside pictures; a context of a
    million tokens is about 4 MiB of text, and twice that as JSON. `all_bodies_bytes`: of all requests under way, each
    of which takes up to three times its bytes; `short_bodies_bytes` are left to those of at most `SHORT_BYTES`.
    `body_seconds`: to send one, 8 MiB at a megabit a second. `headers`, `header_bytes`: such as browsers and proxies
    send are a tenth of it. `idle_seconds`: without a whole request on a connection: longer than the 5 s that clients
    keep one. `unread_seconds`: without reading while an answer is sent. `requests_per_second`: of one address, what
    takes about a tenth of a core; `burst`: at once after a rest; a wrong key counts as `wrong_key_requests`.
    `connections`: of all, a quarter of the files that a process may usually open, and `connections_of_one` address.
    """

    body_bytes: int = 48 << 20
    json_bytes: int = 8 << 20
    all_bodies_bytes: int = 112 << 20
    short_bodies_bytes: int = 16 << 20
    body_seconds: float = 60.0
    headers: int = 100
    header_bytes: int = 16 << 10
    idle_seconds: float = 20.0
    unread_seconds: float = 30.0
    requests_per_second: float = 100.0
    burst: float = 500.0
    wrong_key_requests: float = 20.0
    connections: int = 256
    connections_of_one: int = 128


class Rates:
    """How often each address asks: a bucket of `burst` requests, which fills at `per_second`."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when that was

    def take(self, address: str) -> None:
        """Count a request. Raises `ApiError` where there were too many."""
        left = self.charge(address, 0)
        if left < 1:
            seconds = 1 + int((1 - left) / self._per_second)
            words = say("Too many requests came from this address.")
            hint = say("Ask again later.")
            raise ApiError(429, words, hint, code="rate_limit_exceeded", headers={"retry-after": str(seconds)})
        self.charge(address, 1)

    def charge(self, address: str, requests: float) -> float:
        """Count so many requests, if there are as many; returns how many are left."""
        now, whose = self._clock(), network_of(address)
        left, then = self._buckets.pop(whose, (self._burst, now))
        left = max(0.0, min(self._burst, left + (now - then) * self._per_second) - requests)
        self._buckets[whose] = (left, now)
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return left


class BodyBudget:
    """Bytes for the bodies of all requests that are under way."""

    def __init__(self, bytes_free: int, bytes_for_short: int = 0) -> None:
        """`bytes_for_short`: that bodies of more than `SHORT_BYTES` leave free."""
        self.bytes_free, self.bytes_for_short = bytes_free, bytes_for_short

    @contextmanager
    def share(self) -> Iterator["BodyShare"]:
        """What one request takes of it, for as long as it is under way."""
        share = BodyShare(self)
        try:
            yield share
        finally:
            share.give_back()


class BodyShare:
    """One request's part of the budget."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._bytes = 0

    def take(self, count: int) -> None:
        """Take so many more bytes. Raises `ApiError` where others have them."""
        left = 0 if self._bytes + count <= SHORT_BYTES else self._budget.bytes_for_short
        if count > self._budget.bytes_free - left:
            words = say("The server has no memory left for requests as long as this one.")
            raise ApiError(503, words, say("Ask again when some are answered."), code="too_much_at_once", headers=SOON)
        self._budget.bytes_free -= count
        self._bytes += count

    def give_back(self) -> None:
        """Give everything back."""
        self._budget.bytes_free += self._bytes
        self._bytes = 0


def network_of(address: str) -> str:
    """Whose address it is: of IPv6, where everybody has very many, the part that a provider gives out."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
