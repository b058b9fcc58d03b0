"""The program does not end over chats that could not be saved without a question."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtWidgets import QFileDialog, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.archive.exchange.formats import read_conversations
from app.chat.archive.store import Store
from app.chat.history.records import ConversationRecord, MessageRecord
from app.shell.program import Program
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
    document = json.loads((tmp_path / "What is an oak_.json").read_text(encoding="utf-8"))
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
    (read,) = read_conversations(tmp_path / "What is an oak_.json")
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
