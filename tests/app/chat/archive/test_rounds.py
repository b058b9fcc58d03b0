"""Rounds on disk: kept with their answers, copied and deleted with them, bounded, and added to files of before."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.chat.archive.schema import VERSION, open_database
from app.chat.archive.store import Store
from app.chat.archive.tables import RoundTable
from app.chat.archive.worker import Archive
from app.chat.history.records import ConversationRecord, MessageRecord, RoundPlace, new_id
from app.engine.round_packing import DamagedRoundError, pack, unpack
from tests.app.tree.trees import random_round

# A file as the first version made it, but for the index of texts, whose making has steps of its own.
FIRST = """
PRAGMA application_id = 1131376752;
PRAGMA user_version = 1;
CREATE TABLE conversations (id INTEGER PRIMARY KEY, title TEXT NOT NULL DEFAULT '', auto_title TEXT NOT NULL DEFAULT '',
    folder TEXT NOT NULL DEFAULT '', is_pinned INTEGER NOT NULL DEFAULT 0, leaf INTEGER NOT NULL DEFAULT 0,
    settings TEXT NOT NULL DEFAULT '{}', created REAL NOT NULL, updated REAL NOT NULL, deleted REAL);
CREATE TABLE messages (id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE, parent INTEGER NOT NULL DEFAULT 0,
    role TEXT NOT NULL, text TEXT NOT NULL, ending TEXT NOT NULL DEFAULT 'complete',
    details TEXT NOT NULL DEFAULT '{}', created REAL NOT NULL);
CREATE INDEX messages_of_conversation ON messages(conversation, created);
CREATE VIRTUAL TABLE texts USING fts5(text, content='messages', content_rowid='id',
    tokenize="unicode61 remove_diacritics 2");
CREATE TRIGGER text_added AFTER INSERT ON messages WHEN new.ending NOT IN ('open', 'waiting') BEGIN
    INSERT INTO texts(rowid, text) VALUES (new.id, new.text); END;
CREATE TRIGGER text_removed AFTER DELETE ON messages WHEN old.ending NOT IN ('open', 'waiting') BEGIN
    INSERT INTO texts(texts, rowid, text) VALUES ('delete', old.id, old.text); END;
INSERT INTO conversations (id, title, leaf, created, updated) VALUES (7, 'Old', 12, 1.0, 2.0);
INSERT INTO messages (id, conversation, parent, role, text, created) VALUES (11, 7, 0, 'user', 'Which tree?', 1.0);
INSERT INTO messages (id, conversation, parent, role, text, created) VALUES (12, 7, 11, 'assistant', 'A larch.', 2.0);
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "chats.sqlite3")


def chat(store: Store) -> tuple[ConversationRecord, MessageRecord]:
    """A conversation of one turn, and its answer."""
    conversation = ConversationRecord(new_id(), title="Trees")
    question = MessageRecord(new_id(), conversation.id, 0, "user", "Which tree?")
    answer = MessageRecord(new_id(), conversation.id, question.id, "assistant", "A larch.")
    conversation = replace(conversation, leaf=answer.id)
    store.save(conversation, [question, answer])
    return conversation, answer


def places(answer: int, count: int, run: int = 5) -> list[RoundPlace]:
    return [RoundPlace(answer, run, number, 10 * number, 10 * number + 7, 10 * number + 10) for number in range(count)]


def test_rounds_go_with_a_message_that_is_deleted_and_come_back_with_it(store: Store) -> None:
    conversation, answer = chat(store)
    store.save_rounds(conversation.id, [(each, b"round") for each in places(answer.id, 3)])
    removal = new_id()
    store.delete_messages(conversation.id, [answer.id], removal)
    assert [each.text for each in store.messages(conversation.id)] == ["Which tree?"]
    assert store.rounds(conversation.id) == []
    assert [each.id for each in store.conversations()] == [conversation.id]
    assert store.search("larch") == []
    store.restore_messages(conversation.id, removal)
    assert [each.text for each in store.messages(conversation.id)] == ["Which tree?", "A larch."]
    assert store.rounds(conversation.id) == places(answer.id, 3)
    assert [hit.conversation.id for hit in store.search("larch")] == [conversation.id]
    store.restore_messages(conversation.id, removal)
    assert [each.id for each in store.conversations()] == [conversation.id]


def test_what_was_deleted_of_a_conversation_is_purged_like_a_conversation(store: Store) -> None:
    conversation, answer = chat(store)
    store.delete_messages(conversation.id, [answer.id], new_id())
    store._connection.execute("UPDATE conversations SET deleted = deleted - 31 * 24 * 3600 WHERE deleted IS NOT NULL")
    store._purge()
    assert store._connection.execute("SELECT text FROM messages").fetchall() == [("Which tree?",)]


def test_a_message_follows_another_one_once_it_is_saved_so(store: Store) -> None:
    conversation, answer = chat(store)
    store.save(conversation, [replace(answer, parent=0)])
    assert {each.text: each.parent for each in store.messages(conversation.id)}["A larch."] == 0


def keep(store: Store, conversation: int, rounds: list[RoundPlace]) -> list[bytes]:
    packed = [pack(random_round(20, seed=number, index=number)) for number in range(len(rounds))]
    store.save_rounds(conversation, list(zip(rounds, packed, strict=True)))
    return packed


def test_rounds_are_there_in_the_next_start(store: Store, tmp_path: Path) -> None:
    conversation, answer = chat(store)
    rounds = places(answer.id, 3)
    keep(store, conversation.id, rounds)
    store.close()
    again = Store(tmp_path / "chats.sqlite3")
    assert again.rounds(conversation.id) == rounds
    packed, missing = again.read_rounds([rounds[1].key, (answer.id, 5, 99)])
    assert packed is not None
    assert unpack(packed, 1) == random_round(20, seed=1, index=1)
    assert missing is None


def test_a_file_of_the_first_version_gets_room_for_rounds_and_keeps_its_texts(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(FIRST)
    store = Store(path)
    assert [each.title for each in store.conversations()] == ["Old"]
    assert [each.text for each in store.messages(7)] == ["Which tree?", "A larch."]
    assert [hit.message for hit in store.search("larch")] == [12]
    keep(store, 7, places(12, 2))
    assert store.rounds(7) == places(12, 2)
    store.close()
    with closing(sqlite3.connect(path)) as migrated:
        assert migrated.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_old_and_new_files_have_the_same_tables(tmp_path: Path) -> None:
    shapes = []
    for name in ("old", "new"):
        path = tmp_path / name
        if name == "old":
            with closing(sqlite3.connect(path)) as old:
                old.executescript(FIRST)
        with closing(open_database(path).connection) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'index')").fetchall()
            shapes.append({row[0] for row in rows})
    assert shapes[0] == shapes[1]


def test_rounds_go_and_come_back_with_their_conversation(store: Store, tmp_path: Path) -> None:
    conversation, answer = chat(store)
    keep(store, conversation.id, places(answer.id, 3))
    store.delete(conversation.id)
    store.restore(conversation.id)
    assert len(store.rounds(conversation.id)) == 3
    store.delete(conversation.id)
    store.close()
    with closing(sqlite3.connect(tmp_path / "chats.sqlite3")) as file:
        file.execute("UPDATE conversations SET deleted = 1.0")
        file.commit()
    Store(tmp_path / "chats.sqlite3").close()
    with closing(sqlite3.connect(tmp_path / "chats.sqlite3")) as file:
        assert file.execute("SELECT count(*) FROM rounds").fetchone() == (0,)


def test_a_copy_has_the_rounds_of_all_its_branches(store: Store) -> None:
    conversation, answer = chat(store)
    other = replace(answer, id=new_id(), text="A birch.")
    store.save(conversation, [other])
    packed = keep(store, conversation.id, places(answer.id, 2))
    keep(store, conversation.id, places(other.id, 3, run=6))
    copy = store.duplicate(conversation)
    copied = store.rounds(copy.id)
    assert [each.number for each in copied] == [0, 1, 0, 1, 2]
    assert {each.message for each in copied}.isdisjoint({answer.id, other.id})
    assert store.read_rounds([copied[1].key]) == [packed[1]]
    assert len(store.rounds(conversation.id)) == 5


def test_a_copy_whose_rounds_do_not_fit_on_the_disk_leaves_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation, answer = chat(store)
    keep(store, conversation.id, places(answer.id, 2))

    def fill(table: RoundTable, messages: Mapping[int, int]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(RoundTable, "copy", fill)
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError, match="full"):
                store.duplicate(conversation)
    assert [each.id for each in store.conversations()] == [conversation.id]
    assert len(store.rounds(store.duplicate(conversation).id)) == 2


def test_of_very_many_rounds_the_oldest_go(store: Store, tmp_path: Path) -> None:
    conversation, answer = chat(store)
    connection = open_database(tmp_path / "chats.sqlite3").connection
    table = RoundTable(connection, most_bytes=10_000)
    for place in places(answer.id, 30):
        table.save(conversation.id, [(place, b"x" * 1000)])
    kept = table.places(conversation.id)
    assert kept[-1].number == 29
    assert 8 <= len(kept) <= 10
    connection.close()


def test_rounds_that_cannot_be_kept_yet_are_kept_later(qtbot: QtBot, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "chats.sqlite3")
    archive.start()
    conversation = ConversationRecord(1, title="Trees")
    question, answer = MessageRecord(2, 1, 0, "user", "?"), MessageRecord(3, 1, 2, "assistant", "!")
    archive.save_rounds(1, [(places(3, 1)[0], random_round(4))])  # its message is not there yet
    archive.save(conversation, [question, answer])
    archive.save_rounds(1, [(places(3, 2)[1], random_round(4, index=1))])
    with qtbot.waitSignal(archive.rounds_listed) as listed:
        archive.list_rounds(1)
    assert listed.args == [1, places(3, 2)]
    with qtbot.waitSignal(archive.rounds_read) as read:
        archive.read_rounds([(3, 5, 0), (3, 5, 7)])
    (key, packed), missing = read.args[1]
    assert (key, missing) == ((3, 5, 0), ((3, 5, 7), None))
    assert unpack(packed, 1) == random_round(4)
    archive.close()
    assert archive.wait(10_000)


@pytest.mark.parametrize("packed", [b"", b"\x02abc", b"\x01abc", pack(random_round(9))[:-9]])
def test_a_damaged_round_is_told_from_a_whole_one(packed: bytes) -> None:
    with pytest.raises(DamagedRoundError):
        unpack(packed, 1)
