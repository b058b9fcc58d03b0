"""The thread in front of the store: orders in order, answers as signals, nothing lost while the disk is full."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.chat.archive.store import Store
from app.chat.archive.worker import Archive
from app.chat.history.conversation import Conversation
from app.chat.history.records import ConversationRecord, MessageRecord, RoundPlace
from app.settings.generation import GenerationSettings


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    thread = Archive(tmp_path / "chats.sqlite3")
    thread.start()
    yield thread
    thread.close()
    assert thread.wait(10_000)


def message(identity: int, text: str) -> MessageRecord:
    return MessageRecord(identity, 1, 0, "user", text)


def texts_of(conversation: Conversation) -> set[str]:
    """Of all its messages but for answers that never came."""
    return {each.text for each in (*conversation.messages, *conversation.hidden) if each.text}


CHAT = ConversationRecord(1, title="Trees")


def test_what_is_saved_is_listed_opened_and_found(archive: Archive, qtbot: QtBot) -> None:
    archive.save(CHAT, [message(5, "an oak")])
    with qtbot.waitSignal(archive.listed) as listed:
        archive.list_all()
    assert listed.args == [[CHAT]]
    with qtbot.waitSignal(archive.opened) as opened:
        archive.open(CHAT)
    assert opened.args is not None
    assert texts_of(opened.args[1]) == {"an oak"}
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


@pytest.mark.parametrize(
    ("error", "words"),
    [(sqlite3.OperationalError("database or disk is full"), "disk is full"), (MemoryError(), "not enough memory")],
)
def test_nothing_is_lost_while_the_disk_is_full_or_memory_short(
    archive: Archive, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, words: str
) -> None:
    save, full = Store.save, [True]

    def refusing(store: Store, conversation: ConversationRecord, messages: Sequence[MessageRecord] = ()) -> None:
        if full[0]:
            raise error
        save(store, conversation, messages)

    monkeypatch.setattr(Store, "save", refusing)
    with qtbot.waitSignal(archive.write_failed) as failed:
        archive.save(CHAT, [message(5, "an oak")])
    assert failed.args is not None
    assert words in failed.args[0]
    with qtbot.waitSignal(archive.write_failed):
        archive.save(CHAT, [message(5, "an old oak"), message(6, "a larch")])
    with qtbot.waitSignal(archive.opened) as opened:
        archive.open(CHAT)
    assert opened.args is not None
    assert texts_of(opened.args[1]) == {"an old oak", "a larch"}, "what could not be written is shown"
    with qtbot.waitSignal(archive.exported):
        archive.export(CHAT, tmp_path / "trees.md")
    assert "a larch" in (tmp_path / "trees.md").read_text(encoding="utf-8")
    with qtbot.waitSignal(archive.write_failed), qtbot.assertNotEmitted(archive.duplicated):
        archive.duplicate(CHAT)
    full[0] = False
    with qtbot.waitSignal(archive.write_recovered):
        archive.save(CHAT, [message(7, "a birch")])
    with qtbot.waitSignal(archive.opened) as opened:
        archive.open(CHAT)
    assert opened.args is not None
    assert texts_of(opened.args[1]) == {"an old oak", "a larch", "a birch"}


@pytest.mark.skipif(os.name != "posix", reason="bounds of other systems are others")
def test_a_path_that_is_too_long_for_the_database_is_a_sentence(
    qtbot: QtBot, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path
    while len(os.fsencode(folder)) < 520:
        folder /= "x" * 50
    folder.mkdir(parents=True)
    archive = Archive(folder / "chats.sqlite3")
    archive.start()
    with qtbot.waitSignal(archive.write_failed) as failed:
        archive.save(CHAT, [message(5, "an oak")])
    archive.close()
    assert archive.wait(10_000)
    assert failed.args is not None
    assert "too long" in failed.args[0]
    assert "--data-dir" in failed.args[0]
    assert "Traceback" not in caplog.text
    assert "too long" in caplog.text


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


class Refusing:
    """In place of a method of the store: raises what it is told to."""

    def __init__(self, method: Callable[..., object], error: BaseException | None) -> None:
        self.method, self.error = method, error

    def bound(self) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            if self.error is not None:
                raise self.error
            return self.method(*arguments)

        return call


def refuse(patch: pytest.MonkeyPatch, name: str, error: BaseException) -> Refusing:
    refusing = Refusing(getattr(Store, name), error)
    patch.setattr(Store, name, refusing.bound())
    return refusing


@pytest.mark.parametrize("error", [ValueError("unforeseen"), MemoryError(), sqlite3.IntegrityError("damaged")])
@pytest.mark.usefixtures("thread_errors")
def test_whatever_a_save_fails_of_nothing_is_lost(
    archive: Archive, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    refusing = refuse(monkeypatch, "save", error)
    with qtbot.waitSignal(archive.write_failed):
        archive.save(CHAT, [message(5, "an oak")])
    with qtbot.waitSignal(archive.write_failed):
        archive.save(CHAT, [message(6, "a larch")])
    refusing.error = None
    with qtbot.waitSignal(archive.write_recovered):
        archive.save(ConversationRecord(2, title="Other"))
    with qtbot.waitSignal(archive.opened) as opened:
        archive.open(CHAT)
    assert opened.args is not None
    assert texts_of(opened.args[1]) == {"an oak", "a larch"}, "another chat's save brought both"


def test_a_file_that_cannot_be_opened_keeps_every_save(qtbot: QtBot, tmp_path: Path) -> None:
    place = tmp_path / "chats.sqlite3"
    place.mkdir()
    archive = Archive(place)
    archive.start()
    for identity in (5, 6):
        with qtbot.waitSignal(archive.write_failed):
            archive.save(CHAT, [message(identity, f"tree {identity}")])
    place.rmdir()
    archive.close()
    assert archive.wait(10_000)
    assert [each.text for each in Store(place).messages(1)] == ["tree 5", "tree 6"]


@pytest.mark.usefixtures("thread_errors")
def test_a_chat_whose_deletion_failed_is_deleted_later(
    archive: Archive, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.save(CHAT, [message(5, "an oak")])
    refusing = refuse(monkeypatch, "delete", KeyError("unforeseen"))
    with qtbot.waitSignal(archive.write_failed):
        archive.delete(CHAT)
    refusing.error = None
    with qtbot.waitSignal(archive.write_recovered):
        archive.save(ConversationRecord(2, title="Other"))
    with qtbot.waitSignal(archive.listed) as listed:
        archive.list_all()
    assert listed.args is not None
    assert [each.title for each in listed.args[0]] == ["Other"]


def test_a_message_that_was_deleted_before_it_could_be_written_does_not_come_back(
    archive: Archive, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archive.save(CHAT, [message(5, "an oak")])
    archive.settle()  # or this save would be refused too
    refusing = refuse(monkeypatch, "save", sqlite3.OperationalError("database or disk is full"))
    with qtbot.waitSignal(archive.write_failed):
        archive.save(CHAT, [message(6, "a larch")])
    archive.delete_messages(1, [6], 77)
    archive.settle()  # or this order would recover, before anybody waits for that
    refusing.error = None
    with qtbot.waitSignal(archive.write_recovered):
        archive.save(CHAT, [message(7, "an elm")])
    with qtbot.waitSignal(archive.opened) as opened:
        archive.open(CHAT)
    assert opened.args is not None
    assert texts_of(opened.args[1]) == {"an oak", "an elm"}


@pytest.mark.usefixtures("thread_errors")
def test_one_chat_that_cannot_be_saved_keeps_no_other_from_it(
    archive: Archive, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    save = Store.save

    def choosy(store: Store, conversation: ConversationRecord, messages: Sequence[MessageRecord] = ()) -> None:
        if conversation.id == 1:
            raise ValueError("not this one")
        save(store, conversation, messages)

    monkeypatch.setattr(Store, "save", choosy)
    with qtbot.waitSignal(archive.write_failed):
        archive.save(CHAT, [message(5, "an oak")])
    archive.save(ConversationRecord(2, title="Other"))
    with qtbot.waitSignal(archive.listed) as listed:
        archive.list_all()
    assert listed.args is not None
    assert [each.title for each in listed.args[0]] == ["Other"]


@pytest.mark.usefixtures("thread_errors")
@pytest.mark.parametrize("error", [RuntimeError("unforeseen"), SystemExit(3)])
def test_every_question_is_answered_whatever_goes_wrong(
    archive: Archive, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    for name in ("search", "rounds", "read_rounds", "conversations"):
        refuse(monkeypatch, name, error)
    refuse_import = Refusing(lambda _path: [], error)
    monkeypatch.setattr("app.chat.archive.exchange.importing.read_conversations", refuse_import.bound())
    with qtbot.waitSignal(archive.found) as found:
        number = archive.search("oak")
    assert found.args == [number, []]
    with qtbot.waitSignal(archive.rounds_listed) as rounds:
        archive.list_rounds(1)
    assert rounds.args == [1, []]
    with qtbot.waitSignal(archive.rounds_read) as read:
        number = archive.read_rounds([(5, 1, 0)])
    assert read.args == [number, [((5, 1, 0), None)]]
    with qtbot.waitSignal(archive.imported) as imported:
        number = archive.import_files([tmp_path / "file.json"], GenerationSettings())
    assert imported.args is not None
    assert imported.args[0] == number
    assert imported.args[2] == []
    with qtbot.waitSignal(archive.write_failed):
        archive.list_all()


def test_a_list_that_failed_comes_with_the_next_order(
    archive: Archive, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, thread_errors: list[BaseException | None]
) -> None:
    refusing = refuse(monkeypatch, "conversations", RuntimeError("unforeseen"))
    with qtbot.waitSignal(archive.write_failed):
        archive.list_all()
    refusing.error = None
    with qtbot.waitSignal(archive.listed) as listed:
        archive.save(CHAT)
    assert listed.args == [[CHAT]]
    assert len(thread_errors) == 1


def test_a_round_that_cannot_be_packed_keeps_no_other_from_the_file(
    archive: Archive, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, thread_errors: list[BaseException | None]
) -> None:
    def pack(of: object) -> bytes:
        if of == "bad":
            raise ValueError("unforeseen")
        return b"packed"

    monkeypatch.setattr("app.chat.archive.worker.pack", pack)
    archive.save(CHAT, [message(5, "an oak")])
    rounds: list[Any] = [(RoundPlace(5, 1, 0, 0, 1, 2), "bad"), (RoundPlace(5, 1, 1, 2, 3, 4), "good")]
    archive.save_rounds(1, rounds)
    with qtbot.waitSignal(archive.rounds_listed) as listed:
        archive.list_rounds(1)
    assert listed.args == [1, [RoundPlace(5, 1, 1, 2, 3, 4)]]
    assert len(thread_errors) == 1
