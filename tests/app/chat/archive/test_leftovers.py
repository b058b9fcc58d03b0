"""What was deleted leaves every file in the end: the database, its log and index, copies, and files set aside."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from app.chat.archive import database_files
from app.chat.archive.schema import VERSION
from app.chat.archive.store import Store
from app.chat.history.records import ConversationRecord, MessageRecord
from tests.app.chat.archive.test_rounds import FIRST

DAY = 24 * 3600.0
SECRET = "xylographisch"  # a word of its own, which the index cuts nowhere


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.sqlite3"


def files_with(path: Path, word: str = SECRET) -> set[str]:
    """Files of the folder in whose bytes the word, or what the index keeps of it, stands."""
    found = {each.name: each.read_bytes().lower() for each in path.parent.iterdir()}
    return {name for name, content in found.items() if word.encode() in content or word[1:].encode() in content}


def keep(store: Store, identity: int, text: str) -> None:
    store.save(ConversationRecord(identity, title=text[:40]), [MessageRecord(identity, identity, 0, "user", text)])


def pass_days(path: Path, days: float) -> None:
    """Let what was deleted have been deleted so much earlier."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE conversations SET deleted = deleted - ?", (days * DAY,))
        connection.commit()


@pytest.mark.parametrize("length", [1, 20_000])
def test_after_a_month_no_byte_of_a_deleted_conversation_is_left(path: Path, length: int) -> None:
    store = Store(path)
    for identity in range(2, 60):
        keep(store, identity, f"An oak that stays, number {identity}")
    keep(store, 1, f"{SECRET} " * length)
    for identity in range(60, 90):
        keep(store, identity, f"A larch that stays, number {identity}")
    store.delete(1)
    store.close()
    assert files_with(path) == {path.name}
    pass_days(path, 31)
    store = Store(path)
    assert files_with(path) == set(), "also while the program runs"
    assert len(store.conversations()) == 88
    store.close()
    assert files_with(path) == set()


def test_what_a_month_went_by_for_while_the_program_ran_is_removed_when_it_ends(path: Path) -> None:
    store = Store(path)
    keep(store, 1, SECRET)
    keep(store, 2, "An oak that stays")
    keep(store, 3, "Deleted today")
    store.delete(1)
    pass_days(path, 31)
    store.delete(3)
    store.close()
    assert files_with(path) == set()
    again = Store(path)
    again.restore(3)
    assert {each.id for each in again.conversations()} == {2, 3}
    again.close()


def test_a_removal_that_fails_at_the_end_is_left_to_the_next_start(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    store = Store(path)
    keep(store, 1, SECRET)
    store.delete(1)
    pass_days(path, 31)
    with monkeypatch.context() as patched:
        patched.setattr("app.chat.archive.store.text_index.compact", fail)
        store.close()
    assert "disk is full" in caplog.text
    assert files_with(path) == {path.name}, "written in order all the same"
    Store(path).close()
    assert files_with(path) == set()


def test_a_text_that_was_written_over_leaves_no_byte(path: Path) -> None:
    store = Store(path)
    store.save(ConversationRecord(1), [MessageRecord(1, 1, 0, "assistant", SECRET * 2000, "open")])
    store.save(ConversationRecord(1), [MessageRecord(1, 1, 0, "assistant", "Something else", "open")])
    store.close()
    assert files_with(path) == set()


def old_file(path: Path) -> None:
    """A file of the first version, in whose free pages a deleted text still lies."""
    with closing(sqlite3.connect(path)) as old:
        old.executescript("PRAGMA secure_delete = OFF;" + FIRST)
        old.execute("INSERT INTO conversations (id, created, updated) VALUES (9, 1, 1)")
        old.execute(
            "INSERT INTO messages (id, conversation, role, text, created) VALUES (90, 9, 'user', ?, 1)",
            (f"{SECRET} " * 3000,),
        )
        old.commit()
        old.execute("DELETE FROM messages WHERE id = 90")
        old.execute("DELETE FROM conversations WHERE id = 9")
        old.commit()
    assert path.name in files_with(path)


def test_an_upgrade_takes_out_what_earlier_versions_left_in_free_pages(path: Path) -> None:
    old_file(path)
    Store(path).close()
    assert path.name not in files_with(path)
    store = Store(path)
    assert [each.title for each in store.conversations()] == ["Old"]
    store.close()


@pytest.mark.parametrize(("days", "is_kept"), [(29, True), (31, False)])
def test_a_copy_from_before_an_upgrade_is_kept_for_a_month(path: Path, days: float, is_kept: bool) -> None:
    Store(path).close()
    copies = [path.with_name(f"chats.v{version}.sqlite3") for version in (1, VERSION - 1)]
    others = [path.with_name(name) for name in ("chats.vx.sqlite3", "mine.v1.sqlite3", "chats.v1.sqlite3.txt")]
    for each in (*copies, *others):
        each.write_text(SECRET)
        os.utime(each, (time.time() - days * DAY,) * 2)
    Store(path).close()
    assert [each.exists() for each in copies] == [is_kept, is_kept]
    assert all(each.exists() for each in others), "they are somebody else's"


def test_a_damaged_file_is_kept_for_as_long_as_was_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(f"{SECRET} no database".encode() * 100)
    log = path.with_name(path.name + "-wal")
    log.write_bytes(SECRET.encode() * 100)
    store = Store(path)
    store.close()
    assert store.set_aside is not None
    assert abs(store.until - time.time() - database_files.DAMAGED_SECONDS) < 100
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + database_files.DAMAGED_SECONDS - DAY)
    Store(path).close()
    assert len(files_with(path)) == 2, "with its log"
    monkeypatch.setattr(time, "time", lambda: now + database_files.DAMAGED_SECONDS + DAY)
    Store(path).close()
    assert files_with(path) == set()


def test_a_whole_file_that_was_set_aside_is_never_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    store = Store(path)
    store.close()
    assert store.until == 0
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3650 * DAY)
    Store(path).close()
    assert store.set_aside is not None
    assert store.set_aside.exists()


def test_an_upgrade_tells_damaged_files_of_earlier_versions_from_whole_ones(path: Path) -> None:
    whole = path.with_name("chats.set-aside-20240101-101010.sqlite3")
    Store(whole).close()
    damaged = path.with_name("chats.set-aside-20240101-101010-2.sqlite3")
    damaged.write_bytes(SECRET.encode() * 100)
    old_file(path)
    Store(path).close()
    assert whole.exists()
    assert not damaged.exists()
    (kept,) = files_with(path) - {"chats.v1.sqlite3"}
    assert kept.startswith("chats.damaged-")
    assert str(time.localtime().tm_year) in kept, "its time begins now"
