"""Asks before the program ends while chats could not be saved, or go into or come from files; saves them elsewhere."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QAbstractButton, QMessageBox, QPushButton, QWidget

from app.chat.archive.worker import Archive
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip, unsteered
from app.ui.file_dialogs import ask_for_folder
from app.ui.notices import Notice, Tone

COPIES_NOTICE = "chats-saved-elsewhere"

_STEPS_AT_END = 10  # of an export or import, each about a tenth of a second, before a person is asked

_Acts = dict[QAbstractButton | None, Callable[[], None]]  # None: nobody has clicked


class UnsavedChats(QObject):
    """Holds the question, which is asked once at a time; `archive` says what it is about."""

    retried = Signal()  # try to end once more
    given_up = Signal()  # end, whatever is not saved
    notice_raised = Signal(Notice)

    def __init__(self, archive: Archive, window: Callable[[], QWidget], parent: QObject | None = None) -> None:
        """`window`: over which it is asked."""
        super().__init__(parent)
        self._archive = archive
        self._window = window
        self._folder = Path()  # for copies
        self._is_ending = False  # once they are saved
        self.box: QMessageBox | None = None  # as long as it is asked
        self._is_waiting = False  # in the box, for the end of an export or import
        archive.copies_saved.connect(self._on_copies_saved)
        for over in (archive.all_exported, archive.imported):
            over.connect(self._on_exchanged)

    def asks(self) -> bool:
        """Write what is left, and ask where that fails or takes long; returns whether an answer is waited for."""
        if self.box is None:
            count, reason = self._archive.settle()
            for _ in range(_STEPS_AT_END):
                if self._archive.is_exchanging:
                    self._archive.settle()
            if count:
                self._ask(count, reason)
            elif self._archive.is_exchanging:
                self._ask_to_wait()
        return self.box is not None

    def _ask(self, count: int, reason: str) -> None:
        box = self._box(tr("Chats are not saved"), tr("%n chats are not saved.", n=count))
        hint = tr("If you quit now, what is new in them is lost.")
        box.setInformativeText(unsteered(f"{reason}\n\n{hint}" if reason else hint))
        retry = box.addButton(tr("Try again"), QMessageBox.ButtonRole.AcceptRole)
        elsewhere = box.addButton(tr("Save elsewhere…"), QMessageBox.ButtonRole.ActionRole)
        elsewhere.setToolTip(tip(tr(_COPIES)))
        anyway = box.addButton(tr("Quit anyway"), QMessageBox.ButtonRole.DestructiveRole)
        save = partial(self.save_elsewhere, is_ending=True)
        self._open(box, retry, {retry: self.retried.emit, elsewhere: save, anyway: self.given_up.emit})

    def _ask_to_wait(self) -> None:
        box = self._box(tr("Chats are exported or imported"), tr("Chats are still being exported or imported."))
        told = tr("Coppice quits when that is done. If you quit now, no file is written, and the rest is not imported.")
        box.setInformativeText(told)
        now = box.addButton(tr("Quit now"), QMessageBox.ButtonRole.DestructiveRole)
        self._open(box, None, {now: self.given_up.emit, None: self.retried.emit})
        self._is_waiting = True

    def _box(self, title: str, words: str) -> QMessageBox:
        box = QMessageBox(self._window())
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Warning)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setWindowTitle(title)
        box.setText(words)
        return box

    def _open(self, box: QMessageBox, default: QPushButton | None, acts: _Acts) -> None:
        cancel = box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(default or cancel)
        box.finished.connect(lambda _: self._on_answered(acts.get(box.clickedButton())))
        self.box, self._is_waiting = box, False
        box.open()

    def save_elsewhere(self, is_ending: bool = False) -> None:
        """Ask for a folder, and write the chats into it. `is_ending`: then the program ends."""
        if folder := ask_for_folder(self._window(), tr("Save chats in a folder")):
            self._folder, self._is_ending = Path(folder), is_ending
            self._archive.save_copies(self._folder)

    def _on_answered(self, act: Callable[[], None] | None) -> None:
        self.box = None
        if act is not None:
            act()

    def _on_exchanged(self, *_: object) -> None:
        if self.box is not None and self._is_waiting:
            self.box.accept()

    def _on_copies_saved(self, count: int, reason: str) -> None:
        words = tr("The chats could not be saved there: {reason}.").format(reason=reason)
        if not self._is_ending:
            self.notice_raised.emit(self._copies_notice(count, words if reason else ""))
        elif not reason:
            self.given_up.emit()
        elif self.box is None:
            self._ask(self._archive.settle()[0], words)

    def _copies_notice(self, count: int, fault: str) -> Notice:
        if fault:
            return Notice(COPIES_NOTICE, fault, action=tr("Save elsewhere…"), on_action=self.save_elsewhere)
        words = tr("%n files were written to {folder}.", n=count).format(folder=self._folder)
        return Notice(COPIES_NOTICE, words, tr(_COPIES), tone=Tone.HINT)


_COPIES = mark("Each chat becomes a file with all its versions, which “Import chats” reads.")
