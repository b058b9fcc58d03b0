"""Pictures in the database: each is there once, however many messages show it, and goes with the last of them."""

import hashlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

PICTURE_TABLES = """
CREATE TABLE IF NOT EXISTS pictures (
    digest BLOB PRIMARY KEY,
    data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS message_pictures (
    message INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    digest BLOB NOT NULL REFERENCES pictures(digest),
    PRIMARY KEY (message, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unsent_pictures (
    conversation INTEGER NOT NULL REFERENCES unsent_texts(conversation) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    digest BLOB NOT NULL REFERENCES pictures(digest),
    PRIMARY KEY (conversation, number)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS message_pictures_of_data ON message_pictures(digest);
CREATE INDEX IF NOT EXISTS unsent_pictures_of_data ON unsent_pictures(digest);
CREATE TRIGGER IF NOT EXISTS message_picture_removed AFTER DELETE ON message_pictures BEGIN
    DELETE FROM pictures WHERE digest = old.digest
        AND NOT EXISTS (SELECT 1 FROM message_pictures WHERE digest = old.digest)
        AND NOT EXISTS (SELECT 1 FROM unsent_pictures WHERE digest = old.digest);
END;
CREATE TRIGGER IF NOT EXISTS unsent_picture_removed AFTER DELETE ON unsent_pictures BEGIN
    DELETE FROM pictures WHERE digest = old.digest
        AND NOT EXISTS (SELECT 1 FROM message_pictures WHERE digest = old.digest)
        AND NOT EXISTS (SELECT 1 FROM unsent_pictures WHERE digest = old.digest);
END;
"""
"""Older versions of the program pass these tables over, as they do the one of unsent texts."""
_IS_KEPT = "SELECT 1 FROM pictures WHERE digest = ?"
_SAVE = "INSERT INTO pictures (digest, data) VALUES (?, ?)"
_OF_MESSAGES = """
    SELECT message_pictures.message, message_pictures.digest, pictures.data FROM message_pictures
    JOIN messages ON messages.id = message_pictures.message
    JOIN pictures ON pictures.digest = message_pictures.digest
    WHERE messages.conversation = ? ORDER BY message_pictures.message, message_pictures.number
"""
_HELD = "SELECT number, digest FROM unsent_pictures WHERE conversation = ? ORDER BY number"
_OF_UNSENT = """
    SELECT unsent_pictures.conversation, unsent_pictures.digest, pictures.data FROM unsent_pictures
    JOIN pictures ON pictures.digest = unsent_pictures.digest
    ORDER BY unsent_pictures.conversation, unsent_pictures.number
"""


def save_message_pictures(connection: sqlite3.Connection, message: int, pictures: Sequence[bytes]) -> None:
    """Keep the pictures of a message that is there; those that are kept already are not written again."""
    rows = [(message, number, digest) for number, digest in enumerate(_kept(connection, pictures))]
    connection.executemany("INSERT OR IGNORE INTO message_pictures (message, number, digest) VALUES (?, ?, ?)", rows)


def save_unsent_pictures(connection: sqlite3.Connection, conversation: int, pictures: Sequence[bytes]) -> None:
    """Keep the pictures of an unsent text that is there, in place of those that it had before."""
    held = connection.execute(_HELD, (conversation,)).fetchall()
    digests = _kept(connection, pictures)
    if [digest for _, digest in held] == digests:
        return
    first = max((number for number, _ in held), default=-1) + 1  # the former ones go last: what stays is not lost
    rows = [(conversation, number, digest) for number, digest in enumerate(digests, first)]
    connection.executemany("INSERT INTO unsent_pictures (conversation, number, digest) VALUES (?, ?, ?)", rows)
    connection.execute("DELETE FROM unsent_pictures WHERE conversation = ? AND number < ?", (conversation, first))


def pictures_of_messages(connection: sqlite3.Connection, conversation: int) -> Mapping[int, tuple[bytes, ...]]:
    """The pictures of a conversation by their messages."""
    return _by_holder(connection.execute(_OF_MESSAGES, (conversation,)))


def pictures_of_unsent(connection: sqlite3.Connection) -> Mapping[int, tuple[bytes, ...]]:
    """The pictures of all unsent texts by their conversations."""
    return _by_holder(connection.execute(_OF_UNSENT))


def _kept(connection: sqlite3.Connection, pictures: Sequence[bytes]) -> list[bytes]:
    """What each picture is found by; none is written that is there."""
    digests = [hashlib.sha256(each).digest() for each in pictures]
    for digest, data in zip(digests, pictures, strict=True):
        if connection.execute(_IS_KEPT, (digest,)).fetchone() is None:
            connection.execute(_SAVE, (digest, data))
    return digests


def _by_holder(rows: Iterable[tuple[int, bytes, bytes]]) -> Mapping[int, tuple[bytes, ...]]:
    """In memory, too, each picture is there once."""
    known: dict[bytes, bytes] = {}
    found: dict[int, list[bytes]] = defaultdict(list)
    for holder, digest, data in rows:
        found[holder].append(known.setdefault(digest, data))
    return {holder: tuple(pictures) for holder, pictures in found.items()}
