"""What a person has written for a conversation and not sent."""

from dataclasses import dataclass
from typing import Any

from app.chat.history.message import Attachment, attachment_details, attachments_of


@dataclass(frozen=True, slots=True)
class Unsent:
    """The question as it stands, its attachments, and how the answer is to begin.

    `unread`: paths of attached files whose text is not there yet.
    """

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    beginning: str = ""
    unread: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to keep."""
        return not (self.text or self.attachments or self.beginning or self.unread)


def unsent_details(unsent: Unsent) -> dict[str, Any]:
    """What is unsent as JSON can hold it."""
    return {
        "text": unsent.text,
        "beginning": unsent.beginning,
        "attachments": attachment_details(unsent.attachments),
        "unread": list(unsent.unread),
    }


def unsent_of(kept: object) -> Unsent:
    """What is unsent as it was kept; what is of another kind is left out."""
    found = kept if isinstance(kept, dict) else {}
    text, beginning, unread = map(found.get, ("text", "beginning", "unread"))
    return Unsent(
        text if isinstance(text, str) else "",
        attachments_of(found.get("attachments")),
        beginning if isinstance(beginning, str) else "",
        tuple(each for each in unread if isinstance(each, str)) if isinstance(unread, list) else (),
    )
