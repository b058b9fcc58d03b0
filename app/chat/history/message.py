"""One turn of a conversation as plain data: a question with its files, or an answer and how it stands."""

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count
from typing import Any

from app.chat.history.calls import Call
from app.chat.history.records import new_id
from app.chat.history.token_probabilities import TokenProbabilities
from engine.protocol.messages import Reading, Role, Statistics
from engine.protocol.pictures import Picture

_LEAST_FENCE = 3

ROOT = 0
THOUGHT, TEXT = 0, 1
"""The parts of a message: what was thought before an answer, and what is said. Behind them come those of an answer
from its first call of a tool on, in their order."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """The text of a file and the name it is known by. `note` says what was left out of it, in words, if anything.

    A picture has no text; `picture` is its data, as PNG or JPEG.
    """

    name: str
    text: str
    note: str = ""
    picture: bytes = field(default=b"", repr=False)

    @property
    def written_out(self) -> str:
        """As it stands in a question: its name, and its text in a fence that nothing in it can close; not a picture."""
        if self.picture:
            return ""
        fence = "`" * _LEAST_FENCE
        if fence in self.text:  # to look for the longest takes its time, and most texts have none
            fence = "`" * (1 + max(map(len, re.findall("`{3,}", self.text))))
        note = f" ({self.note})" if self.note else ""
        return f"File {self.name}{note}:\n{fence}\n{self.text.rstrip()}\n{fence}"


def with_attachments(question: str, attachments: Sequence[Attachment]) -> str:
    """A question as the model reads it: the files first, then what is asked of them. Pictures are no text."""
    return "\n\n".join([*(each.written_out for each in attachments if not each.picture), question])


def pictures_of(attachments: Iterable[Attachment]) -> tuple[bytes, ...]:
    """The data of the pictures among them."""
    return tuple(each.picture for each in attachments if each.picture)


def attachment_details(attachments: Iterable[Attachment]) -> list[dict[str, Any]]:
    """Attachments as JSON can hold them: in place of its data a picture has its number among the `pictures_of` them."""
    number = count()
    return [
        {"name": each.name, "text": "", "picture": next(number)}
        if each.picture
        else {"name": each.name, "text": each.text, "note": each.note}
        for each in attachments
    ]


def attachments_of(kept: object, pictures: Sequence[bytes] = ()) -> tuple[Attachment, ...]:
    """Attachments as they were kept; what is no attachment, or a picture that is not there, is left out."""
    found = []
    for each in kept if isinstance(kept, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("text"), str):
            note, number = each.get("note"), each.get("picture")
            if number is None:
                found.append(Attachment(each["name"], each["text"], note if isinstance(note, str) else ""))
            elif type(number) is int and 0 <= number < len(pictures):
                found.append(Attachment(each["name"], "", picture=pictures[number]))
    return tuple(found)


class AnswerEnding(Enum):
    """How an answer stands."""

    WAITING = "waiting"  # for an engine that is still starting or loading
    OPEN = "open"
    COMPLETE = "complete"
    LENGTH = "length"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # the engine died
    CLOSED = "closed"  # the program ended meanwhile
    LOST = "lost"  # the connection to an engine elsewhere broke

    @property
    def is_final(self) -> bool:
        """Whether nothing more will come."""
        return self not in (AnswerEnding.WAITING, AnswerEnding.OPEN)

    @property
    def is_early(self) -> bool:
        """Whether there might have been more of the answer."""
        return self in (
            AnswerEnding.LENGTH, AnswerEnding.STOPPED, AnswerEnding.INTERRUPTED, AnswerEnding.CLOSED, AnswerEnding.LOST,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Message:
    """One turn as it is shown. `ending` and `statistics` speak of answers; a person's turn is complete.

    `attachments` are files that a person put into a question; `beginning` are the words that a person had an answer
    start with, `thought_seconds` how long it took the model to think before it, `probabilities` how likely the
    target found what it says, `calls` the tools that it called. `ahead`: requests of others that are answered before it
    is begun; `reading`: how much of a long question was read by now; `opening`: from which character on it may be a
    call that is being written, and of which tool. `answerer`: the models that wrote it, as `model @ host` where they
    were elsewhere.
    `parent` is the message it follows, 0 for a first one; `created` in seconds since 1970. Two messages that say the
    same are equal.
    """

    role: Role
    text: str
    ending: AnswerEnding = AnswerEnding.COMPLETE
    statistics: Statistics | None = None
    parent: int = field(default=ROOT, compare=False)
    id: int = field(default_factory=new_id, compare=False)
    created: float = field(default_factory=time.time, compare=False)
    attachments: tuple[Attachment, ...] = ()
    beginning: str = ""
    thought_seconds: float = 0.0
    probabilities: TokenProbabilities | None = field(default=None, compare=False)
    ahead: int = field(default=0, compare=False)
    reading: Reading | None = field(default=None, compare=False)
    answerer: str = field(default="", compare=False)
    calls: tuple[Call, ...] = ()
    opening: tuple[int, str] | None = field(default=None, compare=False)

    @property
    def content(self) -> str:
        """All that it says, attachments written out."""
        return with_attachments(self.text, self.attachments) if self.attachments else self.text

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """What it shows, before all that it says."""
        return tuple(map(Picture, pictures_of(self.attachments)))

    @property
    def model(self) -> str:
        """The model whose words it is in, without its draft; empty where it is not known."""
        return self.answerer.partition(" + ")[0]


SPEAKERS: dict[Role, str] = {"user": "You", "assistant": "Answer", "system": "System"}
"""Who says a message, as Markdown has it. The words are not translated: files are read again in any language."""


def as_markdown(turns: Iterable[tuple[Role, str]], heading: str, title: str | None = None) -> str:
    """What was said, turn by turn below its speaker; `heading` is such as `## {}`. Empty if there is nothing."""
    parts = [f"# {title}"] if title is not None else []
    parts += [f"{heading.format(SPEAKERS[role])}\n\n{text}".strip() for role, text in turns]
    return "\n\n".join(parts) + "\n" if parts else ""


@dataclass(frozen=True, slots=True)
class Version:
    """Which of several messages at the same place one is: number `index`, from 0, of `count`."""

    index: int
    count: int


def settled(message: Message) -> Message:
    """A loaded message: one that was still growing when the program ended says so."""
    return message if message.ending.is_final else replace(message, ending=AnswerEnding.CLOSED)
