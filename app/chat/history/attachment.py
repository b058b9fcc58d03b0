"""A file that goes into a question, as plain data."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

_LEAST_FENCE = 3


@dataclass(frozen=True, slots=True)
class Attachment:
    """The text of a file and the name it is known by. `note` says what was left out of it, in words, if anything."""

    name: str
    text: str
    note: str = ""

    @property
    def written_out(self) -> str:
        """As it stands in a question: its name, and its text in a fence that nothing in it can close."""
        fence = "`" * _LEAST_FENCE
        if fence in self.text:  # to look for the longest takes its time, and most texts have none
            fence = "`" * (1 + max(map(len, re.findall("`{3,}", self.text))))
        note = f" ({self.note})" if self.note else ""
        return f"File {self.name}{note}:\n{fence}\n{self.text.rstrip()}\n{fence}"


def with_attachments(question: str, attachments: Sequence[Attachment]) -> str:
    """A question as the model reads it: the files first, then what is asked of them."""
    return "\n\n".join([*(each.written_out for each in attachments), question])


def as_details(attachments: Iterable[Attachment]) -> list[dict[str, str]]:
    """Attachments as JSON can hold them."""
    return [asdict(each) for each in attachments]


def from_details(kept: object) -> tuple[Attachment, ...]:
    """Attachments as they were kept; what is no attachment is left out."""
    found = []
    for each in kept if isinstance(kept, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("text"), str):
            note = each.get("note")
            found.append(Attachment(each["name"], each["text"], note if isinstance(note, str) else ""))
    return tuple(found)
