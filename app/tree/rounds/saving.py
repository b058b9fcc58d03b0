"""Writes the rounds of a history into a recording bit by bit, so that the window goes on and one can stop it."""

import time
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.system.files import chosen_replacement
from app.tree.rounds.player import Player
from app.tree.rounds.recording import recording_line
from engine.files import Replacement

_SLICE_SECONDS = 0.015
_AGAIN_MS = 15  # until what is on its way is looked for again


class Saving(QObject):
    """One recording at a time. It is written beside its place, and takes it when it is whole."""

    progressed = Signal(int, int)  # rounds written, of how many
    ended = Signal(str)  # in words

    def __init__(self, player: Player, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._player = player
        self._file: Replacement | None = None
        self._path = Path()
        self._next = self._count = self._written = 0
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._write_on)

    @property
    def is_running(self) -> bool:
        """Whether something is being written."""
        return self._file is not None

    def begin(self, path: Path) -> None:
        """Write all rounds that there are now to this place."""
        self.stop()
        self._path = path
        self._next = self._written = 0
        self._count = len(self._player.history)
        try:
            self._file = chosen_replacement(path)
        except OSError as error:
            self._fail(error)
            return
        self._write_on()

    def stop(self) -> None:
        """Write no more, and leave nothing behind."""
        self._timer.stop()
        if self._file is not None:
            self._file.discard()
            self._file = None

    def _write_on(self) -> None:
        """For a moment; then the window has its turn."""
        assert self._file is not None, "the timer runs only while something is written"
        until = time.monotonic() + _SLICE_SECONDS
        history = self._player.history
        try:
            while self._next < self._count and time.monotonic() < until:
                if history.missing(self._next, self._next + 1):
                    self._player.want(self._next)
                    break
                kept = history.round(self._next)
                if kept is not None:
                    self._file.write(recording_line(kept).encode("utf-8", "replace"))
                    self._written += 1
                self._next += 1
            if self._next >= self._count:
                self._finish()
                return
        except OSError as error:
            self._fail(error)
            return
        self.progressed.emit(self._next, self._count)
        self._timer.start(_AGAIN_MS if history.missing(self._next, self._next + 1) else 0)

    def _finish(self) -> None:
        assert self._file is not None, "only what was begun ends"
        self._file.commit()
        self._file = None
        lost = self._count - self._written
        words = tr("{count} rounds were saved in {name}.").format(
            count=f"{Number(self._written):,}", name=self._path.name
        )
        if lost:
            words += " " + tr("{count} are not kept any more.").format(count=f"{Number(lost):,}")
        self.ended.emit(words)

    def _fail(self, error: OSError) -> None:
        self._timer.stop()
        if self._file is not None:
            self._file.discard()
            self._file = None
        self.ended.emit(tr("The recording could not be saved: {reason}.").format(reason=error.strerror or error))
