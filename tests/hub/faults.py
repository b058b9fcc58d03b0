"""What the loopback hub can do wrong, one constructor per fault.

Faults of the body (`drop`, `stall`, `slow`, `no_range`, `wrong_length`, `corrupt`) wait for a GET that sends the file,
on whichever server that is; `status` and `redirect` take the very next request for it. Byte counts of `drop` and
`stall` count what this response has sent; the position of `corrupt` is that in the file.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fault:
    """Everything that can be wrong with one response; the constructors below set one thing each."""

    drop_after: int | None = None
    stall_after: int | None = None
    piece_bytes: int = 0
    pause_seconds: float = 0.0
    ignores_range: bool = False
    length_error: int = 0
    corrupt_at: int | None = None
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"as planned"

    @property
    def of_body(self) -> bool:
        """Whether it waits for a response that sends the file."""
        return not self.status


def drop(after: int) -> Fault:
    """Close the connection when `after` bytes of the body have been sent."""
    return Fault(drop_after=after)


def stall(after: int) -> Fault:
    """Send `after` bytes of the body, then nothing more, until the hub is closed or released."""
    return Fault(stall_after=after)


def slow(piece_bytes: int, pause_seconds: float) -> Fault:
    """Send the body in small pieces with a pause after each."""
    return Fault(piece_bytes=piece_bytes, pause_seconds=pause_seconds)


def no_range() -> Fault:
    """Answer a range request with 200 and the whole file."""
    return Fault(ignores_range=True)


def wrong_length(by: int) -> Fault:
    """Announce a Content-Length that is off by so many bytes, and end the connection after the true body."""
    return Fault(length_error=by)


def corrupt(at: int) -> Fault:
    """Turn over the byte at this position of the file, if the response covers it."""
    return Fault(corrupt_at=at)


def status(code: int, retry_after: str = "", body: bytes = b"as planned", **headers: str) -> Fault:
    """Answer with this status and body, and with `Retry-After` and other headers (underscores become dashes)."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault(status=code, headers=named | ({"Retry-After": retry_after} if retry_after else {}), body=body)


def redirect(url: str, code: int = 302) -> Fault:
    """Send the client elsewhere; `url` may be relative."""
    return Fault(status=code, headers={"Location": url})
