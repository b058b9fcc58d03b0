"""The database file: brought up to date, and set aside whole, with what belongs to it, where it cannot be used."""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from app.chat.archive.schema import VERSION, _back_up
from app.chat.archive.store import Store
from app.chat.history.records import ConversationRecord, MessageRecord, new_id

COMPANIONS = ("", "-wal", "-shm")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the conversations lie."""
    return tmp_path / "chats.sqlite3"


def keep(store: Store, text: str, ending: str = "complete") -> ConversationRecord:
    """A conversation of one message."""
    record = ConversationRecord(new_id(), title=text[:12])
    store.save(record, [MessageRecord(new_id(), record.id, 0, "user", text, ending)])
    return record


def contents(path: Path) -> dict[str, bytes]:
    """The bytes of the database and of the log beside it, by the end of the name; the third is only an index to it."""
    found = {end: path.with_name(path.name + end) for end in COMPANIONS[:2]}
    return {end: each.read_bytes() for end, each in found.items() if each.exists()}


def alter(path: Path, *statements: str) -> None:
    """Change the file as another program might."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for each in statements:
            connection.execute(each)


_DIES = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA journal_mode = WAL")
for statement in sys.argv[2:]:
    connection.execute(statement)
connection.commit()
os._exit(9)
"""


def leave_with_log(path: Path, *statements: str) -> None:
    """Change the file, and die before the log that holds the changes is written into it."""
    done = subprocess.run([sys.executable, "-c", _DIES, str(path), *statements], check=False)
    assert done.returncode == 9
    assert contents(path)["-wal"]


def test_a_file_of_the_first_version_is_brought_up_to_date_and_searched(path: Path) -> None:
    store = Store(path)
    keep(store, "A larch grows by the river")
    growing = keep(store, "A birch grew", "open")
    store.close()
    alter(
        path,
        "DROP TABLE IF EXISTS rounds",
        "DROP TABLE texts",
        "CREATE VIRTUAL TABLE texts USING fts5(text, content='messages', content_rowid='id')",
        "INSERT INTO texts(rowid, text) SELECT id, text FROM messages WHERE ending NOT IN ('open', 'waiting')",
        "PRAGMA user_version = 1",
    )
    again = Store(path)
    assert again.set_aside is None
    assert [hit.excerpt for hit in again.search("riv") if hit.message] == ["A larch grows by the \x02river\x03"]
    assert [hit.conversation.id for hit in again.search("birch gr") if hit.message] == [growing.id]
    again.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        connection.execute("INSERT INTO texts(texts, rank) VALUES('integrity-check', 1)")


def test_what_an_older_version_wrote_is_copied_before_it_is_brought_forward(path: Path) -> None:
    with closing(sqlite3.connect(path)) as old:
        old.execute("CREATE TABLE conversations (id INTEGER PRIMARY KEY, title TEXT)")
        old.execute("INSERT INTO conversations VALUES (7, 'Dragons')")
        old.execute("PRAGMA user_version = 1")
        old.commit()
        _back_up(old, path)
        old.execute("DELETE FROM conversations")
        old.commit()
        _back_up(old, path)
    with closing(sqlite3.connect(path.with_name(f"{path.stem}.v1{path.suffix}"))) as copy:
        assert copy.execute("SELECT id, title FROM conversations").fetchall() == [(7, "Dragons")]
        assert copy.execute("PRAGMA user_version").fetchone() == (1,)
    assert len(list(path.parent.glob("*.v*"))) == 1


@pytest.mark.parametrize("version", [0, VERSION])
def test_a_new_file_and_one_of_this_version_are_not_copied(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        _back_up(connection, path)
    assert list(path.parent.glob("*.v*")) == []


@pytest.mark.skipif(os.name != "posix", reason="a program is killed")
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (f"PRAGMA user_version = {VERSION + 1}", "newer version"),
        ("PRAGMA application_id = 7", "another program"),
        ("DROP TABLE messages", "damaged (messages)"),
    ],
)
def test_a_file_with_a_log_beside_it_is_set_aside_byte_for_byte(path: Path, statement: str, words: str) -> None:
    store = Store(path)
    keep(store, "An oak")
    store.close()
    leave_with_log(path, statement)
    before = contents(path)
    again = Store(path)
    assert words in again.reason
    assert again.set_aside is not None
    assert contents(again.set_aside) == before
    assert again.conversations() == []
    keep(again, "A new beginning")
    again.close()
    assert contents(again.set_aside) == before, "nothing writes into what was set aside"


@pytest.mark.skipif(os.name != "posix", reason="a program is killed")
def test_a_damaged_log_loses_only_what_it_held(path: Path) -> None:
    store = Store(path)
    kept = keep(store, "An oak")
    store.close()
    leave_with_log(path, "UPDATE conversations SET title = 'never written whole'")
    log = path.with_name(path.name + "-wal")
    log.write_bytes(b"\xff" * log.stat().st_size)
    again = Store(path)
    assert again.set_aside is None
    assert [(each.id, each.title) for each in again.conversations()] == [(kept.id, "An oak")]


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_log_without_its_database_is_not_overwritten(path: Path, is_empty: bool) -> None:
    log = path.with_name(path.name + "-wal")
    log.write_bytes(b"somebody's conversations")
    if is_empty:
        path.write_bytes(b"")
    store = Store(path)
    assert "only the log" in store.reason
    assert store.set_aside is not None
    assert store.set_aside.with_name(store.set_aside.name + "-wal").read_bytes() == b"somebody's conversations"
    keep(store, "It works")


def test_files_set_aside_at_the_same_time_keep_out_of_each_others_way(path: Path) -> None:
    places = []
    for number in range(3):
        path.write_bytes(b"damaged" * (1000 + number))
        store = Store(path)
        places.append(store.set_aside)
        store.close()
        path.unlink()
    assert len(set(places)) == 3
    assert [each.stat().st_size for each in places if each] == [7000, 7007, 7014]


def test_a_file_that_another_program_locks_is_not_set_aside(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(path).close()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **(named | {"timeout": 0.01})))
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with closing(connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            locked.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait()
    try:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            Store(path)
    finally:
        release.set()
        holder.join()
    assert [each.name for each in path.parent.iterdir() if "set-aside" in each.name or "damaged" in each.name] == []
    Store(path).close()


def test_a_folder_in_its_place_is_not_set_aside(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("somebody's")
    with pytest.raises((OSError, sqlite3.OperationalError)):
        Store(path)
    assert (path / "inside").read_text() == "somebody's"
