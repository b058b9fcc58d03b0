"""What leaves the tree panel and comes back to it: recordings, pictures, texts."""

from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtWidgets import QFileDialog, QWidget

from app.tree.outline import as_text
from app.tree.player import Player
from app.tree.recording import read_recording, write_recording
from app.tree.snapshot import Snapshot
from engine.errors import InputError
from engine.messages import Round

PICTURE_SCALE = 2
_SLICE = 20  # rounds that are read between two turns of the event loop
_FILTER = "Recordings (*.jsonl);;All files (*)"


class Exports(QObject):
    """Asks for files and carries out what was chosen; `told` says in words what came of it."""

    told = Signal(str)

    def __init__(self, player: Player, panel: QWidget) -> None:
        super().__init__(panel)
        self._player = player
        self._panel = panel
        self._reading: Iterator[Round] | None = None
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._read_on)

    def save(self) -> None:
        """Ask where to, and write all rounds."""
        name, _ = QFileDialog.getSaveFileName(self._panel, "Save recording", "rounds.jsonl", _FILTER)
        if name:
            self.save_to(Path(name))

    def save_to(self, path: Path) -> None:
        """Write all rounds that are kept."""
        history = self._player.history
        kept = (history.round(place) for place in range(len(history)))
        try:
            count = write_recording(path, (each for each in kept if each))
        except OSError as error:
            self.told.emit(f"The recording could not be saved: {error.strerror or error}.")
        else:
            self.told.emit(f"{count:,} rounds were saved in {path.name}.")

    def open(self) -> None:
        """Ask which, and show its rounds."""
        name, _ = QFileDialog.getOpenFileName(self._panel, "Open recording", "", _FILTER)
        if name:
            self.open_from(Path(name))

    def open_from(self, path: Path) -> None:
        """Show the rounds of a recording in place of the conversation's; they come bit by bit."""
        rounds = read_recording(path)
        try:
            first = next(rounds)
        except InputError as error:
            self.told.emit(str(error))
            return
        self._player.clear()
        self._player.add(first)
        self._player.seek(0)
        self._reading = rounds
        self._timer.start()

    def stop_reading(self) -> None:
        """What is not read yet is not wanted any more."""
        self._timer.stop()
        self._reading = None

    def picture(self, canvas: QWidget) -> QImage:
        """What the view shows, twice as fine as the screen has it."""
        image = QImage(canvas.size() * PICTURE_SCALE, QImage.Format.Format_ARGB32_Premultiplied)
        image.setDevicePixelRatio(PICTURE_SCALE)
        painter = QPainter(image)
        QWidget.render(canvas, painter, QPoint())  # a view has a method of that name that draws its scene alone
        painter.end()
        return image

    def export_picture(self, canvas: QWidget) -> None:
        """Ask where to, and write what the view shows."""
        name, _ = QFileDialog.getSaveFileName(self._panel, "Export picture", "tree.png", "Pictures (*.png)")
        if name:
            saved = self.picture(canvas).save(name)
            self.told.emit(f"The picture {'is' if saved else 'could not be written'} in {Path(name).name}.")

    def copy_text(self, tree: Snapshot | None) -> None:
        """Put a tree on the clipboard."""
        if tree:
            QGuiApplication.clipboard().setText(as_text(tree))
            self.told.emit("The tree is on the clipboard, as text.")

    def _read_on(self) -> None:
        try:
            for _ in range(_SLICE):
                assert self._reading, "the timer runs only while something is read"
                self._player.add(next(self._reading))
        except StopIteration:
            self.stop_reading()
            self.told.emit(f"{len(self._player.history):,} rounds were read.")
        except InputError as error:
            self.stop_reading()
            self.told.emit(str(error))
