"""The records of the database as plain data. Their ids are random, or of a name elsewhere: no database is asked."""

import hashlib
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from app.i18n.translation import tr
from app.system.plain_text import can_be_seen, unsteered
from engine.protocol.messages import Role

ID_BITS = 62  # fits SQLite's signed 64 bits, and two ids made apart never meet


def new_id() -> int:
    """An id for a conversation or a message."""
    return secrets.randbits(ID_BITS)


def id_of(name: str) -> int:
    """The id of a conversation that has a name where it comes from: the same every time."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="replace")).digest()) % (1 << ID_BITS)


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message of a conversation's tree; `parent` 0 for a first one.

    `ending` is how an answer stands, in the words of `message.AnswerEnding`. `details` is whatever else is to be
    kept with it, such as its figures, as JSON can hold it; `pictures` those among its attachments. `created` in seconds
    since 1970.
    """

    id: int
    conversation: int
    parent: int
    role: Role
    text: str
    ending: str = "complete"
    details: dict[str, Any] = field(default_factory=dict)
    created: float = field(default_factory=time.time)
    pictures: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """One conversation without its messages.

    `title` is empty until a person sets one; `auto_title` is made of the first question. `leaf` is the last message
    of the path that is shown. `settings` are its own generation settings, as JSON can hold them. `updated` and
    `created` in seconds since 1970.
    """

    id: int
    title: str = ""
    auto_title: str = ""
    folder: str = ""
    is_pinned: bool = False
    leaf: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)

    @property
    def shown_title(self) -> str:
        """What the list shows: one line, whatever an imported file has."""
        title = " ".join(unsteered(self.title or self.auto_title).split())
        return title if can_be_seen(title) else tr("New chat")


RoundKey = tuple[int, int, int]
"""A round's message, its run and its number in it."""


@dataclass(frozen=True, slots=True)
class RoundPlace:
    """Which round of which answer, and what it gave to its text.

    `run` tells requests apart, also those of different days; `number` counts the rounds of one from 0. Characters
    `begin` to `end` of the answer are its text, from `bonus` on that of the bonus token.
    """

    message: int
    run: int
    number: int
    begin: int
    bonus: int
    end: int

    @property
    def key(self) -> RoundKey:
        """What it is found by."""
        return self.message, self.run, self.number


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A conversation that has what was searched for; `message` 0 and no `excerpt`: in its title.

    In `excerpt` the words found stand between `records.HIT_BEGIN` and `records.HIT_END`.
    """

    conversation: ConversationRecord
    message: int = 0
    excerpt: str = ""


HIT_BEGIN, HIT_END = "\x02", "\x03"
