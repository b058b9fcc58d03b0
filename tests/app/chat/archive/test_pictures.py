"""Pictures in the database: once each, with their chats as long as these are there, and in no file twice."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.chat.archive.conversion import conversation_of, records_of
from app.chat.archive.exchange.formats import exported_json, exported_markdown, from_json, write_copies
from app.chat.archive.picture_table import PICTURE_TABLES
from app.chat.archive.store import Store
from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Attachment
from app.chat.history.records import ConversationRecord
from app.chat.history.unsent import Unsent
from app.system import json_text as json
from tests.app.chat.composer.pictures import picture

OAK = Attachment("oak.png", "", picture=picture(8, 8))
YEW = Attachment("yew.png", "", picture=picture(9, 9))
NOTES = Attachment("notes.txt", "An oak.")
MONTH_SECONDS = 31 * 24 * 3600


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    made = Store(path)
    yield made
    made.close()


def chat(*attachments: Attachment) -> Conversation:
    """A question with these, answered."""
    made = Conversation()
    _, answer = made.ask("What is it?", attachments)
    made.change(replace(answer, text="A tree.", ending=AnswerEnding.COMPLETE))
    return made


def save(store: Store, conversation: Conversation) -> ConversationRecord:
    record, messages = records_of(conversation, "")
    store.save(record, messages)
    return record


def read(store: Store, record: ConversationRecord) -> Conversation:
    return conversation_of(record, store.messages(record.id))


def kept(path: Path) -> set[bytes]:
    """The pictures in the file."""
    with closing(sqlite3.connect(path)) as connection:
        return {data for (data,) in connection.execute("SELECT data FROM pictures")}


def test_a_question_has_its_pictures_at_the_next_start(path: Path) -> None:
    store = Store(path)
    record = save(store, chat(OAK, NOTES, YEW))
    store.close()
    again = Store(path)
    assert read(again, record).messages[0].attachments == (OAK, NOTES, YEW)
    assert again.messages(record.id)[0].details["attachments"][0] == {"name": "oak.png", "text": "", "picture": 0}
    again.close()


def test_a_picture_that_several_show_is_there_once_and_goes_with_the_last(store: Store, path: Path) -> None:
    first, second = save(store, chat(OAK, OAK)), save(store, chat(OAK, YEW))
    branch = store.duplicate(first)
    assert read(store, branch).messages[0].attachments == (OAK, OAK)
    one, other = store.messages(first.id)[0].pictures
    assert one is other
    assert kept(path) == {OAK.picture, YEW.picture}
    for record, left in ((first, {OAK.picture, YEW.picture}), (second, {OAK.picture}), (branch, set())):
        store.delete(record.id)
        store.erase([record.id])
        assert kept(path) == left


def test_nothing_is_written_again_with_every_save(store: Store) -> None:
    conversation = chat(OAK)
    record, messages = records_of(conversation, "")
    store.save(record, messages)
    store.save_unsent(7, Unsent("Wh", (YEW,)))
    before = store._connection.total_changes
    store.save(record, messages)
    store.save_unsent(7, Unsent("Why", (YEW,)))
    assert store._connection.total_changes - before == 1 + len(messages) + 1


def test_what_is_deleted_of_a_chat_comes_back_with_its_pictures(store: Store, path: Path) -> None:
    conversation = chat(OAK)
    record = save(store, conversation)
    store.delete_messages(record.id, [each.id for each in conversation.messages], 77)
    assert store.messages(record.id) == []
    assert kept(path) == {OAK.picture}
    store.restore_messages(record.id, 77)
    assert read(store, record).messages[0].attachments == (OAK,)


def test_old_deleted_chats_go_with_their_pictures(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = save(store, chat(OAK))
    store.save_unsent(record.id, Unsent("Why", (YEW,)))
    store.delete(record.id)
    later = time.time() + MONTH_SECONDS
    monkeypatch.setattr("app.chat.archive.store.time.time", lambda: later)
    store._purge()
    assert kept(path) == set()


def test_an_unsent_text_keeps_its_pictures_until_it_is_sent(path: Path) -> None:
    store = Store(path)
    for unsent in (Unsent("a", (OAK,)), Unsent("a", (OAK, NOTES, YEW)), Unsent("b", (YEW, OAK, OAK))):
        store.save_unsent(7, unsent)
        assert store.unsent_texts() == ({7: unsent}, [7])
    store.save_unsent(7, Unsent("b", (YEW,)))
    assert kept(path) == {YEW.picture}
    store.close()
    again = Store(path)
    assert again.unsent_texts()[0][7].attachments == (YEW,)
    record = save(again, chat(YEW))
    again.save_unsent(7, Unsent())
    assert kept(path) == {YEW.picture}
    assert read(again, record).messages[0].attachments == (YEW,)
    again.close()


def test_a_file_of_before_gets_what_it_lacks(path: Path) -> None:
    store = Store(path)
    record = save(store, chat(NOTES))
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        names = ("message_pictures", "unsent_pictures", "pictures")
        for each in names:
            assert each in PICTURE_TABLES
            connection.execute(f"DROP TABLE {each}")
    again = Store(path)
    assert read(again, record).messages[0].attachments == (NOTES,)
    assert read(again, save(again, chat(OAK))).messages[0].attachments == (OAK,)
    again.close()


# ---- files ----------------------------------------------------------------------------------------------------------


def test_a_file_with_every_version_has_the_pictures() -> None:
    conversation = chat(OAK, NOTES)
    conversation.ask_differently(conversation.messages[0].id, "And it?", (YEW,))
    record, _ = records_of(conversation, "Trees")
    ((_, again),) = from_json(exported_json(record, conversation))
    (hidden, _), (shown, _) = again.hidden, again.messages
    assert hidden.attachments == (OAK, NOTES)
    assert shown.attachments == (YEW,)


@pytest.mark.parametrize("coded", ["%%%", "aGVsbG8=", "", 5, None])
def test_what_is_no_picture_is_left_out(coded: object) -> None:
    record, conversation = records_of(chat(OAK), "Trees")[0], chat(OAK)
    document = json.loads(exported_json(record, conversation))
    document["files"][0]["picture"] = coded
    document["files"][0].pop("text")
    ((_, again),) = from_json(json.dumps(document))
    assert again.messages[0].attachments == ()


def test_markdown_names_them() -> None:
    assert "\n## You\n\nPicture oak.png\n\nWhat is it?\n" in exported_markdown("Trees", chat(OAK).messages)


def test_where_nothing_can_be_saved_pictures_that_were_not_sent_are_saved_elsewhere(tmp_path: Path) -> None:
    assert write_copies(tmp_path, [], [Unsent("What is it?", (OAK, NOTES)), Unsent()]) == (2, "")
    assert (tmp_path / "oak.png").read_bytes() == OAK.picture
    assert (tmp_path / "Unsent text.txt").read_text("utf-8") == "What is it?"
