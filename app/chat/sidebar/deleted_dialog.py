"""The chats that were deleted and are still kept, to be brought back."""

from collections.abc import Sequence

from PySide6.QtCore import QDateTime, QLocale, QSize, Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.history.records import ConversationRecord
from app.i18n.translation import tr
from app.ui.widgets import fit_screen, label, offer

_SIZE = QSize(480, 520)


class DeletedDialog(QDialog):
    """Emits `restored` with the records that a person wants back; then it waits to be told what is left."""

    restored = Signal(list)  # of ConversationRecord

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

    def _on_restore(self) -> None:
        self.restored.emit([each.data(Qt.ItemDataRole.UserRole) for each in self.list.selectedItems()])
