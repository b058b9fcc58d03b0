"""The application with somebody restless in front of it, who notes what is on the screen; it runs until it is killed.

`python -m tests.app.crashes.restless JOURNAL SEED QUESTION -- ARGUMENTS OF THE APPLICATION`. `{n}` in the question is
a number that is drawn. The journal gets a line of JSON for each look, and whenever something else is shown; see
`journal`.
"""

import json
import random
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from app import main as started
from app.chat.history.records import ConversationRecord
from app.engine.link import EngineLink
from app.shell import wiring
from app.shell.window import MainWindow
from app.system.paths import Folders
from tests.app.crashes.journal import LOOK_MS

_PAUSES_MS = (20, 250)
_FOLDERS = ("", "Work", "Home")


class Restless(QObject):
    """Does something every now and then, and restarts the engine where it has ended."""

    def __init__(self, window: MainWindow, journal: TextIO, seed: int, question: str) -> None:
        super().__init__(window)
        self._window, self._journal, self._question = window, journal, question
        self._draw = random.Random(seed)
        self._seen: dict[str, Any] = {}
        self._looks = 0
        self._eyes = QTimer(self, interval=LOOK_MS)
        self._eyes.timeout.connect(self._look)
        self._eyes.start()
        self._hands = QTimer(self, singleShot=True)
        self._hands.timeout.connect(self._act)
        self._hands.start(0)
        window.link.engine_stopped.connect(lambda _: QTimer.singleShot(100, window.library.restart))

    # ---- what is seen -----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._looks += 1
        self._write()
        self._note("engine", self._window.link.engine_pid if self._window.library.state.ready else None)
        self._note("list", self._listed())
        answers, last = self._window.chat_panel.view.answers, self._window.chat.conversation.last_answer
        if answers and last is not None:
            shown = " ".join(each.toPlainText() for each in answers[-1].texts)
            asked = self._window.chat.conversation.messages[-2].text
            self._note("answer", [self._window.chat.conversation.id, last.id, asked, shown])

    def _listed(self) -> list[list[Any]]:
        return [_row(each) for each in self._window.conversations.autosave.records]

    def _announce(self, conversation: int, **changes: Any) -> None:
        """Note what the list is about to become: it may be on disk before it is looked at again."""
        records = self._window.conversations.autosave.records
        stay = [each for each in records if changes or each.id != conversation]
        self._note("list", [_row(replace(each, **changes) if each.id == conversation else each) for each in stay])

    def _note(self, kind: str, value: Any) -> None:
        if self._seen.get(kind) != value:
            self._seen[kind] = value
            self._write(**{kind: value})

    def _write(self, **seen: Any) -> None:
        self._journal.write(json.dumps({"at": self._looks, **seen}) + "\n")
        self._journal.flush()

    # ---- what is done -----------------------------------------------------------------------------------------------

    def _act(self) -> None:
        if self._window.chat.is_answering:
            if self._draw.random() < 0.1:
                self._window.chat.stop()
            elif self._draw.random() < 0.1:
                self._rearrange()
        elif self._draw.random() < 0.7:
            self._speak()
        else:
            self._rearrange()
        self._hands.start(self._draw.randint(*_PAUSES_MS))

    def _speak(self) -> None:
        chat, question = self._window.chat, self._question.replace("{n}", str(self._draw.randint(10, 200)))
        way = self._draw.randrange(5)
        if way == 0 and not chat.conversation.is_empty:
            chat.regenerate()
        elif way == 1 and not chat.conversation.is_empty:
            chat.edit(chat.conversation.messages[-2].id, question)
        elif way == 2:
            chat.start_new_chat()
            chat.ask(question)
        else:
            chat.ask(question)

    def _rearrange(self) -> None:
        conversations = self._window.conversations
        autosave, draw = conversations.autosave, self._draw
        if not autosave.records:
            return
        chosen = draw.choice(autosave.records)
        match draw.randrange(7):
            case 0:
                title = f"Renamed {draw.randrange(1000)}"
                self._announce(chosen.id, title=title)
                autosave.rename(chosen.id, title)
            case 1:
                self._announce(chosen.id, is_pinned=not chosen.is_pinned)
                autosave.pin(chosen.id, not chosen.is_pinned)
            case 2:
                folder = draw.choice(_FOLDERS)
                self._announce(chosen.id, folder=folder)
                autosave.move(chosen.id, folder)
            case 3:
                autosave.duplicate(chosen.id)
            case 4 | 5:
                autosave.open(chosen.id)
            case _:
                self._announce(chosen.id)
                conversations.delete(chosen.id)
                if draw.random() < 0.5:
                    conversations.undo_delete()


def _row(record: ConversationRecord) -> list[Any]:
    return [record.id, record.shown_title, record.is_pinned, record.folder]


def main() -> int:
    """Start the application as `coppice` does, with somebody in front of it."""
    journal, seed, question, _, *arguments = sys.argv[1:]
    build = wiring.build_window
    with Path(journal).open("a", encoding="utf-8") as notes:

        def build_watched(
            application: QApplication, folders: Folders, options: Namespace, link: EngineLink
        ) -> MainWindow:
            window = build(application, folders, options, link)
            Restless(window, notes, int(seed), question)
            return window

        wiring.build_window = build_watched
        return started.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
