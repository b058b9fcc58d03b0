"""The menu entries of the tree panel that bring something out of it: what each of them asks for, and does."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QWidget

from app.i18n.sentences import error_text
from app.i18n.translation import tr
from app.system.files import write_chosen
from app.tree.exports.animations.dialog import AnimationDialog
from app.tree.exports.animations.film import Film
from app.tree.exports.animations.footage import Footage
from app.tree.exports.animations.story import answer_around
from app.tree.exports.choices import POST, AnimationChoice, PictureChoice, restored, stored
from app.tree.exports.failures import writing_failed
from app.tree.exports.looked_at import LookedAt
from app.tree.exports.pictures.dialog import PictureDialog
from app.tree.exports.pictures.formats import FORMATS, filters, format_of, image_of
from app.tree.exports.pictures.sheet import Sheet
from app.tree.exports.recordings import Recordings
from app.tree.rounds.player import Player
from app.ui.colors import LIGHT, TreeColors
from app.ui.file_dialogs import ask_where
from engine.errors import InputError

_log = logging.getLogger(__name__)

_SCALE = 2  # of what is copied: twice as fine as the screen has it
_PICTURE, _ANIMATION = "picture", "animation"  # what is remembered of


class Exports(QObject):
    """Asks for files and carries out what was chosen; `told` says in words what came of it."""

    told = Signal(str)

    chosen = Signal(dict)
    """What was chosen last, to be remembered: see `set_choices`."""

    def __init__(
        self, player: Player, panel: QWidget, look: Callable[[bool], LookedAt], text: Callable[[], str]
    ) -> None:
        """`look` gives what is looked at, and may have it stay; `text` is the same as text, empty if there is none."""
        super().__init__(panel)
        self._player, self._panel, self._look, self._text = player, panel, look, text
        self._own = LIGHT.tree
        self._picture, self._animation = POST, AnimationChoice()
        self._dialog: QDialog | None = None
        self._film: Film | None = None  # the last that was begun
        self.recordings = Recordings(player, panel)
        self.recordings.told.connect(self.told)
        self.open_from, self.save_to = self.recordings.open_from, self.recordings.save_to

    def entries(self) -> tuple[tuple[str, Callable[[], object]], ...]:
        """The menu's entries: words, and what is done."""
        return (
            (tr("Save recording…"), self.recordings.save),
            (tr("Open recording…"), self.recordings.open),
            (tr("Export picture… (P)"), self.export_picture),
            (tr("Export animation… (M)"), self.export_animation),
            (tr("Copy picture (C)"), self.copy_picture),
            (tr("Copy as text"), self.copy_text),
        )

    def set_colors(self, colors: TreeColors) -> None:
        """Those that the window has now."""
        self._own = colors

    def set_choices(self, kept: Mapping[str, Any]) -> None:
        """What was chosen in earlier sessions, as `chosen` has told it."""
        self._picture = restored(POST, kept.get(_PICTURE, {}))
        self._animation = restored(AnimationChoice(), kept.get(_ANIMATION, {}))

    def stop(self) -> None:
        """Another conversation is shown: what is under way is not wanted any more."""
        self.recordings.stop()
        if self._dialog:
            self._dialog.reject()

    def leave(self) -> None:
        """The window goes: nothing half written stays."""
        self.stop()
        if self._film:  # also where its dialog is closed already
            self._film.leave()

    # ---- pictures and texts ------------------------------------------------------------------------------------------

    def export_picture(self) -> None:
        """Open the dialog that asks what it is to look like."""
        if not self._is_something():
            return
        was_live = self._player.is_live
        dialog = PictureDialog(self._look(True), self._own, self._picture, self._panel)
        dialog.wanted.connect(partial(self._on_picture_wanted, dialog))
        self._open(dialog, was_live)

    def write_picture(self, path: Path, sheet: Sheet, choice: PictureChoice) -> None:
        """Write it in the format of the path's suffix. Raises `InputError` in words; nothing is left then."""
        form = format_of(path.suffix)
        if form is None:
            words = tr("Pictures cannot be written as {suffix}. Choose one of these: {suffixes}")
            suffixes = ", ".join(each.suffix for each in FORMATS)
            raise InputError(words.format(suffix=path.suffix, suffixes=suffixes))
        try:
            write_chosen(path, form.write(sheet, choice))
        except OSError as error:
            _log.warning("A picture could not be written: %s", error)
            raise InputError(writing_failed(path, error)) from error

    def copy_picture(self) -> None:
        """Put what is shown on the clipboard, as a picture."""
        if self._is_something():
            subject = self._look(False).shown(self._own)
            sheet = Sheet(subject, self._own, subject.size.width, self._panel.font())
            QGuiApplication.clipboard().setImage(image_of(sheet, (sheet.size * _SCALE).toSize()))
            self.told.emit(tr("The picture is on the clipboard."))

    def copy_text(self) -> None:
        """Put what is shown on the clipboard, as text."""
        if text := self._text():
            QGuiApplication.clipboard().setText(text)
            self.told.emit(tr("What is shown is on the clipboard, as text."))

    # ---- animations --------------------------------------------------------------------------------------------------

    def export_animation(self) -> None:
        """Open the dialog that asks what it is to look like, and makes it."""
        if self._dialog is not None:
            return
        was_live, looked_at = self._player.is_live, self._look(True)
        history, place = self._player.history, self._player.shown_place
        if looked_at.round is None or looked_at.tree is None or place < 0:
            self.told.emit(tr("There are no rounds of an answer to make an animation of."))
            return
        places = answer_around(len(history), history.key, place)
        footage = Footage(history, places, looked_at.tree, looked_at.round, self._panel.font())
        choice = replace(self._animation, way=looked_at.canvas.way)
        make = partial(self._make_film, places)
        dialog = AnimationDialog(footage, self._own, choice, make, self._panel)
        dialog.chosen.connect(self._on_animation_chosen)
        dialog.made.connect(self.told)
        self._open(dialog, was_live)

    def _make_film(self, places: range) -> Film:
        if self._film:  # it has ended: its dialog makes the next one only then, or is closed
            self._film.deleteLater()
        self._film = Film(self._player, places, self)
        return self._film

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _is_something(self) -> bool:
        is_something = self._look(False).is_something
        if not is_something:
            self.told.emit(tr("There is nothing to be exported yet."))
        return is_something and self._dialog is None

    def _on_picture_wanted(self, dialog: PictureDialog, sheet: Sheet, choice: PictureChoice) -> None:
        """Ask where to; the dialog has done its work once the picture is there."""
        self._picture = choice
        self._remember()
        path = ask_where(dialog, tr("Export picture"), f"tree{choice.suffix}", filters(choice.suffix))
        if path is None:
            return
        try:
            self.write_picture(path, sheet, choice)
        except InputError as error:
            dialog.tell(error_text(error))
            return
        dialog.accept()
        self.told.emit(tr("The picture is in {name}.").format(name=path.name))

    def _open(self, dialog: QDialog, was_live: bool) -> None:
        """What is looked at stays until the dialog is closed."""
        self._dialog = dialog
        dialog.finished.connect(lambda _result: self._on_finished(was_live))
        dialog.open()

    def _on_finished(self, was_live: bool) -> None:
        self._dialog = None
        if was_live:
            self._player.go_live()

    def _on_animation_chosen(self, choice: AnimationChoice) -> None:
        self._animation = choice
        self._remember()

    def _remember(self) -> None:
        self.chosen.emit({_PICTURE: stored(self._picture), _ANIMATION: stored(self._animation)})
