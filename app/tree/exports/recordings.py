"""Recordings as files: all rounds are saved, or those of a file are shown in place of the conversation's."""

import time
from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from app.i18n.number_text import Number
from app.i18n.sentences import error_text
from app.i18n.translation import tr
from app.tree.rounds.history import FileSpill, History
from app.tree.rounds.player import Player
from app.tree.rounds.recording import Saving, read_recording
from app.ui.file_dialogs import ask_for_file, ask_where
from engine.errors import InputError
from engine.protocol.messages import Round

SUFFIX = ".coppice"  # desktops open such files with this program
_SLICE_SECONDS = 0.015  # of reading between two turns of the event loop


class Recordings(QObject):
    """Asks for files and carries out what was chosen; `told` says in words what came of it."""

    told = Signal(str)
    changed = Signal(str, int, bool)  # name of the open one, rounds that are read, whether those are all

    def __init__(self, player: Player, panel: QWidget) -> None:
        super().__init__(panel)
        self._player = player
        self._panel = panel
        self._reading: Iterator[Round] | None = None
        self._opened = History()
        self._name = ""
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._read_on)
        player.recording_closed.connect(self.stop)
        self.saving = Saving(player, self)
        self.saving.ended.connect(self.told)
        self.saving.progressed.connect(self._on_saving_progressed)

    def save(self) -> None:
        """Ask where to, and write all rounds."""
        if self._is_saving():
            return
        if not len(self._player.history):
            self.told.emit(tr("There is no round to save yet."))
            return
        kinds = dict.fromkeys(_filter().split(";;"), SUFFIX)
        if path := ask_where(self._panel, tr("Save recording"), f"rounds{SUFFIX}", kinds):
            self.save_to(path)

    def save_to(self, path: Path) -> None:
        """Write all rounds that are kept; `told` says when that is done, or that another one comes first."""
        if not self._is_saving():
            self.saving.begin(path)

    def open(self) -> None:
        """Ask which, and show its rounds."""
        if path := ask_for_file(self._panel, tr("Open recording"), _filter()):
            self.open_from(path)

    def open_from(self, path: Path) -> None:
        """Show the rounds of a recording in place of the conversation's; they come bit by bit."""
        rounds = read_recording(path)
        try:
            first = next(rounds)
        except InputError as error:
            self.told.emit(error_text(error))
            return
        self.stop()
        self._opened, self._name = History(spill=FileSpill()), path.name
        self._opened.append(first)
        self._player.open_recording(self._opened)
        self._reading = rounds
        self._timer.start()
        self.changed.emit(self._name, 1, False)

    def close_recording(self) -> None:
        """Show the conversation's rounds again."""
        self._player.close_recording()

    def stop(self) -> None:
        """What is not read or written yet is not wanted any more."""
        self._timer.stop()
        self._reading = None
        self.saving.stop()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _is_saving(self) -> bool:
        """Whether another one is being written, which is told then: it is not given up for the next."""
        if self.saving.is_running:
            self.told.emit(tr("Another recording is still being saved. Save this one when that is done."))
        return self.saving.is_running

    def _read_on(self) -> None:
        """For a moment; then the window has its turn."""
        until = time.monotonic() + _SLICE_SECONDS
        trouble = ""
        try:
            while time.monotonic() < until:
                assert self._reading, "the timer runs only while something is read"
                self._opened.append(next(self._reading))
        except StopIteration:
            self._end_reading()
        except InputError as error:
            trouble = error_text(error)
            self._end_reading()
        self._player.moved.emit()
        self.changed.emit(self._name, len(self._opened), self._reading is None)
        if trouble:
            self.told.emit(trouble)

    def _end_reading(self) -> None:
        self._timer.stop()
        self._reading = None

    def _on_saving_progressed(self, done: int, count: int) -> None:
        self.told.emit(
            tr("Saving: {done} of {count} rounds…").format(done=f"{Number(done):,}", count=f"{Number(count):,}")
        )


def _filter() -> str:
    return tr("Recordings (*.coppice *.jsonl);;All files (*)")
