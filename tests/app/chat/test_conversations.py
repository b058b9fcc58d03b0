"""Chats go out to files and come in from them: each export to its own, an import in steps, with a way to stop it."""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from app.chat.archive.exchange import importing
from app.chat.archive.exchange.importing import Importing
from app.chat.archive.store import Store
from app.chat.archive.worker import Archive
from app.chat.conversations import (
    DELETED_NOTICE,
    EXCHANGE_NOTICE,
    IMPORT_NOTICE,
    REMOVED_NOTICE,
)
from app.chat.history.conversation import Conversation
from app.chat.history.records import ConversationRecord
from app.chat.sidebar.model import ConversationModel
from app.settings.store import SettingsFile
from app.ui.notices import Notice, NoticeStack, Tone
from app.ui.theme import Theme
from tests.app.chat.desk import Desk, bring_in, choose
from tests.app.fake_link import FakeLink

PATIENCE_SECONDS = 30.0


def chats(count: int) -> str:
    return json.dumps(
        [{"title": f"Chat {n}", "messages": [{"role": "user", "content": f"Q{n}"}]} for n in range(count)]
    )


# ---- exports --------------------------------------------------------------------------------------------------------


def test_exports_at_once_go_each_to_its_own_file_and_show_nothing(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = desk.converse("one"), desk.converse("two")
    desk.chat.show_conversation(Conversation())
    desk.chat.ask("three")  # its answer is running
    choose(monkeypatch, *(tmp_path / name for name in ("one.md", "two.md", "again.json")))
    for conversation in (first, second, first):
        desk.conversations.export(conversation)
    qtbot.waitUntil(lambda: len(desk.told(EXCHANGE_NOTICE)) == 3)
    assert "Answer to one" in (tmp_path / "one.md").read_text()
    assert "Answer to two" in (tmp_path / "two.md").read_text()
    assert json.loads((tmp_path / "again.json").read_text())["messages"][1]["content"] == "Answer to one"
    assert desk.chat.is_answering
    assert desk.chat.conversation.messages[0].text == "three"


def test_a_chat_that_is_opened_while_it_is_exported_is_shown(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = desk.converse("one"), desk.converse("two")
    choose(monkeypatch, tmp_path / "one.md", tmp_path / "two.md")
    desk.conversations.export(first)
    desk.conversations.panel.opened.emit(first)
    desk.conversations.export(second)
    qtbot.waitUntil(lambda: len(desk.told(EXCHANGE_NOTICE)) == 2)
    qtbot.waitUntil(lambda: desk.chat.conversation.id == first)
    assert (tmp_path / "one.md").exists()
    assert (tmp_path / "two.md").exists()


def test_a_chat_that_comes_late_does_not_stop_an_answer(desk: Desk, qtbot: QtBot) -> None:
    first, second = desk.converse("one"), desk.converse("two")
    desk.conversations.panel.opened.emit(first)  # it is read in another thread
    desk.chat.ask("and more")
    with qtbot.waitSignal(desk.conversations.archive.listed):
        desk.conversations.archive.list_all()
    assert desk.chat.is_answering
    assert desk.chat.conversation.id == second


def test_of_two_chats_that_are_opened_the_last_one_is_shown(desk: Desk, qtbot: QtBot) -> None:
    ids = [desk.converse(text) for text in ("one", "two", "three")]
    shown: list[int] = []
    desk.chat.conversation_replaced.connect(lambda conversation: shown.append(conversation.id))
    desk.conversations.panel.opened.emit(ids[0])
    desk.conversations.panel.opened.emit(ids[1])
    qtbot.waitUntil(lambda: bool(shown))
    assert shown == [ids[1]]


@pytest.mark.parametrize("name", ["folder/notes.md", "full.md"])
def test_an_export_that_fails_says_why_and_leaves_the_old_file(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    (tmp_path / "full.md").write_text("old")
    monkeypatch.setattr("engine.files._mark", lambda: "taken")
    (tmp_path / "full.md.taken.part").mkdir()  # nothing can be written beside it
    choose(monkeypatch, tmp_path / name)
    desk.conversations.export(desk.converse("one"))
    qtbot.waitUntil(lambda: bool(desk.told(EXCHANGE_NOTICE)))
    (told,) = desk.told(EXCHANGE_NOTICE)
    assert "could not be written" in told.message
    assert told.tone is Tone.ERROR
    assert (tmp_path / "full.md").read_text() == "old"


# ---- imports --------------------------------------------------------------------------------------------------------


def steps_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten chats in each step of an import, however long they take."""
    monkeypatch.setattr(importing, "_STEP_CHATS", 10)
    monkeypatch.setattr(importing, "_STEP_SECONDS", PATIENCE_SECONDS)


class Counts:
    """How often the costly things happen."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lists = self.rows = self.shown = self.statements = self.transactions = 0
        desk.conversations.autosave.conversations_changed.connect(self._on_list)
        desk.chat.conversation_replaced.connect(lambda _: setattr(self, "shown", self.shown + 1))
        save_all, show_rows = Store.save_all, ConversationModel.show_rows

        def saving(store: Store, batch: Any) -> None:
            self.transactions += 1
            self.statements += len(batch)
            save_all(store, batch)

        def showing(model: ConversationModel, rows: Any) -> None:
            self.rows += len(rows)
            show_rows(model, rows)

        monkeypatch.setattr(Store, "save_all", saving)
        monkeypatch.setattr(ConversationModel, "show_rows", showing)

    def _on_list(self, _records: object) -> None:
        self.lists += 1


@pytest.mark.parametrize("count", [60, 600])
def test_what_an_import_costs_grows_with_the_number_of_chats_alone(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, count: int
) -> None:
    """The list is made once, one chat is shown, each is written once, and many in one transaction."""
    file = tmp_path / "history.json"
    file.write_text(chats(count))
    monkeypatch.setattr(importing, "_STEP_SECONDS", PATIENCE_SECONDS)
    counts = Counts(desk, monkeypatch)
    bring_in(desk, qtbot, monkeypatch, file)
    qtbot.waitUntil(lambda: counts.shown == 1)
    assert desk.chat.conversation.messages[0].text == f"Q{count - 1}"
    assert counts.statements == count
    assert counts.transactions <= count / 50 + 2
    assert counts.lists <= 2
    assert counts.rows <= 2 * (count + 5)
    assert len(desk.conversations.autosave.records) == count


def test_an_import_tells_how_far_it_is_and_is_stopped_with_what_it_has(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "history.json"
    file.write_text(chats(3000))
    steps_of_ten(monkeypatch)
    step, stopped = Importing.step, threading.Event()

    def step_on(self: Importing, store: Store) -> None:
        assert not self.records or stopped.wait(PATIENCE_SECONDS)  # else all may be there before the window knows
        step(self, store)

    def stop(*_: object) -> None:
        desk.conversations.stop_import()
        stopped.set()

    monkeypatch.setattr(Importing, "step", step_on)
    desk.conversations.archive.import_progressed.connect(stop)
    bring_in(desk, qtbot, monkeypatch, file)
    told = desk.told(IMPORT_NOTICE)[0]
    assert "history.json" in told.message
    assert "so far: 10." in told.message
    assert told.action == "Stop"
    records = desk.conversations.autosave.records
    assert 10 <= len(records) < 3000
    (result,) = desk.told(EXCHANGE_NOTICE)
    assert result.message == f"The import was stopped. Conversations imported: {len(records):,}."
    desk.close()
    with closing(sqlite3.connect(tmp_path / "chats.sqlite3")) as connection:
        assert connection.execute("SELECT count(*) FROM conversations").fetchone() == (len(records),)


def test_an_answer_is_saved_while_an_import_goes_on(qtbot: QtBot, tmp_path: Path, settings: SettingsFile) -> None:
    from app.chat.history.records import ConversationRecord, MessageRecord

    file = tmp_path / "history.json"
    file.write_text(chats(500))
    archive = Archive(tmp_path / "chats.sqlite3")
    order: list[str] = []
    archive.listed.connect(lambda records: order.append(f"listed {len(records) < 500}"))
    archive.imported.connect(lambda *_: order.append("imported"))
    archive.import_files([file], settings.current.generation)
    archive.save(ConversationRecord(1, title="Now"), [MessageRecord(2, 1, 0, "user", "Now")])
    archive.list_all()
    with qtbot.waitSignal(archive.imported):
        archive.start()
    archive.close()
    assert archive.wait(10_000)
    assert order == ["listed True", "imported"]


def test_the_end_of_the_program_does_not_wait_for_an_import(
    qtbot: QtBot, tmp_path: Path, settings: SettingsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps_of_ten(monkeypatch)
    file = tmp_path / "history.json"
    file.write_text(chats(500))
    archive = Archive(tmp_path / "chats.sqlite3")
    archive.import_files([file], settings.current.generation)
    archive.close()
    archive.start()
    assert archive.wait(10_000)
    store = Store(tmp_path / "chats.sqlite3")
    assert len(store.conversations()) == 10
    store.close()


def test_what_is_no_conversation_is_left_out_and_counted(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "mixed.json", tmp_path / "broken.json"
    whole.write_text(chats(2)[:-1] + ', {"messages": 7}, {}, 3]')
    broken.write_text("{")
    bring_in(desk, qtbot, monkeypatch, whole, broken, tmp_path / "missing.md")
    assert len(desk.conversations.autosave.records) == 2
    (told,) = desk.told(EXCHANGE_NOTICE)
    assert told.message == "Conversations imported: 2."
    for words in (
        "mixed.json: The file holds no messages",
        "broken.json: The file is not JSON",
        "missing.md",
        "conversations: 3.",
    ):
        assert words in told.hint


@pytest.mark.parametrize("has_lm_studio", [True, False])
def test_a_folder_is_imported_and_empty_chats_are_told(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_lm_studio: bool
) -> None:
    home = tmp_path / "home"
    folder = home / ".lmstudio" / "conversations"
    (folder if has_lm_studio else tmp_path / "elsewhere").mkdir(parents=True)
    monkeypatch.setattr(Path, "home", lambda: home)
    for number in range(3):
        (tmp_path / f"{number}.json").write_text('{"name": "New", "createdAt": 5, "messages": []}')
    (tmp_path / "chats.json").write_text(chats(1))
    offered: list[str] = []

    def choose_folder(_parent: QWidget, _title: str, start: str) -> str:
        offered.append(start)
        return str(tmp_path)

    monkeypatch.setattr(QFileDialog, "getExistingDirectory", choose_folder)
    with qtbot.waitSignal(desk.conversations.archive.imported):
        desk.conversations.import_folder()
    assert (offered[0] == str(folder)) == has_lm_studio
    assert len(desk.conversations.autosave.records) == 1
    (told,) = desk.told(EXCHANGE_NOTICE)
    assert told.message == "Conversations imported: 1."
    assert told.hint.startswith("3 empty chats")
    assert told.tone is Tone.HINT


def test_what_was_imported_is_in_the_list_of_windows_that_stay(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "chats.json"
    path.write_text(chats(3), encoding="utf-8")
    with qtbot.waitSignal(desk.chats.archive.imported):
        desk.chats.archive.import_files([path], desk.chat.beginning)  # by a window that is closed now
    assert sorted(each.shown_title for each in desk.chats.records) == ["Chat 0", "Chat 1", "Chat 2"]


def test_progress_does_not_take_the_button_from_under_the_mouse(qtbot: QtBot) -> None:
    stack = NoticeStack()
    qtbot.addWidget(stack)
    notice = Notice("import", "1 so far", action="Stop", tone=Tone.HINT)
    stack.add(notice)
    bar = stack._bars["import"]
    stack.add(Notice("import", "2 so far", action="Stop", tone=Tone.HINT))
    assert stack._bars["import"] is bar
    assert stack.notices[0].message == "2 so far"
    assert bar._label.text() == "2 so far"
    stack.add(Notice("import", "over", tone=Tone.HINT))
    assert stack._bars["import"] is not bar


def _kept(path: Path, conversation: int) -> list[str]:
    """The texts of a conversation as the file has them, hidden ones too."""
    with closing(sqlite3.connect(path / "chats.sqlite3")) as reading:
        rows = reading.execute("SELECT text FROM messages WHERE conversation = ? ORDER BY created", (conversation,))
        return [text for (text,) in rows]


def test_a_message_is_deleted_in_the_file_too_and_can_be_brought_back(desk: Desk, qtbot: QtBot) -> None:
    current = desk.converse("one")
    with qtbot.waitSignal(desk.chats.archive.listed):
        desk.chats.archive.list_all()
    for question in ("two", "three"):
        desk.chat.ask(question)
        desk.link.say(f"Answer to {question}")
        desk.link.finish()
    desk.chat.delete(desk.chat.conversation.messages[2].id)
    others = ["one", "Answer to one", "three", "Answer to three"]
    qtbot.waitUntil(lambda: _kept(desk.path, current) == others)
    notice = desk.told(REMOVED_NOTICE)[-1]
    assert (notice.message, notice.action) == ("Question and answer were deleted.", "Undo")
    assert notice.on_action is not None
    notice.on_action()
    everything = ["one", "Answer to one", "two", "Answer to two", "three", "Answer to three"]
    qtbot.waitUntil(lambda: _kept(desk.path, current) == everything)
    assert [each.text for each in desk.chat.conversation.messages] == everything


def test_what_was_deleted_is_not_found_and_a_chat_is_not_named_after_it(desk: Desk, qtbot: QtBot) -> None:
    current = desk.converse("secret words")
    desk.chat.delete(desk.chat.conversation.messages[0].id)
    assert desk.chat.conversation.is_empty
    record = desk.conversations.autosave.record(current)
    assert record is not None
    assert record.shown_title == "New chat"
    found: list[object] = []
    desk.conversations.archive.found.connect(lambda _number, hits: found.append(hits))
    desk.conversations.archive.search("secret", 99)
    qtbot.waitUntil(lambda: bool(found))
    assert found == [[]]
    desk.conversations.undo_removal()
    record = desk.conversations.autosave.record(current)
    assert record is not None
    assert record.shown_title == "secret words"


def test_nothing_is_deleted_while_an_answer_is_written_and_another_chat_takes_the_way_back(desk: Desk) -> None:
    desk.converse("one")
    desk.chat.ask("two")
    desk.chat.delete(desk.chat.conversation.messages[0].id)
    assert len(desk.chat.conversation.messages) == 4
    desk.link.finish()
    desk.chat.delete(desk.chat.conversation.messages[0].id)
    withdrawn: list[str] = []
    desk.conversations.notice_withdrawn.connect(withdrawn.append)
    desk.chat.show_conversation(Conversation())
    assert REMOVED_NOTICE in withdrawn
    desk.conversations.undo_removal()
    assert desk.chat.conversation.is_empty


# ---- deleted chats --------------------------------------------------------------------------------------------------


def deleted_titles(desk: Desk) -> list[str]:
    dialog = desk.conversations.deleted_dialog.list
    return [dialog.item(row).text().partition(" · ")[0] for row in range(dialog.count())]


def test_deleted_chats_are_listed_and_brought_back_though_the_notice_is_gone(desk: Desk, qtbot: QtBot) -> None:
    first, second = desk.converse("one"), desk.converse("two")
    panel, dialog = desk.conversations.panel, desk.conversations.deleted_dialog
    assert panel.deleted_tool.isHidden()
    for each in (first, second):
        desk.conversations.delete(each)
    qtbot.waitUntil(lambda: not panel.deleted_tool.isHidden())
    panel.deleted_tool.click()
    assert dialog.isVisible()
    qtbot.waitUntil(lambda: deleted_titles(desk) == ["two", "one"])
    withdrawn: list[str] = []
    desk.conversations.notice_withdrawn.connect(withdrawn.append)
    dialog.list.selectAll()
    dialog.restore.click()
    assert {each.id for each in desk.chats.records} == {first, second}
    qtbot.waitUntil(lambda: deleted_titles(desk) == [])
    assert not dialog.empty.isHidden()
    assert not dialog.restore.isEnabled()
    assert panel.deleted_tool.isHidden()
    assert DELETED_NOTICE in withdrawn
    desk.conversations.autosave.rename(second, "renamed")
    desk.conversations.undo_delete()
    assert {each.shown_title for each in desk.chats.records} == {"one", "renamed"}, "what was restored stays as it is"
    dialog.close()


def test_enter_brings_back_the_deleted_chat_that_is_chosen_once_and_then_closes(desk: Desk, qtbot: QtBot) -> None:
    first, second = desk.converse("one"), desk.converse("two")
    for each in (first, second):
        desk.conversations.delete(each)
    desk.conversations.show_deleted()
    dialog, wanted = desk.conversations.deleted_dialog, list[list[ConversationRecord]]()
    dialog.restored.connect(wanted.append)
    qtbot.waitUntil(lambda: len(deleted_titles(desk)) == 2)
    for number in (1, 2):
        assert dialog.focusWidget() is dialog.list
        QTest.keyClick(dialog.list, Qt.Key.Key_Return)
        assert [len(each) for each in wanted] == [1] * number
        qtbot.waitUntil(lambda: len(deleted_titles(desk)) == 2 - len(wanted))
    assert {each.id for each in desk.chats.records} == {first, second}
    QTest.keyClick(dialog.focusWidget() or dialog, Qt.Key.Key_Return)
    assert not dialog.isVisible()


def test_deleted_chats_are_erased_only_by_those_who_say_so_twice(desk: Desk, qtbot: QtBot) -> None:
    first, second = desk.converse("one"), desk.converse("two")
    for each in (first, second):
        desk.conversations.delete(each)
    desk.conversations.show_deleted()
    dialog, withdrawn = desk.conversations.deleted_dialog, list[str]()
    desk.conversations.notice_withdrawn.connect(withdrawn.append)
    qtbot.waitUntil(lambda: deleted_titles(desk) == ["two", "one"])

    def press(role: QMessageBox.ButtonRole) -> str:
        QTest.keyClick(dialog.list, Qt.Key.Key_Delete)
        box = dialog.findChild(QMessageBox)
        assert isinstance(box, QMessageBox)
        (button,) = (each for each in box.buttons() if box.buttonRole(each) is role)
        words = box.text()
        button.click()
        qtbot.waitUntil(lambda: dialog.findChild(QMessageBox) is None)
        return words

    assert press(QMessageBox.ButtonRole.RejectRole) == "Delete “two” for good?"
    assert deleted_titles(desk) == ["two", "one"]
    press(QMessageBox.ButtonRole.AcceptRole)
    qtbot.waitUntil(lambda: deleted_titles(desk) == ["one"])
    assert DELETED_NOTICE in withdrawn
    desk.conversations.undo_delete()  # of the other one
    desk.conversations.undo_delete()
    assert [each.id for each in desk.chats.records] == [first]
    qtbot.waitUntil(lambda: deleted_titles(desk) == [])
    assert not dialog.erase.isEnabled()
    dialog.close()


def test_chats_that_were_deleted_before_a_restart_can_be_brought_back_and_messages_are_no_chats(
    desk: Desk, qtbot: QtBot, settings: SettingsFile, theme: Theme
) -> None:
    here = desk.converse("one")
    desk.converse("two")
    desk.chat.delete(desk.chat.conversation.messages[0].id)
    desk.conversations.delete(here)
    desk.close()
    parent = QWidget()
    qtbot.addWidget(parent)
    again = Desk(FakeLink(), settings, desk.path, theme, parent)
    again.conversations.show_deleted()
    qtbot.waitUntil(lambda: deleted_titles(again) == ["one"])
    again.conversations.deleted_dialog.restore.click()
    qtbot.waitUntil(lambda: again.chat.conversation.id == here)
    assert [each.text for each in again.chat.conversation.messages] == ["one", "Answer to one"]
    again.conversations.deleted_dialog.close()
    again.close()
