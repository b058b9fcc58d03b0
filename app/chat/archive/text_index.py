"""The full-text index of messages. It is derived from them, so damage is repaired by a rebuild."""

import logging
import sqlite3
from contextlib import suppress

_log = logging.getLogger("coppice.archive")

# It holds no copy of the texts. Beginnings of one and two letters have entries of their own: who types a word asks for
# them first, and without entries every word of the language would be looked through.
TABLE = """
CREATE VIRTUAL TABLE texts USING fts5(
    text, content='messages', content_rowid='id', tokenize="unicode61 remove_diacritics 2", prefix='1 2'
);
"""
FILL = "INSERT INTO texts(rowid, text) SELECT id, text FROM messages WHERE ending NOT IN ('open', 'waiting');"

# FTS5 keeps its data in ordinary tables of these names.
_TABLES = ("texts", "texts_data", "texts_idx", "texts_content", "texts_docsize", "texts_config")
# FTS5 reports damage as any of these, depending on which of its tables is hit.
_SYMPTOMS = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR))

ERRORS = (sqlite3.Error, MemoryError, UnicodeDecodeError)
"""Of a statement: for `SQLITE_NOMEM`, `sqlite3` raises the second, and for words on damage that cite it the third."""


def may_be_damage(error: sqlite3.Error | MemoryError | UnicodeDecodeError) -> bool:
    """Whether an error of a statement that uses the index can come from damage to it.

    A full disk or a lock cannot, nor can a message that is missing for a foreign key. Memory may be wanting, or damage
    asks for more of it than there is.
    """
    if isinstance(error, MemoryError | UnicodeDecodeError):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _SYMPTOMS and code != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY


def is_whole(connection: sqlite3.Connection) -> bool:
    """Whether the index is consistent in itself; reads all of it. Raises `sqlite3.Error` for other trouble."""
    try:
        connection.execute("INSERT INTO texts(texts) VALUES ('integrity-check')")
    except ERRORS as error:
        if may_be_damage(error):
            return False
        raise
    return True


def rebuild(connection: sqlite3.Connection, frees_pages: bool = False) -> None:
    """Make the index again from the messages. Raises one of `ERRORS`; then the old index is still there.

    An index whose tables cannot even be dropped is taken out of the schema, and `VACUUM` frees its pages, as it does
    with `frees_pages`.
    """
    _log.warning("the full-text index is made again")
    try:
        was_forgotten = _replace(connection, is_droppable=True)
    except ERRORS as error:
        if not may_be_damage(error):
            raise
        was_forgotten = _replace(connection, is_droppable=False)
    if was_forgotten or frees_pages:
        try:
            connection.execute("VACUUM")
        except ERRORS:
            _log.exception("the pages of the damaged index could not be freed")


def compact(connection: sqlite3.Connection) -> None:
    """Merge the index into one piece: words of deleted messages stay in the older pieces until then."""
    connection.execute("INSERT INTO texts(texts) VALUES ('optimize')")


def _replace(connection: sqlite3.Connection, is_droppable: bool) -> bool:
    """Returns whether pages of the old index are left in the file, used by nothing."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        if is_droppable:
            connection.execute("DROP TABLE IF EXISTS texts")
        is_forgotten = _is_left(connection)  # or some of the tables behind it
        if is_forgotten:
            _forget(connection)
        connection.execute(TABLE)
        connection.execute(FILL)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(*ERRORS):
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute("PRAGMA writable_schema = RESET")
    return is_forgotten


def _is_left(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute(f"SELECT count(*) FROM sqlite_master WHERE name IN {_TABLES}").fetchone()[0])  # noqa: S608


def _forget(connection: sqlite3.Connection) -> None:
    """Take the index out of the schema without touching its pages, which may be damaged or another table's."""
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(f"DELETE FROM sqlite_master WHERE name IN {_TABLES}")  # noqa: S608  # all of it is ours
    (version,) = connection.execute("PRAGMA schema_version").fetchone()
    connection.execute(f"PRAGMA schema_version = {version + 1}")
    connection.execute("PRAGMA writable_schema = RESET")
