"""What is told of chats on their way: an opening that takes long, imports, and exports that fail."""

import errno
import threading
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.chat.archive.store import Store
from app.chat.archive.worker import Archive
from app.chat.conversations import EXCHANGE_NOTICE, OPENING_NOTICE
from tests.app.chat.desk import Desk, bring_in, choose
from tests.app.chat.test_conversations import PATIENCE_SECONDS, chats


def test_a_chat_that_takes_long_to_open_says_so_and_can_be_left(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = desk.converse("one"), desk.converse("two")
    may_read = threading.Event()
    messages = Archive._messages

    def wait(archive: Archive, store: Store, conversation: int) -> object:
        may_read.wait(PATIENCE_SECONDS)
        return messages(archive, store, conversation)

    monkeypatch.setattr(Archive, "_messages", wait)
    withdrawn: list[str] = []
    desk.conversations.notice_withdrawn.connect(withdrawn.append)
    desk.conversations._slow.setInterval(1)
    desk.conversations.panel.opened.emit(first)
    qtbot.waitUntil(lambda: bool(desk.told(OPENING_NOTICE)))
    (told,) = desk.told(OPENING_NOTICE)
    assert "one" in told.message
    withdrawn.clear()
    assert told.on_action is not None
    told.on_action()
    assert withdrawn == [OPENING_NOTICE]
    assert desk.chat.conversation.id == second
    withdrawn.clear()
    may_read.set()
    desk.conversations.panel.opened.emit(first)
    qtbot.waitUntil(lambda: desk.chat.conversation.id == first)
    assert OPENING_NOTICE in withdrawn
    assert not desk.conversations._slow.isActive()


def test_of_many_files_that_cannot_be_read_it_is_said_how_many_more_there_are(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = [tmp_path / f"{number}.json" for number in range(6)]
    for each in files[1:]:
        each.write_text("{")
    files[0].write_text(chats(1))
    bring_in(desk, qtbot, monkeypatch, *files)
    qtbot.waitUntil(lambda: bool(desk.told(EXCHANGE_NOTICE)))
    (told,) = desk.told(EXCHANGE_NOTICE)
    assert "3.json" in told.hint
    assert "4.json" not in told.hint
    assert "In 2 more files" in told.hint


@pytest.mark.usefixtures("german")
def test_a_full_disk_is_told_in_the_language_of_the_person_with_what_to_do(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    chat = desk.converse("eins")
    choose(monkeypatch, tmp_path / "chat.md")
    monkeypatch.setattr("app.chat.archive.exchange.formats.write_chosen", refuse)
    desk.conversations.export(chat)
    qtbot.waitUntil(lambda: bool(desk.told(EXCHANGE_NOTICE)))
    (told,) = desk.told(EXCHANGE_NOTICE)
    assert "die Platte ist voll" in told.message
    assert "einen anderen Ort" in told.hint


def test_what_became_of_the_last_import_is_gone_when_the_next_one_begins(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken, whole = tmp_path / "broken.json", tmp_path / "whole.json"
    broken.write_text("{")
    whole.write_text(chats(1))
    bring_in(desk, qtbot, monkeypatch, broken)
    qtbot.waitUntil(lambda: bool(desk.told(EXCHANGE_NOTICE)))
    withdrawn: list[str] = []
    desk.conversations.notice_withdrawn.connect(withdrawn.append)
    bring_in(desk, qtbot, monkeypatch, whole)
    assert EXCHANGE_NOTICE in withdrawn
    assert len(desk.told(EXCHANGE_NOTICE)) == 1, "one chat is shown, and nothing said"
