"""The program does not end over chats that could not be saved without a question."""

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtWidgets import QFileDialog, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.archive.exchange.exporting import Exporting
from app.chat.archive.exchange.formats import read_conversations
from app.chat.archive.store import Store
from app.chat.conversations import SAVING_NOTICE
from app.chat.history.records import ConversationRecord, MessageRecord
from app.shell.program import Program
from app.shell.unsaved import COPIES_NOTICE
from app.shell.window import MainWindow
from app.system.paths import ROOT, Folders
from tests.app.fake_link import FakeLink


class Disk:
    """In place of what writes chats: refuses while it is full."""

    def __init__(self) -> None:
        self.is_full = True
        self._save = Store.save

    def save(self, store: Store, conversation: ConversationRecord, messages: Sequence[MessageRecord] = ()) -> None:
        if self.is_full:
            raise sqlite3.OperationalError("database or disk is full")
        self._save(store, conversation, messages)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()

    def save(store: Store, conversation: ConversationRecord, messages: Sequence[MessageRecord] = ()) -> None:
        made.save(store, conversation, messages)

    monkeypatch.setattr(Store, "save", save)
    return made


@pytest.fixture
def unsaved(window: MainWindow, link: FakeLink, disk: Disk) -> MainWindow:
    """A window whose chat could not be saved."""
    window.chat.ask("What is an oak?")
    link.say("A tree.")
    link.finish()
    return window


def box_of(window: MainWindow) -> QMessageBox:
    box = window.program.unsaved.box
    assert box is not None
    return box


def asks(program: Program) -> bool:
    return program.unsaved.box is not None


def click(window: MainWindow, words: str) -> None:
    button = next(each for each in box_of(window).buttons() if each.text() == words)
    assert isinstance(button, QPushButton)
    button.click()


def titles(folders: Folders) -> list[str]:
    store = Store(folders.chats_file)
    found = [each.shown_title for each in store.conversations()]
    store.close()
    return found


def test_a_window_with_a_chat_that_cannot_be_saved_asks_and_stays(unsaved: MainWindow, link: FakeLink) -> None:
    assert not unsaved.close()
    assert unsaved.isVisible()
    assert "close" not in link.said, "the engine goes on"
    assert box_of(unsaved).text().startswith("1 chat")
    assert "disk is full" in box_of(unsaved).informativeText()
    box_of(unsaved).reject()
    assert unsaved.program.windows == [unsaved]
    assert unsaved.program.unsaved.box is None


def test_trying_again_with_room_on_the_disk_saves_and_ends(unsaved: MainWindow, disk: Disk, folders: Folders) -> None:
    program = unsaved.program
    program.quit()
    click(unsaved, "Try again")
    assert program.windows == [unsaved], "it is still full"
    disk.is_full = False
    click(unsaved, "Try again")
    assert program.windows == []
    assert titles(folders) == ["What is an oak?"]


def test_a_person_may_end_it_anyway(unsaved: MainWindow) -> None:
    program = unsaved.program
    program.quit()
    click(unsaved, "Quit anyway")
    assert program.windows == []


def test_what_cannot_be_saved_goes_into_another_folder(
    unsaved: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = unsaved.program
    (tmp_path / "a file").touch()
    chosen = iter([str(tmp_path / "a file"), str(tmp_path)])
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: next(chosen))
    program.quit()
    click(unsaved, "Save elsewhere…")
    qtbot.waitUntil(lambda: program.unsaved.box is not None)
    assert "could not be saved there" in box_of(unsaved).informativeText()
    click(unsaved, "Save elsewhere…")
    qtbot.waitUntil(lambda: program.windows == [])
    document = json.loads((tmp_path / "What is an oak.json").read_text(encoding="utf-8"))
    assert [each["content"] for each in document["messages"]] == ["What is an oak?", "A tree."]


def test_what_is_saved_elsewhere_has_every_version(
    unsaved: MainWindow, link: FakeLink, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, program = unsaved.chat, unsaved.program
    chat.regenerate()
    link.say("A large plant.")
    link.finish()
    chat.edit(chat.conversation.messages[0].id, "What is a yew?")
    link.say("A tree, too.")
    link.finish()
    unsaved.conversations.autosave.move(chat.conversation.id, "Trees")
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    program.quit()
    click(unsaved, "Save elsewhere…")
    qtbot.waitUntil(lambda: program.windows == [])
    (read,) = read_conversations(tmp_path / "What is an oak.json")
    found = read.conversation
    assert found is not None
    assert [each.text for each in found.versions(found.messages[0].id)] == ["What is an oak?", "What is a yew?"]
    found.show_version(found.messages[0].id, 0)
    assert [each.text for each in found.versions(found.messages[1].id)] == ["A tree.", "A large plant."]
    assert read.about.folder == "Trees"


def test_one_of_two_windows_closes_without_a_question(unsaved: MainWindow, qtbot: QtBot) -> None:
    program = unsaved.program
    unsaved.actions_.new_window.trigger()
    qtbot.waitUntil(lambda: len(program.windows) == 2 and program.windows[-1].isVisible())
    unsaved.close()
    assert len(program.windows) == 1
    assert not asks(program)
    program.quit()
    assert asks(program), "what it had is kept, and asked for with the last one"
    assert not shiboken6.isValid(unsaved) or not unsaved.isVisible()


HELD = """
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget
from app.shell.application import Application

application = Application(["coppice"])
window = QWidget()
window.show()
asked = []

def on_asked():
    asked.append(window.isVisible())
    if len(asked) == 1:
        application.hold()
        QTimer.singleShot(0, application.quit)

application.quit_asked.connect(on_asked)
QTimer.singleShot(0, application.quit)
application.exec()
assert asked == [True, True], asked
"""


def test_the_end_that_the_system_wants_can_be_held_up() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_unsent_texts_that_cannot_be_saved_go_along(
    window: MainWindow, link: FakeLink, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Store, "save_unsent", refuse)
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    window.chat.ask("What is an oak?")
    link.say("A tree.")
    link.finish()
    window.chat_panel.composer.field.setPlainText("What is an")
    window.chat_panel.view.questions[0].edit()
    editor = window.chat_panel.view.questions[0].editor
    assert editor is not None
    editor.field.setPlainText("What is a yew?")
    program = window.program
    program.quit()
    click(window, "Save elsewhere…")
    qtbot.waitUntil(lambda: program.windows == [])
    assert (tmp_path / "Unsent text.txt").read_text(encoding="utf-8") == "What is an"
    assert (tmp_path / "Unsent text 2.txt").read_text(encoding="utf-8") == "What is a yew?"


def test_chats_that_cannot_be_saved_are_saved_elsewhere_from_the_notice(
    unsaved: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    chosen = iter([str(tmp_path / "a file"), str(tmp_path)])
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: next(chosen))
    notices = unsaved.notices

    def told(key: str) -> list[str]:
        return [each.message for each in notices.notices if each.key == key]

    qtbot.waitUntil(lambda: bool(told(SAVING_NOTICE)))
    notices.act(SAVING_NOTICE)
    qtbot.waitUntil(lambda: told(COPIES_NOTICE)[:1] != [] and "could not be saved there" in told(COPIES_NOTICE)[0])
    notices.act(COPIES_NOTICE)
    qtbot.waitUntil(lambda: told(COPIES_NOTICE)[:1] != [] and str(tmp_path) in told(COPIES_NOTICE)[0])
    (read,) = read_conversations(tmp_path / "What is an oak.json")
    assert read.conversation is not None
    assert [each.text for each in read.conversation.messages] == ["What is an oak?", "A tree."]
    assert unsaved.program.windows == [unsaved], "nobody wanted to quit"


def test_a_chat_that_cannot_be_read_offers_no_copies(
    window: MainWindow, link: FakeLink, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.chat.ask("What is an oak?")
    link.say("A tree.")
    link.finish()
    oak = window.chat.conversation.id
    window.actions_.new_chat.trigger()

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Store, "messages", refuse)
    window.conversations.autosave.open(oak)
    qtbot.waitUntil(lambda: bool(window.notices.notices))
    assert [(each.key, each.action) for each in window.notices.notices] == [(SAVING_NOTICE, "")]


@pytest.fixture
def exporting(
    window: MainWindow, link: FakeLink, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[MainWindow, Callable[[], None]]]:
    """A window whose chat goes into a file, and what lets the export go on to its end."""
    window.chat.ask("What is an oak?")
    link.say("A tree.")
    link.finish()
    step, may_end = Exporting.step, threading.Event()

    def step_once(self: Exporting, store: Store) -> None:
        if may_end.is_set():
            step(self, store)

    monkeypatch.setattr(Exporting, "step", step_once)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "all.json"), "JSON (*.json)"))
    window.conversations.export_all()
    yield window, may_end.set
    may_end.set()


def test_the_program_ends_when_an_export_has(
    exporting: tuple[MainWindow, Callable[[], None]], qtbot: QtBot, tmp_path: Path
) -> None:
    window, go_on = exporting
    program = window.program
    assert not window.close()
    assert box_of(window).text() == "Chats are still being exported or imported."
    go_on()
    qtbot.waitUntil(lambda: program.windows == [])
    assert [each.title for each in read_conversations(tmp_path / "all.json")] == [""], "it was named by nobody"


def test_a_person_may_end_an_export_with_the_program(
    exporting: tuple[MainWindow, Callable[[], None]], tmp_path: Path
) -> None:
    window, _ = exporting
    program = window.program
    program.quit()
    click(window, "Quit now")
    assert program.windows == []
    assert [each.name for each in tmp_path.glob("*all*")] == []


def test_an_export_that_is_soon_over_is_finished_without_a_question(
    exporting: tuple[MainWindow, Callable[[], None]], tmp_path: Path
) -> None:
    window, go_on = exporting
    go_on()
    program = window.program
    program.quit()
    assert program.windows == []
    assert (tmp_path / "all.json").exists()
