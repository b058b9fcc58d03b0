"""The database file: made, checked, brought up to date; one that cannot be used is set aside, never overwritten."""

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

VERSION = 1
_APPLICATION_ID = 0x436F7070  # "Copp": this is no other program's database
_COMPANIONS = ("", "-wal", "-shm")

# Texts are searched through an index that holds no copy of them. An answer enters it when it has ended: the index of
# one that still grows would be written anew with every save.
_TABLES = """
CREATE TABLE conversations (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL DEFAULT '',
    auto_title TEXT NOT NULL DEFAULT '',
    folder TEXT NOT NULL DEFAULT '',
    is_pinned INTEGER NOT NULL DEFAULT 0,
    leaf INTEGER NOT NULL DEFAULT 0,
    settings TEXT NOT NULL DEFAULT '{}',
    created REAL NOT NULL,
    updated REAL NOT NULL,
    deleted REAL
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    parent INTEGER NOT NULL DEFAULT 0,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    ending TEXT NOT NULL DEFAULT 'complete',
    details TEXT NOT NULL DEFAULT '{}',
    created REAL NOT NULL
);
CREATE INDEX messages_of_conversation ON messages(conversation, created);
CREATE VIRTUAL TABLE texts USING fts5(
    text, content='messages', content_rowid='id', tokenize="unicode61 remove_diacritics 2"
);
CREATE TRIGGER text_added AFTER INSERT ON messages WHEN new.ending NOT IN ('open', 'waiting') BEGIN
    INSERT INTO texts(rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER text_removed AFTER DELETE ON messages WHEN old.ending NOT IN ('open', 'waiting') BEGIN
    INSERT INTO texts(texts, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER text_replaced AFTER UPDATE OF text, ending ON messages
WHEN old.ending NOT IN ('open', 'waiting') BEGIN
    INSERT INTO texts(texts, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER text_settled AFTER UPDATE OF text, ending ON messages
WHEN new.ending NOT IN ('open', 'waiting') BEGIN
    INSERT INTO texts(rowid, text) VALUES (new.id, new.text);
END;
"""

# From one version to the next: _STEPS[n] brings a file of version n to n + 1. There is no other version yet.
_STEPS: dict[int, str] = {}


@dataclass(frozen=True, slots=True)
class Opened:
    """A database ready for use. `set_aside`: where the file that could not be used lies now, and `reason` why."""

    connection: sqlite3.Connection
    set_aside: Path | None = None
    reason: str = ""


def open_database(path: Path) -> Opened:
    """Open the file, making it if there is none. Raises `OSError` or `sqlite3.OperationalError` where that cannot be.

    A file that is damaged, foreign or from a newer version of the program is renamed, and a new one made in its place.
    """
    reason = _reason_against(path) if path.exists() else ""
    moved = _set_aside(path) if reason else None
    connection = _connect(path)
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version == 0:
            _run(connection, _TABLES)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        for step in range(max(version, 1), VERSION):
            _run(connection, _STEPS[step])
        connection.execute(f"PRAGMA user_version = {VERSION}")
    return Opened(connection, moved, reason)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=10)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "PRAGMA synchronous = NORMAL"
    )  # with WAL a crash of the program loses nothing, and no save waits
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _reason_against(path: Path) -> str:
    """Why the file cannot be used; empty if it can."""
    try:
        connection = sqlite3.connect(path, timeout=10)
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            raise
        return f"it is damaged ({error})"
    if tables and application != _APPLICATION_ID:
        return "it is another program's database"
    if version > VERSION:
        return "a newer version of Coppice wrote it"
    return "" if check == "ok" else f"it is damaged ({check})"


def _set_aside(path: Path) -> Path:
    """Rename the file and what belongs to it; returns the new path."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    target = path.with_name(f"{path.stem}.set-aside-{stamp}{path.suffix}")
    number = 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.stem}.set-aside-{stamp}-{number}{path.suffix}")
    for companion in _COMPANIONS:
        old = path.with_name(path.name + companion)
        if old.exists():
            old.rename(target.with_name(target.name + companion))
    return target


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Statement by statement: `executescript` would commit the transaction that it is meant to be part of."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if statement.strip() and sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
