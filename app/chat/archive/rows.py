"""Conversations and messages as rows of their tables."""

from collections.abc import Sequence
from typing import Any

from app.chat.history.records import ConversationRecord, MessageRecord
from app.system import json_text as json
from app.system.plain_text import well_formed_values


def row_of_conversation(record: ConversationRecord) -> tuple[Any, ...]:
    """A conversation as its table has it, but for the time of its deletion."""
    return well_formed_values((
        record.id, record.title, record.auto_title, record.folder, record.is_pinned, record.leaf,
        json.dumps(record.settings), record.created, record.updated,
    ))  # fmt: skip


def row_of_message(conversation: int, record: MessageRecord) -> tuple[Any, ...]:
    """A message as its table has it."""
    return well_formed_values((
        record.id, conversation, record.parent, record.role, record.text, record.ending,
        json.dumps(record.details), record.created,
    ))  # fmt: skip


def conversation_in(row: Sequence[Any]) -> ConversationRecord:
    """The conversation that a row holds."""
    identity, title, auto_title, folder, is_pinned, leaf, settings, created, updated = row
    return ConversationRecord(
        identity, title, auto_title, folder, bool(is_pinned), leaf, _object(settings), created, updated
    )


def message_in(row: Sequence[Any]) -> MessageRecord:
    """The message that a row holds."""
    identity, conversation, parent, role, text, ending, details, created = row
    return MessageRecord(identity, conversation, parent, role, text, ending, _object(details), created)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
