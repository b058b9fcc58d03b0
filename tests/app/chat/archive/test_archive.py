"""The thread in front of the store: orders in order, answers as signals, nothing lost while the disk is full."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.chat.archive.archive import Archive
from app.chat.archive.records import ConversationRecord, MessageRecord
from app.chat.archive.store import Store


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    thread = Archive(tmp_path / "chats.sqlite3")
    thread.start()
    yield thread
    thread.close()
    assert thread.wait(10_000)


def message(identity: int, text: str) -> MessageRecord:
    return MessageRecord(identity, 1, 0, "user", text)


CHAT = ConversationRecord(1, title="Trees")


def test_what_is_saved_is_listed_opened_and_found(archive: Archive, qtbot: QtBot) -> None:
    archive.save(CHAT, [message(5, "an oak")])
    with qtbot.waitSignal(archive.listed) as listed:
        archive.list_all()
    assert listed.args == [[CHAT]]
    with qtbot.waitSignal(archive.opened) as opened:
        archive.open(CHAT)
    assert opened.args is not None
    assert [each.text for each in opened.args[2]] == ["an oak"]
    with qtbot.waitSignal(archive.found) as found:
        number = archive.search("oak")
    assert found.args is not None
    assert found.args[0] == number
    assert [hit.message for hit in found.args[1]] == [5]


def test_a_search_that_a_newer_one_overtook_is_not_answered(qtbot: QtBot, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "chats.sqlite3")
    answered: list[int] = []
    archive.found.connect(lambda number, _hits: answered.append(number))
    archive.search("oak")
    last = archive.search("larch")  # both wait: the thread has not begun
    with qtbot.waitSignal(archive.found):
        archive.start()
    archive.close()
    assert archive.wait(10_000)
    assert answered == [last]


def test_nothing_is_lost_while_the_disk_is_full(
    archive: Archive, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    save, full = Store.save, [True]

    def refusing(store: Store, conversation: ConversationRecord, messages: Sequence[MessageRecord] = ()) -> None:
        if full[0]:
            raise sqlite3.OperationalError("database or disk is full")
        save(store, conversation, messages)

    monkeypatch.setattr(Store, "save", refusing)
    with qtbot.waitSignal(archive.write_failed) as failed:
        archive.save(CHAT, [message(5, "an oak")])
    assert failed.args is not None
    assert "disk is full" in failed.args[0]
    with qtbot.waitSignal(archive.write_failed):
        archive.save(CHAT, [message(5, "an old oak"), message(6, "a larch")])
    full[0] = False
    with qtbot.waitSignal(archive.write_recovered):
        archive.save(CHAT, [message(7, "a birch")])
    with qtbot.waitSignal(archive.opened) as opened:
        archive.open(CHAT)
    assert opened.args is not None
    assert [each.text for each in opened.args[2]] == ["an old oak", "a larch", "a birch"]


def test_the_end_of_the_program_writes_what_was_kept_back(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archive = Archive(tmp_path / "chats.sqlite3")
    archive.start()
    with monkeypatch.context() as patch, qtbot.waitSignal(archive.write_failed):

        def refuse(*_: object) -> None:
            raise sqlite3.OperationalError("database is locked")

        patch.setattr(Store, "save", refuse)
        archive.save(CHAT, [message(5, "an oak")])
    archive.close()
    assert archive.wait(10_000)
    assert [each.text for each in Store(tmp_path / "chats.sqlite3").messages(1)] == ["an oak"]


def test_a_folder_that_cannot_be_written_is_told(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    archive = Archive(tmp_path / "file" / "chats.sqlite3")
    archive.start()
    with qtbot.waitSignal(archive.write_failed) as failed:
        archive.save(CHAT)
    archive.close()
    assert archive.wait(10_000)
    assert failed.args is not None
    assert "cannot be saved" in failed.args[0]


def test_a_file_that_can_only_be_opened_later_is_listed_then(qtbot: QtBot, tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.sqlite3")
    store.save(CHAT, [message(5, "an oak")])
    store.close()
    (tmp_path / "chats.sqlite3").rename(tmp_path / "away")
    (tmp_path / "chats.sqlite3").mkdir()  # a file is not what is there
    late = Archive(tmp_path / "chats.sqlite3")
    late.start()
    with qtbot.waitSignal(late.write_failed):
        late.list_all()
    (tmp_path / "chats.sqlite3").rmdir()
    (tmp_path / "away").rename(tmp_path / "chats.sqlite3")
    with qtbot.waitSignal(late.listed) as listed:
        late.search("oak")
    late.close()
    assert late.wait(10_000)
    assert listed.args == [[CHAT]]
