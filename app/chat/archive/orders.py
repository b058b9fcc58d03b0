"""What the archive's thread is asked to do, and what it has to remember of that."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from app.chat.archive.store import Store
from app.chat.history.unsent import Unsent


class Failure(Enum):
    """What a person is told of an order that failed."""

    NOT_SAVED = "not saved"
    NOT_READ = "not read"
    SILENT = "silent"  # nothing: its own answer says it, or it is no loss that a person has to know of


class Order(NamedTuple):
    """What the thread is asked to do.

    `keep` holds what is to be written before anything can fail. `answer` is called with the reason of a failure, for
    those who wait for an answer.
    """

    name: str
    work: Callable[[Store], object]
    answer: Callable[[str], object] | None = None
    keep: Callable[[], object] | None = None
    failure: Failure = Failure.NOT_SAVED


class Mark(NamedTuple):
    """That a conversation, or messages of it, were deleted or restored, or what is written for it and not sent."""

    conversation: int
    write: Callable[[Store], None]
    unsent: Unsent = Unsent()  # what is written nowhere else


class Stepped(Protocol):
    """Work that goes on in small steps, between which other orders are served."""

    is_over: bool

    def step(self, store: Store) -> None:
        """Do some more."""

    def stop(self) -> None:
        """Do no more; then it is over."""

    def fail(self, reason: str) -> None:
        """The same, as a step could not be done."""


class Steps(NamedTuple):
    """Such work, and who is told of it."""

    name: str
    work: Stepped
    tell_progress: Callable[[], object]
    tell_end: Callable[[], object]
    failure: Failure
