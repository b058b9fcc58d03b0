"""How a download can fail, in words a person can act on."""

from enum import StrEnum

from engine.errors import CoppiceError


class Reason(StrEnum):
    """Why the hub does not hand out a model; the dialog offers something else for each."""

    NOT_LOGGED_IN = "not logged in"
    BAD_TOKEN = "bad token"  # noqa: S105  # the name of a failure
    LICENCE = "licence not accepted"
    REFUSED = "access refused"
    NOT_FOUND = "not found"


class RefusalError(CoppiceError):
    """The hub said no. `page` is the address where that can be changed, or empty."""

    def __init__(self, reason: Reason, message: str, hint: str, page: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason
        self.page = page


class UnsuitableError(CoppiceError):
    """The repository is not one that can, or should, be downloaded."""


class DamagedError(CoppiceError):
    """A file arrived twice with another checksum than the hub names."""


class OutOfSpaceError(CoppiceError):
    """The disk is full, or would be; what has arrived is kept. `bytes_missing` is what must be freed at least."""

    def __init__(self, message: str, hint: str, bytes_missing: int) -> None:
        super().__init__(message, hint)
        self.bytes_missing = bytes_missing


class Passing(Exception):  # noqa: N818  # not yet an error: it is tried again
    """Something that may well work a moment later. `retry_after` is what the server asked for, in seconds.

    `stalled`: the connection stood still.
    """

    def __init__(self, words: str, retry_after: float = 0.0, stalled: bool = False) -> None:
        super().__init__(words)
        self.words = words
        self.retry_after = retry_after
        self.stalled = stalled


class Busy(Exception):  # noqa: N818  # not an error: the other one may well finish it for us
    """Another program has the same file open."""


class UnreachableError(CoppiceError):
    """So many attempts have failed that it makes no sense to go on without being asked; what has arrived is kept."""
