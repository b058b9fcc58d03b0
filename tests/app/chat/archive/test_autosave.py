"""What is on screen reaches the disk a little later, and comes back as it was."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.archive.autosave import Autosave
from app.chat.archive.chat_list import ChatList
from app.chat.archive.conversion import conversation_of, title_of
from app.chat.archive.store import Store
from app.chat.archive.worker import Archive
from app.chat.generation.controller import ChatController
from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Attachment
from app.chat.history.records import ConversationRecord, MessageRecord
from app.engine.state import EngineState, Phase
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from tests.app.fake_engine import loaded
from tests.app.fake_link import FakeLink


class Desk:
    """A controller and its autosave, with a real file behind them."""

    def __init__(self, link: FakeLink, settings: SettingsFile, path: Path) -> None:
        self.link = link
        self.path = path
        self.chat = ChatController(link, settings)
        self.archive = Archive(path)
        self.autosave = Autosave(self.chat, ChatList(self.archive, self.archive))
        link.events_arrived.connect(self.chat.on_events)
        self.chat.on_engine_state(EngineState(Phase.READY, pair=loaded(1)))
        self.archive.start()

    def converse(self, question: str, answer: str) -> None:
        """A whole turn."""
        self.chat.ask(question)
        self.link.say(answer)
        self.link.finish()

    def close(self) -> None:
        """Write everything, and end."""
        self.autosave.save()
        self.archive.close()
        assert self.archive.wait(10_000)


@pytest.fixture
def open_desk(
    qapp: QApplication, link: FakeLink, settings: SettingsFile, tmp_path: Path
) -> Iterator[Callable[[], Desk]]:
    desks: list[Desk] = []

    def make() -> Desk:
        desks.append(Desk(link, settings, tmp_path / "chats.sqlite3"))
        return desks[-1]

    yield make
    for desk in desks:
        if desk.archive.isRunning():
            desk.close()


def test_a_conversation_comes_into_the_list_with_its_first_question(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    assert desk.autosave.records == []
    desk.chat.ask("What is a coppice?")
    (record,) = desk.autosave.records
    assert record.shown_title == "What is a coppice?"
    assert record.id == desk.autosave.current


def test_a_growing_answer_is_on_disk_before_it_ends(open_desk: Callable[[], Desk], qtbot: QtBot) -> None:
    desk = open_desk()
    desk.chat.ask("Which tree?")
    desk.link.say("A larch")
    with qtbot.waitSignal(desk.archive.listed):
        desk.archive.list_all()  # the file is there
    qtbot.waitUntil(lambda: "A larch" in texts_in(desk.path, desk.autosave.current))


def texts_in(path: Path, conversation: int) -> list[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT text FROM messages WHERE conversation = ?", (conversation,))
        return [text for (text,) in rows]


def test_the_next_start_finds_everything_as_it_was(open_desk: Callable[[], Desk], qtbot: QtBot) -> None:
    desk = open_desk()
    desk.converse("one", "eins")
    desk.chat.regenerate()
    desk.link.say("un")
    desk.link.finish(passes=7)
    desk.close()
    again = open_desk()
    with qtbot.waitSignal(again.autosave.conversations_changed):
        again.archive.list_all()
    with qtbot.waitSignal(again.chat.conversation_replaced):
        again.autosave.open(desk.autosave.current)
    messages = again.chat.conversation.messages
    assert [each.text for each in messages] == ["one", "un"]
    assert messages[1].statistics is not None
    assert messages[1].statistics.passes == 7
    again.chat.show_version(messages[1].id, 0)
    assert again.chat.conversation.messages[1].text == "eins"


def test_settings_attachments_and_where_reading_begins_are_kept(open_desk: Callable[[], Desk], qtbot: QtBot) -> None:
    desk = open_desk()
    files = (Attachment("a.py", "print(1)", "in part"),)
    desk.chat.change_settings(GenerationSettings(temperature=0.1, system_prompt="Be kind."))
    assert desk.autosave.records == [], "settings alone are no conversation"
    desk.chat.ask("", files)
    desk.link.finish()
    desk.converse("two", "zwei")
    desk.chat.conversation.read_from(1)
    desk.chat.set_speculation(False)
    desk.close()
    again = open_desk()
    with qtbot.waitSignal(again.autosave.conversations_changed):
        again.archive.list_all()
    with qtbot.waitSignal(again.chat.first_read_changed) as reading:
        again.autosave.open(desk.autosave.current)
    assert reading.args == [1]
    assert again.chat.generation == GenerationSettings(temperature=0.1, system_prompt="Be kind.", speculates=False)
    assert again.chat.conversation.messages[0].attachments == files
    assert again.autosave.records[0].shown_title == "a.py"
    again.autosave.duplicate(desk.autosave.current)
    qtbot.waitUntil(lambda: len(again.autosave.records) == 2)
    copy, original = (each.settings for each in again.autosave.records)
    assert copy["generation"] == original["generation"]
    assert copy["reads_from"] != original["reads_from"], "the same question of the copy"


def test_opening_another_conversation_leaves_the_first_one_whole(open_desk: Callable[[], Desk], qtbot: QtBot) -> None:
    desk = open_desk()
    desk.converse("one", "eins")
    first = desk.autosave.current
    desk.chat.start_new_chat()
    desk.converse("two", "zwei")
    with qtbot.waitSignal(desk.chat.conversation_replaced):
        desk.autosave.open(first)
    assert [each.text for each in desk.chat.conversation.messages] == ["one", "eins"]
    assert {each.shown_title for each in desk.autosave.records} == {"one", "two"}
    assert desk.autosave.current == first


def test_a_running_answer_is_stopped_and_kept_when_another_conversation_is_opened(
    open_desk: Callable[[], Desk], qtbot: QtBot
) -> None:
    desk = open_desk()
    desk.converse("one", "eins")
    first = desk.autosave.current
    desk.chat.start_new_chat()
    desk.chat.ask("two")
    desk.link.say("zw")
    second = desk.autosave.current
    with qtbot.waitSignal(desk.chat.conversation_replaced):
        desk.autosave.open(first)
    with qtbot.waitSignal(desk.chat.conversation_replaced):
        desk.autosave.open(second)
    last = desk.chat.conversation.last_answer
    assert last is not None
    assert (last.text, last.ending) == ("zw", AnswerEnding.STOPPED)


def test_a_deleted_conversation_leaves_the_screen_and_comes_back_whole(
    open_desk: Callable[[], Desk], qtbot: QtBot
) -> None:
    desk = open_desk()
    desk.converse("one", "eins")
    record = desk.autosave.records[0]
    desk.autosave.delete(record.id)
    assert desk.chat.conversation.is_empty
    assert desk.autosave.records == []
    desk.autosave.restore(record)
    with qtbot.waitSignal(desk.chat.conversation_replaced):
        desk.autosave.open(record.id)
    assert [each.text for each in desk.chat.conversation.messages] == ["one", "eins"]


def test_renamed_pinned_and_moved_conversations_stay_so(open_desk: Callable[[], Desk], qtbot: QtBot) -> None:
    desk = open_desk()
    desk.converse("one", "eins")
    desk.chat.start_new_chat()
    desk.converse("two", "zwei")
    older = desk.autosave.records[1].id
    desk.autosave.rename(older, "  Numbers \n in German ")
    desk.autosave.pin(older, True)
    desk.autosave.move(older, "School")
    desk.close()
    again = open_desk()
    with qtbot.waitSignal(again.autosave.conversations_changed):
        again.archive.list_all()
    first = again.autosave.records[0]
    assert (first.id, first.shown_title, first.folder, first.is_pinned) == (older, "Numbers in German", "School", True)
    again.autosave.rename(older, "")
    assert again.autosave.records[0].shown_title == "one"


def test_a_copy_appears_in_the_list(open_desk: Callable[[], Desk], qtbot: QtBot) -> None:
    desk = open_desk()
    desk.converse("one", "eins")
    with qtbot.waitSignal(desk.archive.duplicated):
        desk.autosave.duplicate(desk.autosave.current)
    assert sorted(each.shown_title for each in desk.autosave.records) == ["one", "one (copy)"]


def test_copies_that_are_asked_for_at_once_are_all_in_the_list(open_desk: Callable[[], Desk], qtbot: QtBot) -> None:
    desk = open_desk()
    desk.converse("one", "eins")
    with qtbot.waitSignals([desk.archive.duplicated] * 2):
        desk.autosave.duplicate(desk.autosave.current)
        desk.autosave.duplicate(desk.autosave.current)
    assert sorted(each.shown_title for each in desk.autosave.records) == ["one", "one (copy)", "one (copy)"]


def test_an_empty_chat_is_not_kept(open_desk: Callable[[], Desk]) -> None:
    desk = open_desk()
    desk.chat.show_conversation(Conversation())
    desk.autosave.save()
    desk.close()
    assert Store(desk.path).conversations() == []


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("What is a coppice?", "What is a coppice?"),
        ("\n\n  two   words\nand more", "two words"),
        ("word " * 40, "word word word word word word word word word word word word…"),
        ("x" * 100, "x" * 60 + "…"),
        ("  \n", ""),
    ],
)
def test_a_title_is_the_first_line_cut_at_a_word(question: str, title: str) -> None:
    assert title_of(question) == title


def test_strange_records_lose_no_text() -> None:
    record = ConversationRecord(1, leaf=10)
    question = MessageRecord(10, 1, 0, "user", "lonely")
    odd = MessageRecord(11, 1, 0, "user", "other")
    answer = MessageRecord(12, 1, 11, "assistant", "text", "unheard-of", {"statistics": {"passes": 3, "magic": 1}})
    conversation = conversation_of(record, [question, odd, answer])
    assert [each.text for each in conversation.messages] == ["lonely", ""]
    assert conversation.last_answer is not None
    assert conversation.last_answer.ending is AnswerEnding.CLOSED
    conversation.show_version(10, 1)
    assert [each.text for each in conversation.messages] == ["other", "text"]
    assert conversation.messages[1].statistics is not None
    assert conversation.messages[1].statistics.passes == 3
