"""What a person has written for a conversation and not sent."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.chat.history.message import Attachment, attachment_details, attachments_of


@dataclass(frozen=True, slots=True)
class Edit:
    """Another wording of a message that was begun; empty where nothing is changed yet. `is_open`: its editor is."""

    message: int
    text: str = ""
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class Unsent:
    """The question as it stands, its attachments, and how the answer is to begin.

    `unread`: paths of attached files whose text is not there yet; `edits`: of messages of the conversation.
    """

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    beginning: str = ""
    unread: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to keep."""
        return not (self.text or self.attachments or self.beginning or self.unread or self.edits)

    @property
    def texts(self) -> tuple[str, ...]:
        """All that was written in it by hand, each text by itself."""
        return tuple(each for each in (self.text, *(edit.text for edit in self.edits)) if each.strip())


def unsent_details(unsent: Unsent) -> dict[str, Any]:
    """What is unsent as JSON can hold it; the pictures among its attachments are kept beside."""
    return {
        "text": unsent.text,
        "beginning": unsent.beginning,
        "attachments": attachment_details(unsent.attachments),
        "unread": list(unsent.unread),
        "edits": [asdict(each) for each in unsent.edits],
    }


def unsent_of(kept: object, pictures: Sequence[bytes] = ()) -> Unsent:
    """What is unsent as it was kept, with its pictures; what is of another kind is left out."""
    found = kept if isinstance(kept, dict) else {}
    text, beginning, unread = map(found.get, ("text", "beginning", "unread"))
    return Unsent(
        text if isinstance(text, str) else "",
        attachments_of(found.get("attachments"), pictures),
        beginning if isinstance(beginning, str) else "",
        tuple(each for each in unread if isinstance(each, str)) if isinstance(unread, list) else (),
        _edits_of(found.get("edits")),
    )


def _edits_of(kept: object) -> tuple[Edit, ...]:
    edits = []
    for each in kept if isinstance(kept, list) else ():
        message, text = (each.get("message"), each.get("text")) if isinstance(each, dict) else (None, None)
        if type(message) is int and isinstance(text, str):
            edits.append(Edit(message, text, each.get("is_open") is True))
    return tuple(edits)
