"""Which pictures of a conversation are sent: all, none to a model that reads none, and never too many."""

from collections.abc import Iterable
from dataclasses import replace

from engine.protocol.messages import ChatMessage
from engine.protocol.pictures import MOST_PICTURES

# To the model, not to a person: many templates want turns that alternate, and no turn without words.
_WORDLESS = "(a picture)"


def shown_pictures(chat: Iterable[ChatMessage], reads_pictures: bool) -> tuple[ChatMessage, ...]:
    """The turns with as many of their last pictures as may be sent."""
    room = MOST_PICTURES if reads_pictures else 0
    turns = []
    for each in reversed(tuple(chat)):
        kept = each.pictures[max(0, len(each.pictures) - room) :]
        room -= len(kept)
        turns.append(each if kept == each.pictures else replace(each, content=each.content or _WORDLESS, pictures=kept))
    return tuple(reversed(turns))
