"""Conversations, messages, unsent texts and rounds as rows of their tables; rounds are bounded per conversation."""

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.chat.archive.picture_table import pictures_of_unsent, save_unsent_pictures
from app.chat.history.message import pictures_of
from app.chat.history.records import ConversationRecord, MessageRecord, RoundKey, RoundPlace
from app.chat.history.unsent import Unsent, unsent_details, unsent_of
from app.system import json_text as json
from app.system.plain_text import well_formed_values

UNSENT_TABLE = """
CREATE TABLE IF NOT EXISTS unsent_texts (
    conversation INTEGER PRIMARY KEY,
    content TEXT NOT NULL,
    updated REAL NOT NULL
);
"""
"""What was written and not sent. Older versions of the program pass this table over, so it needs no version of its own.

A chat that was never begun has no row in `conversations`, and may have an unsent text.
"""
_SAVE_UNSENT = """
    INSERT INTO unsent_texts (conversation, content, updated) VALUES (?, ?, ?)
    ON CONFLICT (conversation) DO UPDATE SET content = excluded.content, updated = excluded.updated
"""
_UNSENT = """
    SELECT unsent_texts.conversation, unsent_texts.content, conversations.id IS NULL FROM unsent_texts
    LEFT JOIN conversations ON conversations.id = unsent_texts.conversation ORDER BY unsent_texts.updated
"""

MOST_ROUND_BYTES = 200 << 20
"""Of one conversation's rounds; the oldest go beyond that."""
_SAVE = """
    INSERT OR IGNORE INTO rounds (message, run, number, begin, bonus, end, packed) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_LIST = """
    SELECT rounds.message, run, number, begin, bonus, end FROM rounds
    JOIN messages ON messages.id = rounds.message WHERE messages.conversation = ? ORDER BY rounds.id
"""
_READ = "SELECT packed FROM rounds WHERE message = ? AND run = ? AND number = ?"
_SIZE = """
    SELECT coalesce(sum(length(packed)), 0) FROM rounds
    JOIN messages ON messages.id = rounds.message WHERE messages.conversation = ?
"""
_OLDEST = """
    SELECT rounds.id, length(packed) FROM rounds
    JOIN messages ON messages.id = rounds.message WHERE messages.conversation = ? ORDER BY rounds.id
"""
_COPY = """
    INSERT INTO rounds (message, run, number, begin, bonus, end, packed)
    SELECT copies.value, run, number, begin, bonus, end, packed FROM json_each(?) AS copies
    JOIN rounds ON rounds.message = CAST(copies.key AS INTEGER) ORDER BY rounds.id
"""


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
        identity, _text(title), _text(auto_title), _text(folder), bool(is_pinned),
        leaf if isinstance(leaf, int) else 0, _object(settings), _seconds(created), _seconds(updated),
    )  # fmt: skip


def message_in(row: Sequence[Any], pictures: Mapping[int, tuple[bytes, ...]]) -> MessageRecord:
    """The message that a row holds; `pictures`: those of each message."""
    identity, conversation, parent, role, text, ending, details, created = row
    return MessageRecord(
        identity, conversation, parent, role, _text(text), ending, _object(details), _seconds(created),
        pictures.get(identity, ()),
    )  # fmt: skip


def unsent_in(connection: sqlite3.Connection) -> tuple[dict[int, Unsent], list[int]]:
    """All unsent texts by their conversations, and which of these were never begun, oldest first."""
    rows, pictures = connection.execute(_UNSENT).fetchall(), pictures_of_unsent(connection)
    unsent_texts = {
        conversation: unsent_of(_object(content), pictures.get(conversation, ())) for conversation, content, _ in rows
    }
    return unsent_texts, [conversation for conversation, _, is_unbegun in rows if is_unbegun]


def write_unsent(connection: sqlite3.Connection, conversation: int, unsent: Unsent) -> None:
    """Keep what is unsent; an empty one is forgotten."""
    if unsent.is_empty:
        connection.execute("DELETE FROM unsent_texts WHERE conversation = ?", (conversation,))
    else:
        row = well_formed_values((conversation, json.dumps(unsent_details(unsent)), time.time()))
        connection.execute(_SAVE_UNSENT, row)
        save_unsent_pictures(connection, conversation, pictures_of(unsent.attachments))


def _text(value: object) -> str:
    """A text as SQLite has it: in a damaged page it may be anything else."""
    return value if isinstance(value, str) else value.decode(errors="replace") if isinstance(value, bytes) else ""


def _seconds(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


class RoundTable:
    """Works on the store's connection; transactions are the store's."""

    def __init__(self, connection: sqlite3.Connection, most_bytes: int = MOST_ROUND_BYTES) -> None:
        self._connection = connection
        self._most = most_bytes
        self._sizes: dict[int, int] = {}  # conversation -> bytes of its rounds, once it was asked

    def save(self, conversation: int, rounds: Iterable[tuple[RoundPlace, bytes]]) -> None:
        """Add rounds of a conversation whose messages are there; what is there already stays as it is."""
        rows = [
            (each.message, each.run, each.number, each.begin, each.bonus, each.end, packed) for each, packed in rounds
        ]
        size = self._size(conversation)
        self._connection.executemany(_SAVE, rows)
        self._sizes[conversation] = size + sum(len(row[-1]) for row in rows)
        if self._sizes[conversation] > self._most:
            self._drop_oldest(conversation)

    def places(self, conversation: int) -> list[RoundPlace]:
        """All rounds of a conversation with all its branches, oldest first."""
        return [RoundPlace(*row) for row in self._connection.execute(_LIST, (conversation,))]

    def read(self, keys: Sequence[RoundKey]) -> list[bytes | None]:
        """What was kept of these rounds; None for one that is not there."""
        found = (self._connection.execute(_READ, key).fetchone() for key in keys)
        return [None if row is None else bytes(row[0]) for row in found]

    def copy(self, messages: Mapping[int, int]) -> None:
        """Give the rounds of each message to another one as well."""
        self._connection.execute(_COPY, (json.dumps(messages),))

    def forget_sizes(self) -> None:
        """A transaction was undone, and with it what was counted."""
        self._sizes.clear()

    def _size(self, conversation: int) -> int:
        if conversation not in self._sizes:
            (self._sizes[conversation],) = self._connection.execute(_SIZE, (conversation,)).fetchone()
        return self._sizes[conversation]

    def _drop_oldest(self, conversation: int) -> None:
        """A tenth more than has to go, so that it is not done for every round."""
        size, gone = self._sizes[conversation], []
        for identity, length in self._connection.execute(_OLDEST, (conversation,)):
            if size <= self._most * 0.9:
                break
            gone.append((identity,))
            size -= length
        self._connection.executemany("DELETE FROM rounds WHERE id = ?", gone)
        self._sizes[conversation] = size
