"""The chats that were deleted and are still kept, to be brought back."""

from collections.abc import Sequence

from PySide6.QtCore import QDateTime, QLocale, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QListWidget,
    QListWidgetItem,
    QMessageBox,
    QVBoxLayout,
    QWidget,
)

from app.chat.history.records import ConversationRecord
from app.i18n.translation import tr
from app.ui.widgets import fit_screen, label, offer

_SIZE = QSize(480, 520)


class DeletedDialog(QDialog):
    """Emits `restored` or `erased` with the records that a person chose; then it waits to be told what is left.

    A person who wants them erased was asked whether that is meant.
    """

    restored = Signal(list)  # of ConversationRecord
    erased = Signal(list)  # the same

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Recently deleted"))
        words = tr("Deleted chats are kept for 30 days. Until then they can be brought back.")
        self.empty = label("quiet-text", tr("There are none."), self)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.list = QListWidget(self)
        self.list.setObjectName("page-list")
        self.list.setAccessibleName(self.windowTitle())
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.list.setSpacing(2)
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.restore = buttons.addButton(tr("Restore"), QDialogButtonBox.ButtonRole.ActionRole)
        self.restore.clicked.connect(self._on_restore)
        self.erase = buttons.addButton(tr("Delete for good…"), QDialogButtonBox.ButtonRole.ActionRole)
        self.erase.setAutoDefault(False)
        self.erase.clicked.connect(self._ask_to_erase)
        self._close = buttons.button(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        self.list.itemSelectionChanged.connect(self._show_what_can_be_done)
        self.list.itemDoubleClicked.connect(self._on_restore)  # Enter presses the button, and would do it twice
        column = QVBoxLayout(self)
        for widget in (label("quiet-text", words, self), self.list, self.empty):
            column.addWidget(widget)
        column.setStretch(1, 1)
        column.addStretch(0)
        column.addWidget(buttons)
        self.show_deleted(())
        fit_screen(self, _SIZE)

    def show_deleted(self, deleted: Sequence[tuple[ConversationRecord, float]]) -> None:
        """Show these, each with when it was deleted, in seconds since 1970."""
        self.list.clear()
        for record, when in deleted:
            day = QLocale().toString(QDateTime.fromSecsSinceEpoch(int(when)).date(), QLocale.FormatType.ShortFormat)
            words = tr("{title} · deleted on {day}").format(title=record.shown_title, day=day)
            item = QListWidgetItem(words, self.list)
            item.setData(Qt.ItemDataRole.UserRole, record)
        self.list.setVisible(bool(deleted))
        self.empty.setVisible(not deleted)
        self.list.setCurrentRow(0)
        (self.list if deleted else self._close).setFocus()
        self.restore.setDefault(bool(deleted))
        self._show_what_can_be_done()

    def _show_what_can_be_done(self) -> None:
        lacks = "" if self.list.selectedItems() else tr("Choose a chat first.")
        offer(self.restore, tr("Bring back the chats that are chosen"), lacks)
        offer(self.erase, tr("Remove the chats that are chosen from the disk now"), lacks)

    @property
    def _chosen(self) -> list[ConversationRecord]:
        return [each.data(Qt.ItemDataRole.UserRole) for each in self.list.selectedItems()]

    def _on_restore(self) -> None:
        self.restored.emit(self._chosen)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Del, which the list leaves to its dialog."""
        if event.matches(QKeySequence.StandardKey.Delete):
            self._ask_to_erase()
        else:
            super().keyPressEvent(event)

    def _ask_to_erase(self) -> None:
        chosen = self._chosen
        if not chosen:
            return
        box = QMessageBox(self)
        box.setIcon(QMessageBox.Icon.Question)
        box.setText(
            tr("Delete “{title}” for good?").format(title=chosen[0].shown_title)
            if len(chosen) == 1
            else tr("Delete %n chats for good?", n=len(chosen))
        )
        box.setInformativeText(tr("That is removed from the disk now, and cannot be brought back."))
        button = box.addButton(tr("Delete"), QMessageBox.ButtonRole.AcceptRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        button.clicked.connect(lambda: self.erased.emit(chosen))
        box.open()
