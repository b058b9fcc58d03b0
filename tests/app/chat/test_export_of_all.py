"""All chats go into one file and come back from it: told while it takes long, stopped, and whole or not at all."""

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.chat.archive.exchange import exporting
from app.chat.archive.exchange.exporting import Exporting
from app.chat.archive.store import Store
from app.chat.conversations import EXCHANGE_NOTICE, EXPORT_NOTICE
from app.ui.notices import Notice, Tone
from tests.app.chat.desk import Desk, bring_in, choose

PATIENCE_SECONDS = 30.0


def all_exported(desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, path: Path) -> Notice:
    """What is told of an export of all chats into a file."""
    choose(monkeypatch, path)
    with qtbot.waitSignal(desk.conversations.archive.all_exported):
        desk.conversations.export_all()
    return desk.told(EXCHANGE_NOTICE)[-1]


def test_all_chats_go_into_one_file_and_come_back_from_it(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = desk.converse("one"), desk.converse("two")
    desk.chat.regenerate()
    desk.link.say("Another answer")
    desk.link.finish()
    desk.conversations.autosave.move(first, "Work")
    desk.conversations.autosave.pin(second, True)
    told = all_exported(desk, qtbot, monkeypatch, tmp_path / "all.json")
    assert told.message == f"2 chats were exported to {tmp_path / 'all.json'}."
    assert told.tone is Tone.HINT
    before = {each.id: each for each in desk.conversations.autosave.records}
    bring_in(desk, qtbot, monkeypatch, tmp_path / "all.json")
    assert set(before) == {each.id for each in desk.conversations.autosave.records}
    assert desk.told(EXCHANGE_NOTICE)[-1].hint == "2 chats were left out, as they are there already."
    for each in before:
        desk.conversations.delete(each)
    bring_in(desk, qtbot, monkeypatch, tmp_path / "all.json")
    made = desk.conversations.autosave.records
    assert len(made) == len(before) == 2
    assert {(each.folder, each.is_pinned, each.created, each.updated) for each in made} == {
        (each.folder, each.is_pinned, each.created, each.updated) for each in before.values()
    }
    desk.conversations.autosave.open(next(each.id for each in made if each.is_pinned))
    qtbot.waitUntil(lambda: desk.chat.conversation.id in {each.id for each in made if each.is_pinned})
    answer = desk.chat.conversation.messages[1]
    assert [each.text for each in desk.chat.conversation.versions(answer.id)] == ["Answer to two", "Another answer"]


def test_an_export_that_takes_long_tells_how_far_it_is_and_can_be_stopped(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number in range(3):
        desk.converse(f"question {number}")
    monkeypatch.setattr(exporting, "_STEP_SECONDS", 0.0)
    told = all_exported(desk, qtbot, monkeypatch, tmp_path / "all.json")
    assert told.message.startswith("3 chats")
    assert desk.told(EXPORT_NOTICE) == [], "what is over at once needs none"
    monkeypatch.setattr("app.chat.conversations._QUIET_SECONDS", 0.0)
    step, stopped = Exporting.step, threading.Event()

    def step_on(self: Exporting, store: Store) -> None:
        assert not self.so_far.count or stopped.wait(PATIENCE_SECONDS)
        step(self, store)

    def stop(notice: Notice) -> None:
        if notice.key == EXPORT_NOTICE and notice.on_action is not None:
            notice.on_action()
            stopped.set()

    monkeypatch.setattr(Exporting, "step", step_on)
    desk.conversations.notice_raised.connect(stop)
    told = all_exported(desk, qtbot, monkeypatch, tmp_path / "other.json")
    assert told.message == "The export was stopped; no file was written."
    assert desk.told(EXPORT_NOTICE)[0].message == "Exporting chats: 1 of 3."
    assert [each.name for each in tmp_path.glob("*other*")] == []


def test_an_export_that_cannot_be_written_says_why(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    desk.converse("one")
    told = all_exported(desk, qtbot, monkeypatch, tmp_path / "missing" / "all.json")
    assert "could not be written: No such file or directory." in told.message
    assert told.tone is Tone.ERROR


def test_a_chat_that_cannot_be_read_is_named_and_the_others_are_exported(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = desk.converse("one")
    messages = Store.messages

    def refuse(self: Store, conversation: int) -> Any:
        if conversation == broken:
            raise sqlite3.DatabaseError("database disk image is malformed")
        return messages(self, conversation)

    monkeypatch.setattr(Store, "messages", refuse)
    told = all_exported(desk, qtbot, monkeypatch, tmp_path / "all.json")
    assert "could not be written: database disk image is malformed." in told.message
    desk.converse("two")
    told = all_exported(desk, qtbot, monkeypatch, tmp_path / "all.json")
    assert told.message.startswith("1 chat")
    assert told.hint.endswith("could not be read (database disk image is malformed): “one”")
    assert told.tone is Tone.ERROR
