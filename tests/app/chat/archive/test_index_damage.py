"""A damaged full-text index is made again: nothing that was said is lost for it, and saving goes on."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest

from app.chat.archive import database_files, schema, text_index
from app.chat.archive.schema import connect
from app.chat.archive.store import Store
from app.chat.history.records import ConversationRecord, MessageRecord

# FTS5 reads from this how many pieces the index has, and wants more memory for them than there is: `MemoryError`.
HUGE = "a3d811736110e5781bcccea696762e6116c6e9c92d99bf358c2e0718822ce47ca8c74107e66cb0e4"
DAMAGE = {
    "terms": ["UPDATE texts_data SET block = x'ff00ff00ff' WHERE id > 10"],
    "structure": ["UPDATE texts_data SET block = x'ffffffffffff' WHERE id = 10"],
    "averages": ["UPDATE texts_data SET block = x'ffffffffffff' WHERE id = 1"],
    "huge structure": [f"UPDATE texts_data SET block = x'{HUGE}' WHERE id = 10"],
    "everything": ["UPDATE texts_data SET block = seeded()"],
    "no data": ["DELETE FROM texts_data"],
    "no sizes": ["DELETE FROM texts_docsize"],
    "empty sizes": ["UPDATE texts_docsize SET sz = x''"],
    "format": ["UPDATE texts_config SET v = 99"],
    "no settings": ["DELETE FROM texts_config"],
    "no data table": ["DROP TABLE texts_data"],
    "no tables": [f"DROP TABLE texts_{name}" for name in ("data", "idx", "config", "docsize")],
    "no index table in the schema": [
        "PRAGMA writable_schema = ON",
        "DELETE FROM sqlite_master WHERE name = 'texts_idx'",
    ],
    "not in the schema": ["PRAGMA writable_schema = ON", "DELETE FROM sqlite_master WHERE name = 'texts'"],
    "another table's pages": [
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'messages') "
        "WHERE name = 'texts_data'",
    ],
}
OLD, NEW = ConversationRecord(1, title="Old"), ConversationRecord(2, title="New")


def question(conversation: int, text: str, ending: str = "complete") -> MessageRecord:
    return MessageRecord(conversation * 10, conversation, 0, "user", text, ending)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a conversation in it."""
    file = tmp_path / "chats.sqlite3"
    store = Store(file)
    store.save(OLD, [question(1, "An oak by the river")])
    store.close()
    return file


def damage(path: Path, kind: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("seeded", 0, partial(Random(3).randbytes, 40))
        for statement in DAMAGE[kind]:
            connection.execute(statement)
        connection.commit()


def assert_works(store: Store, path: Path) -> None:
    """Everything is there and found, also in the next start, and the file has no page that nobody uses."""
    assert store.set_aside is None, store.reason
    assert {each.title for each in store.conversations()} == {"Old", "New"}
    assert [hit.conversation.id for hit in store.search("riv")] == [1]
    assert [hit.conversation.id for hit in store.search("larch")] == [2]
    store.close()
    again = Store(path)
    assert [hit.message for hit in again.search("river")] == [10]
    again.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        assert text_index.is_whole(connection)


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("is_clean", [True, False])
def test_saving_goes_on_in_the_start_after_the_damage(path: Path, kind: str, is_clean: bool) -> None:
    """`is_clean`: nothing speaks for damage at the start, so only the failing order finds it."""
    damage(path, kind)
    if is_clean:
        database_files.leave_clean_mark(path)
    store = Store(path)
    store.search("oak")
    store.save(NEW, [question(2, "A larch")])
    store.save(OLD, [question(1, "An old oak by the river")])
    store.search("oak")
    assert_works(store, path)


@pytest.mark.parametrize("kind", ["terms", "structure", "huge structure", "no data", "no tables"])
def test_damage_while_the_program_runs_is_repaired_by_what_meets_it(path: Path, kind: str) -> None:
    store = Store(path)
    damage(path, kind)
    store.save(NEW, [question(2, "A larch", ending="open")])
    store.save(NEW, [question(2, "A larch")])
    store.search("oak")
    assert_works(store, path)


def test_an_answer_that_still_grows_is_not_in_the_new_index(path: Path) -> None:
    store = Store(path)
    store.save(NEW, [question(2, "A birch", ending="open")])
    damage(path, "terms")
    assert [hit.conversation.id for hit in store.search("oak")] == [1]
    assert store.search("birch") == []
    store.save(NEW, [question(2, "A larch")])
    assert_works(store, path)


def test_an_error_that_the_index_has_no_part_in_rebuilds_it_once_at_most(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(path)
    rebuilt: list[object] = []
    monkeypatch.setattr(text_index, "rebuild", rebuilt.append)
    with closing(connect(path)) as other:
        other.execute("CREATE TRIGGER refuse BEFORE INSERT ON messages BEGIN SELECT RAISE(ABORT, 'no'); END")
    for _ in range(3):
        with pytest.raises(sqlite3.IntegrityError):
            store.save(NEW, [question(2, "A larch")])
    assert len(rebuilt) == 1
    store.close()


def test_a_full_disk_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(path)
    monkeypatch.setattr(text_index, "rebuild", lambda connection: pytest.fail("nothing is damaged"))
    store._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.save(NEW, [question(2, "A larch " * 20_000)])
    store.close()


def test_where_memory_is_short_for_the_new_index_too_nothing_is_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(path)
    with monkeypatch.context() as patch:
        damage(path, "huge structure")
        patch.setattr(text_index, "FILL", "SELECT seeded()")
        store._connection.create_function("seeded", 0, lambda: bytes(1 << 60))
        with pytest.raises((MemoryError, sqlite3.OperationalError)):
            store.save(NEW, [question(2, "A larch")])
    assert [each.title for each in store.conversations()] == ["Old"]
    store.save(NEW, [question(2, "A larch")])
    store.search("oak")
    assert_works(store, path)


def test_an_index_that_ends_the_check_of_the_file_is_damage_to_the_index_alone() -> None:
    """As SQLite 3.45 has it; `damage` makes it so where the tests run on such a one."""
    error = sqlite3.OperationalError("vtable constructor failed: texts")
    error.sqlite_errorcode = sqlite3.SQLITE_ERROR
    connection = Mock(execute=Mock(side_effect=error))
    assert schema._found_in_pages(connection) == "vtable constructor failed: texts"
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    with pytest.raises(sqlite3.OperationalError):
        schema._found_in_pages(connection)
