"""The database file: made, checked, brought up to date; one that cannot be used is set aside, never overwritten."""

import sqlite3
import time
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from app.translation import tr

VERSION = 3
_MADE = 2  # the version that `_TABLES` makes; what came later is added to a new file as to an old one
_APPLICATION_ID = 0x436F7070  # "Copp": this is no other program's database
_COMPANIONS = ("", "-wal", "-shm")

# Texts are searched through an index that holds no copy of them. An answer enters it when it has ended: the index of
# one that still grows would be written anew with every save. Beginnings of one and two letters have entries of their
# own: who types a word asks for them first, and without entries every word of the language would be looked through.
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
    text, content='messages', content_rowid='id', tokenize="unicode61 remove_diacritics 2", prefix='1 2'
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

# Rounds go with their message, and messages with their conversation. `packed` stands last: who lists rounds never
# reads it.
_ROUNDS = """
CREATE TABLE rounds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    begin INTEGER NOT NULL,
    bonus INTEGER NOT NULL,
    end INTEGER NOT NULL,
    packed BLOB NOT NULL
);
CREATE UNIQUE INDEX rounds_of_message ON rounds(message, run, number);
"""

# From one version to the next: _STEPS[n] brings a file of version n to n + 1.
_STEPS = {
    1: """
DROP TABLE texts;
CREATE VIRTUAL TABLE texts USING fts5(
    text, content='messages', content_rowid='id', tokenize="unicode61 remove_diacritics 2", prefix='1 2'
);
INSERT INTO texts(rowid, text) SELECT id, text FROM messages WHERE ending NOT IN ('open', 'waiting');
""",
    2: _ROUNDS,
}


# Says nothing of the file: another time, or with a free disk, it may be read well.
_PASSING = frozenset(
    (
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT,
    )
)  # fmt: skip
_NEEDED = {"conversations", "messages", "texts"}


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
    reason = _reason_against(path)
    moved = _set_aside(path) if reason else None
    connection = _connect(path)
    try:
        _back_up(connection, path)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version == 0:
                _run(connection, _TABLES)
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            for step in range(version or _MADE, VERSION):
                _run(connection, _STEPS[step])
            connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        connection.close()
        raise
    return Opened(connection, moved, reason)


def _back_up(connection: sqlite3.Connection, path: Path) -> None:
    """Copy the file of an older version beside it, before it is brought forward; what was copied once stays."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    copy = path.with_name(f"{path.stem}.v{version}{path.suffix}")
    if not 0 < version < VERSION or copy.exists():
        return
    unfinished = copy.with_name(copy.name + ".part")
    unfinished.unlink(missing_ok=True)
    connection.execute("VACUUM INTO ?", (str(unfinished),))
    unfinished.replace(copy)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=10)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "PRAGMA synchronous = NORMAL"
    )  # with WAL a crash of the program loses nothing, and no save waits
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _reason_against(path: Path) -> str:
    """Why the file cannot be used; empty if it can, or if there is none."""
    if not path.exists() or not path.stat().st_size:
        log = path.with_name(path.name + "-wal")
        left = log.exists() and log.stat().st_size
        return tr("only the log that belongs to it is left") if left else ""
    try:
        return _reason_against_content(path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            raise
        return tr("it is damaged ({detail})").format(detail=error)


def _reason_against_content(path: Path) -> str:
    """Read only: whoever wrote the file finds it, and the log beside it, as it was."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and application != _APPLICATION_ID:
            return tr("it is another program's database")
        if version > VERSION:
            return tr("a newer version of Coppice wrote it")
        (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if check == "ok" and tables and not tables >= _NEEDED:
            check = ", ".join(sorted(_NEEDED - tables))
        return "" if check == "ok" else tr("it is damaged ({detail})").format(detail=check)
    finally:
        connection.close()


def _set_aside(path: Path) -> Path:
    """Rename the file and what belongs to it; returns the new path."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    names = (f"{path.stem}.set-aside-{stamp}{end}{path.suffix}" for end in chain([""], (f"-{n}" for n in count(2))))
    target = next(each for each in map(path.with_name, names) if not any(map(Path.exists, _with_companions(each))))
    for old, new in zip(_with_companions(path), _with_companions(target), strict=True):
        if old.exists():
            old.rename(new)
    return target


def _with_companions(path: Path) -> list[Path]:
    return [path.with_name(path.name + each) for each in _COMPANIONS]


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Statement by statement: `executescript` would commit the transaction that it is meant to be part of."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if statement.strip() and sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
