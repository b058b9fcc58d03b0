"""Opens the database: creates, checks and upgrades it; an unusable file is renamed, never overwritten."""

import errno
import logging
import os
import sqlite3
from collections.abc import Set
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from app.chat.archive import database_files, text_index
from app.chat.archive.picture_table import PICTURE_TABLES
from app.chat.archive.tables import UNSENT_TABLE
from app.i18n.translation import tr

_log = logging.getLogger("coppice.archive")

VERSION = 4
_MADE = 2  # the version that `_TABLES` makes; what came later is added to a new file as to an old one
_LONGEST_PATH = 504  # bytes: of the 512 that SQLite takes, its own files beside it need some
_APPLICATION_ID = 0x436F7070  # "Copp": this is no other program's database

# Texts are searched through an index, `text_index.TABLE`. An answer enters it when it has ended: the index of one that
# still grows would be written anew with every save.
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
CREATE TRIGGER text_added AFTER INSERT ON messages WHEN new.ending NOT IN ('open', 'waiting') BEGIN
    INSERT INTO texts(rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER text_removed AFTER DELETE ON messages WHEN old.ending NOT IN ('open', 'waiting') BEGIN
    INSERT INTO texts(texts, rowid, text) VALUES ('delete', old.id, old.text);
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

# Two triggers for one change fire in any order: the old text could be taken out of the index after the new one had come
# in, and with it the words that both have. A message that is saved again as it was does not change the index.
# Answers that were growing when the program died are found without reading every message.
_ORDERED = """
DROP TRIGGER IF EXISTS text_replaced;
DROP TRIGGER IF EXISTS text_settled;
CREATE TRIGGER text_replaced AFTER UPDATE OF text, ending ON messages
WHEN old.text IS NOT new.text
    OR (old.ending IN ('open', 'waiting')) IS NOT (new.ending IN ('open', 'waiting')) BEGIN
    INSERT INTO texts(texts, rowid, text)
        SELECT 'delete', old.id, old.text WHERE old.ending NOT IN ('open', 'waiting');
    INSERT INTO texts(rowid, text) SELECT new.id, new.text WHERE new.ending NOT IN ('open', 'waiting');
END;
CREATE INDEX IF NOT EXISTS messages_unfinished ON messages(id) WHERE ending IN ('open', 'waiting');
"""

# From one version to the next: _STEPS[n] brings a file of version n to n + 1. The index of texts is made anew before.
_STEPS = {1: "", 2: _ROUNDS, 3: _ORDERED}


# Says nothing of the file: another time, or with a free disk, it may be read well.
_PASSING = frozenset(
    (
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT,
    )
)  # fmt: skip
_NEEDED = {"conversations", "messages"}
_CHECKED = ("conversations", "messages", "rounds", "pictures", "message_pictures")


class Unusable(Exception):  # noqa: N818  # a finding about the file
    """The database cannot be used; says why, and whether that is because it is damaged."""

    def __init__(self, reason: str, is_damaged: bool = True) -> None:
        super().__init__(reason)
        self.is_damaged = is_damaged


@dataclass(frozen=True, slots=True)
class Opened:
    """A database ready for use.

    `set_aside`: where the file that could not be used lies now, `reason` why, and `until` when it is removed, in
    seconds since 1970; 0: never.
    """

    connection: sqlite3.Connection
    set_aside: Path | None = None
    reason: str = ""
    until: float = 0.0


def open_database(path: Path) -> Opened:
    """Open the file, making it if there is none. Raises `OSError` or one of `text_index.ERRORS` where that cannot be.

    A path that is too long for SQLite, which says no more than that it cannot open it, is ENAMETOOLONG.
    The whole file is checked after every end that was not orderly. One that is damaged, foreign or from a newer version
    of the program is renamed, and a new one made in its place; damage to the full-text index alone is repaired.
    """
    if os.name == "posix" and len(os.fsencode(path)) > _LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(path))
    is_clean = database_files.take_clean_mark(path)
    moved, reason, until = None, "", 0.0
    index_is_whole = True
    try:
        index_is_whole = _check(path, checks_pages=not is_clean)
    except Unusable as found:
        reason = str(found)
        moved, until = database_files.set_aside(path, found.is_damaged)
    connection = connect(path)
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        _back_up(connection, path)
        if 0 < version < VERSION:
            database_files.sort_out(path, _is_damaged)
            text_index.rebuild(connection)
        _bring_up_to_date(connection)
        if not index_is_whole:
            text_index.rebuild(connection, frees_pages=True)
        elif not is_clean and not text_index.is_whole(connection):
            text_index.rebuild(connection)
        if 0 < version < VERSION:
            _rewrite(connection)
        database_files.remove_old(path)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, moved, reason, until)


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version == 0:
            _run(connection, _TABLES)
            _run(connection, text_index.TABLE)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        _run(connection, UNSENT_TABLE)
        _run(connection, PICTURE_TABLES)
        for step in range(version or _MADE, VERSION):
            _run(connection, _STEPS[step])
        if version != VERSION:
            connection.execute(f"PRAGMA user_version = {VERSION}")


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


def _rewrite(connection: sqlite3.Connection) -> None:
    """Earlier versions left deleted text in free pages; a file that is written anew has none."""
    try:
        connection.execute("VACUUM")
    except text_index.ERRORS:
        _log.exception("the free pages of the conversations' file could not be removed")


def connect(path: Path) -> sqlite3.Connection:
    """A connection to the file as every write needs it: nothing is lost by a crash, and deleted text is overwritten.

    Raises one of `text_index.ERRORS` where the file cannot be opened.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=10)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # With WAL a crash of the program loses nothing, and no save waits.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(path: Path, checks_pages: bool) -> bool:
    """Raise `Unusable` for a file that cannot be used; returns whether its full-text index is whole.

    With `checks_pages` every page is read.
    """
    if not path.exists() or not path.stat().st_size:
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise Unusable(tr("only the log that belongs to it is left"), is_damaged=False)
        return True
    try:
        return _check_content(path, checks_pages)
    except UnicodeDecodeError:  # of what SQLite says of the damage
        raise Unusable(tr("it is damaged ({detail})").format(detail="sqlite_master")) from None
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            raise
        raise Unusable(tr("it is damaged ({detail})").format(detail=error)) from None


def _check_content(path: Path, checks_pages: bool) -> bool:
    """Opened read-only, so that the file and the log beside it stay as they were."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and application != _APPLICATION_ID:
            raise Unusable(tr("it is another program's database"), is_damaged=False)
        if version > VERSION:
            raise Unusable(tr("a newer version of Coppice wrote it"), is_damaged=False)
        missing = _NEEDED - tables if tables else ()
        damage = ", ".join(sorted(missing))
        whole = _found_in_pages(connection) if checks_pages and not damage else "ok"
        if whole != "ok":
            damage = _damage_beside_index(connection, tables)
        if damage:
            raise Unusable(tr("it is damaged ({detail})").format(detail=damage))
        return whole == "ok" and (not tables or "texts" in tables)


def _found_in_pages(connection: sqlite3.Connection) -> str:
    """What is wrong first with any table, or ok. From version 3.44 on, SQLite looks at the full-text index as well.

    Where that index cannot even be opened, the check ends with an error of it; the other tables are checked without it.
    """
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except text_index.ERRORS as error:
        if not text_index.may_be_damage(error):
            raise
        return str(error) or "out of memory"
    return str(found)


def _damage_beside_index(connection: sqlite3.Connection, tables: Set[str]) -> str:
    """What is wrong with the tables that people's words are in; empty: only the index made from them is damaged."""
    for table in _CHECKED:
        if table in tables:
            (found,) = connection.execute(f"PRAGMA quick_check({table})").fetchone()
            if found != "ok":
                return str(found)
    return ""


def _is_damaged(path: Path) -> bool:
    try:
        return not _check(path, checks_pages=True)
    except Unusable as found:
        return found.is_damaged
    except (*text_index.ERRORS, OSError):
        return False


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Statement by statement: `executescript` would commit the transaction that it is meant to be part of."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if statement.strip() and sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
