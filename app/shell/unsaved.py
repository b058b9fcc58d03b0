"""Asks before the program ends while chats could not be saved: try again, save them elsewhere, or lose them."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from app.chat.archive.worker import Archive
from app.i18n.translation import tr
from app.system.plain_text import tip, unsteered
from app.ui.file_dialogs import ask_for_folder


class UnsavedChats(QObject):
    """Holds the question, which is asked once at a time; `archive` says how many chats it is about."""

    retried = Signal()  # try to end once more
    given_up = Signal()  # end, whatever is not saved

    def __init__(self, archive: Archive, window: Callable[[], QWidget], parent: QObject | None = None) -> None:
        """`window`: over which it is asked."""
        super().__init__(parent)
        self._archive = archive
        self._window = window
        self.box: QMessageBox | None = None  # as long as it is asked
        archive.copies_saved.connect(self._on_copies_saved)

    def asks(self) -> bool:
        """Write what is left, and ask where that fails; returns whether an answer is waited for."""
        if self.box is None:
            count, reason = self._archive.settle()
            if count:
                self._ask(count, reason)
        return self.box is not None

    def _ask(self, count: int, reason: str) -> None:
        self.box = box = QMessageBox(self._window())
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Warning)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setWindowTitle(tr("Chats are not saved"))
        box.setText(tr("%n chats are not saved.", n=count))
        hint = tr("If you quit now, what is new in them is lost.")
        box.setInformativeText(unsteered(f"{reason}\n\n{hint}" if reason else hint))
        retry = box.addButton(tr("Try again"), QMessageBox.ButtonRole.AcceptRole)
        elsewhere = box.addButton(tr("Save elsewhere…"), QMessageBox.ButtonRole.ActionRole)
        elsewhere.setToolTip(tip(tr("Each chat becomes a file with all its versions, which “Import chats” reads.")))
        anyway = box.addButton(tr("Quit anyway"), QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(retry)
        acts = {retry: self.retried.emit, elsewhere: self.save_elsewhere, anyway: self.given_up.emit}
        box.finished.connect(lambda _: self._on_answered(acts.get(box.clickedButton())))  # type: ignore[call-overload]
        box.open()

    def save_elsewhere(self) -> None:
        """Ask for a folder, and write the chats into it."""
        if folder := ask_for_folder(self._window(), tr("Save chats in a folder")):
            self._archive.save_copies(Path(folder))

    def _on_answered(self, act: Callable[[], None] | None) -> None:
        self.box = None
        if act is not None:
            act()

    def _on_copies_saved(self, _count: int, reason: str) -> None:
        if not reason:
            self.given_up.emit()
        elif self.box is None:
            words = tr("The chats could not be saved there: {reason}.").format(reason=reason)
            self._ask(self._archive.settle()[0], words)
