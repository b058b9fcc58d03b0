"""What is written and not sent belongs to its chat, and is there at the next start."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.chat.archive.store import Store
from app.chat.composer.composer import Composer
from app.chat.history.conversation import Conversation
from app.chat.history.message import Attachment
from app.chat.history.records import ConversationRecord
from app.chat.history.unsent import Unsent, unsent_details, unsent_of
from app.shell.window import MainWindow
from app.system.paths import Folders
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink

UNSENT = Unsent("What is an", (Attachment("notes.txt", "An oak."),), "It is")


def composer(window: MainWindow) -> Composer:
    return window.chat_panel.composer


def converse(window: MainWindow, link: FakeLink, question: str) -> int:
    """A whole turn of a new chat; returns its id."""
    window.chat.show_conversation(Conversation())
    window.chat.ask(question)
    link.say("Yes.")
    link.finish()
    return window.conversations.autosave.current


def go_to(window: MainWindow, conversation: int, qtbot: QtBot) -> None:
    window.conversations.autosave.open(conversation)
    qtbot.waitUntil(lambda: window.chat.conversation.id == conversation)


def kept(folders: Folders) -> list[Unsent]:
    store = Store(folders.chats_file)
    texts, _ = store.unsent_texts()
    store.close()
    return list(texts.values())


def wait_for_list(window: MainWindow, qtbot: QtBot) -> None:
    """Orders are carried out in turn: what was asked for before has come."""
    archive = window.program.chats.archive
    with qtbot.waitSignal(archive.found):
        archive.search("nothing")


def restarted(window: MainWindow, open_window: OpenWindow, qtbot: QtBot) -> MainWindow:
    """Another program with the same folders, which has read the list."""
    window.program.quit()
    link = FakeLink()
    opened = open_window(link)
    wait_for_list(opened, qtbot)
    link.become_ready()
    return opened


def test_what_is_written_stays_with_its_chat(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    first, second = converse(window, link, "one"), converse(window, link, "two")
    composer(window).show_unsent(UNSENT)
    go_to(window, first, qtbot)
    assert composer(window).unsent.is_empty, "one Enter away from the wrong conversation"
    assert composer(window).beginning.isHidden()
    composer(window).field.setPlainText("another")
    go_to(window, second, qtbot)
    assert composer(window).unsent == UNSENT
    assert not composer(window).beginning.isHidden()
    go_to(window, first, qtbot)
    assert composer(window).unsent == Unsent("another")


def test_what_is_sent_is_no_unsent_text_any_more(
    window: MainWindow, link: FakeLink, qtbot: QtBot, folders: Folders
) -> None:
    first = converse(window, link, "one")
    composer(window).field.setPlainText("two")
    composer(window).button.click()
    link.finish()
    converse(window, link, "three")
    go_to(window, first, qtbot)
    assert composer(window).unsent.is_empty
    window.program.quit()
    assert kept(folders) == []


def test_the_unsent_text_of_a_chat_is_there_after_a_restart(
    window: MainWindow, link: FakeLink, qtbot: QtBot, open_window: OpenWindow
) -> None:
    here = converse(window, link, "one")
    composer(window).show_unsent(UNSENT)
    again = restarted(window, open_window, qtbot)
    assert composer(again).unsent.is_empty, "a new chat is shown"
    go_to(again, here, qtbot)
    assert composer(again).unsent == UNSENT


def test_the_unsent_text_of_a_new_chat_is_there_after_a_restart(
    window: MainWindow, qtbot: QtBot, open_window: OpenWindow, folders: Folders
) -> None:
    composer(window).field.setPlainText("What is")
    again = restarted(window, open_window, qtbot)
    assert composer(again).unsent == Unsent("What is")
    assert again.conversations.autosave.records == [], "a chat is listed from its first question on"
    again = restarted(again, open_window, qtbot)
    assert composer(again).unsent == Unsent("What is")
    composer(again).field.clear()
    again.program.quit()
    assert kept(folders) == []


def test_a_new_chat_goes_on_with_what_was_written_in_the_last_new_one(
    window: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    here = converse(window, link, "one")
    window.actions_.new_chat.trigger()
    composer(window).field.setPlainText("What is")
    go_to(window, here, qtbot)
    assert composer(window).unsent.is_empty
    window.actions_.new_chat.trigger()
    assert composer(window).unsent == Unsent("What is")


def test_two_windows_with_new_chats_have_unsent_texts_of_their_own(window: MainWindow, qtbot: QtBot) -> None:
    composer(window).field.setPlainText("here")
    window.actions_.new_window.trigger()
    qtbot.waitUntil(lambda: len(window.program.windows) == 2 and window.program.windows[-1].isVisible())
    other = window.program.windows[-1]
    assert composer(other).unsent.is_empty
    composer(other).field.setPlainText("there")
    other.close()
    assert composer(window).unsent == Unsent("here")
    window.chat.show_conversation(Conversation())
    assert composer(window).unsent == Unsent("here"), "what was written last in a new chat"
    assert len(window.program.windows) == 1


def test_what_a_person_has_begun_to_write_is_not_replaced(
    window: MainWindow, qtbot: QtBot, open_window: OpenWindow
) -> None:
    composer(window).field.setPlainText("before")
    window.program.quit()
    again = open_window(FakeLink())
    composer(again).field.setPlainText("now")
    wait_for_list(again, qtbot)
    assert composer(again).unsent == Unsent("now")


def test_a_file_that_is_still_being_read_stays_with_its_chat(
    window: MainWindow, link: FakeLink, qtbot: QtBot, tmp_path: Path
) -> None:
    first, second = converse(window, link, "one"), converse(window, link, "two")
    file = tmp_path / "notes.txt"
    file.write_text("An oak.")
    composer(window).attach([file])
    assert composer(window).unsent.unread == (str(file),)
    go_to(window, first, qtbot)
    assert composer(window).unsent.is_empty
    go_to(window, second, qtbot)
    qtbot.waitUntil(lambda: composer(window).unsent.attachments == (Attachment("notes.txt", "An oak."),))


def test_an_unsent_text_of_a_deleted_chat_comes_back_with_it(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    here = converse(window, link, "one")
    composer(window).field.setPlainText("two")
    window.conversations.delete(here)
    assert composer(window).unsent.is_empty
    window.conversations.undo_delete()
    qtbot.waitUntil(lambda: window.chat.conversation.id == here)
    assert composer(window).unsent == Unsent("two")


def test_a_file_of_an_older_version_gets_room_for_unsent_texts_and_stays_readable_for_it(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("DROP TABLE unsent_texts")
        connection.commit()
    store = Store(path)
    store.save_unsent(7, UNSENT)
    assert store.unsent_texts() == ({7: UNSENT}, [7])
    store.save(ConversationRecord(7))
    assert store.unsent_texts() == ({7: UNSENT}, [])
    store.save_unsent(7, Unsent())
    assert store.unsent_texts() == ({}, [])
    assert version == 4, "an older version would put a newer file aside"
    store.close()


def test_unsent_texts_of_chats_that_are_gone_for_good_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "chats.sqlite3")
    for each in (1, 2):
        store.save(ConversationRecord(each))
        store.save_unsent(each, UNSENT)
    store.delete(1)
    monkeypatch.setattr("app.chat.archive.store._KEPT_SECONDS", -1)
    store.close()
    again = Store(tmp_path / "chats.sqlite3")
    assert again.unsent_texts() == ({2: UNSENT}, [])
    again.close()


@pytest.mark.parametrize("kept", [None, [], {"text": 5, "attachments": "x", "unread": [1], "beginning": {}}])
def test_what_is_no_unsent_text_is_read_as_none(kept: object) -> None:
    assert unsent_of(kept) == Unsent()
    assert unsent_of(unsent_details(UNSENT)) == UNSENT
