"""The Preferences dialog: pages at the left, a field that searches all of them, and what to do with the changes."""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.i18n.translation import tr
from app.preferences.page import OptionsPage, changes
from app.settings.store import SettingsFile
from app.ui.widgets import fit_screen, label, offer

_SIZE = QSize(860, 620)
_LIST_WIDTH, _AROUND_NAMES = 210, 12  # pixels


class PreferencesDialog(QDialog):
    """`applied` comes when options have changed in the settings; `server_wanted` asks for the local server's window."""

    applied = Signal()
    server_wanted = Signal()

    def __init__(self, settings: SettingsFile, pages: Sequence[OptionsPage], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self.pages = tuple(pages)
        self.setWindowTitle(tr("Preferences"))
        fit_screen(self, _SIZE)
        self.search = QLineEdit(self, placeholderText=tr("Search options"), clearButtonEnabled=True)
        self.search.setAccessibleName(tr("Search options"))
        for clear in self.search.findChildren(QAbstractButton):
            clear.setAccessibleName(tr("Clear search"))
        self.list = QListWidget(self)
        self.list.setObjectName("page-list")
        self.list.setAccessibleName(tr("Pages"))
        self.stack = QStackedWidget(self)
        for page in self.pages:
            self.list.addItem(page.title)
            self.stack.addWidget(page)
            page.edited.connect(self._show_buttons)
        self.nothing = label("quiet-text", tr("No option has these words."), self)
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.stack.addWidget(self.nothing)
        self.buttons = self._build_buttons()
        self._lay_out()
        self.list.currentRowChanged.connect(self._on_page)
        self.search.textChanged.connect(self._on_searched)
        QShortcut(QKeySequence.StandardKey.Find, self, self._on_find)
        self.list.setCurrentRow(0)

    def _build_buttons(self) -> QDialogButtonBox:
        kind = QDialogButtonBox.StandardButton
        box = QDialogButtonBox(kind.Ok | kind.Apply | kind.Cancel, self)
        box.button(kind.Ok).setDefault(True)
        self.apply_button = box.button(kind.Apply)
        self.apply_button.clicked.connect(self.apply)
        box.accepted.connect(self.accept)
        box.rejected.connect(self.reject)
        return box

    def _lay_out(self) -> None:
        side = QVBoxLayout()
        side.setContentsMargins(14, 16, 0, 0)
        side.setSpacing(10)
        side.addWidget(self.search)
        side.addWidget(self.list, 1)
        halves = QHBoxLayout()
        halves.addLayout(side)
        halves.addWidget(self.stack, 1)
        foot = QHBoxLayout()
        foot.setContentsMargins(14, 0, 14, 14)
        foot.addWidget(self.buttons)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(halves, 1)
        column.addLayout(foot)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Begin with what holds now."""
        super().showEvent(event)
        if event.spontaneous():  # it was only minimised: what was typed stays
            return
        self.search.clear()
        self.load()
        self._fit_names()
        self.list.setFocus()

    def _fit_names(self) -> None:
        """Names of pages are read whole, in large letters too."""
        width = max(_LIST_WIDTH, self.list.sizeHintForColumn(0) + _AROUND_NAMES)
        self.search.setFixedWidth(width)
        self.list.setFixedWidth(width)

    def show_option(self, name: str) -> None:
        """Go to an option, on whatever page it is."""
        for row, page in enumerate(self.pages):
            if name in page.names:
                self.search.clear()
                self.list.setCurrentRow(row)
                page.show_row(name)

    def show_page(self, name: str) -> None:
        """Go to a page."""
        self.search.clear()
        self.list.setCurrentRow([page.name for page in self.pages].index(name))

    def load(self) -> None:
        """Show the settings on every page."""
        for page in self.pages:
            page.load(self._settings.current)
        self._show_buttons()

    def apply(self) -> bool:
        """Keep what has changed; False, and nothing kept, where something cannot be used."""
        for page in self.pages:
            if not page.check():
                self.search.clear()
                self.list.setCurrentRow(self.pages.index(page))
                page.show_first_error()
                return False
        values = {name: value for page in self.pages for name, value in page.save().items()}
        if values:
            self._settings.change(**changes(self._settings.current, values))
            self.load()
            self.applied.emit()
            self._fit_names()  # letters may have another size now
        return True

    def accept(self) -> None:
        """Keep and close."""
        if self.apply():
            super().accept()

    def reset_all(self) -> None:
        """Every option as in the beginning, at once."""
        for page in self.pages:
            page.restore_defaults()
        self.apply()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Esc leaves a search first."""
        if event.key() == Qt.Key.Key_Escape and self.search.text():
            self.search.clear()
            self.search.setFocus()
            return
        super().keyPressEvent(event)

    def _show_buttons(self) -> None:
        is_changed = any(page.save() for page in self.pages)
        offer(self.apply_button, tr("Use what is set, and stay here"), "" if is_changed else tr("Nothing was changed."))

    def _on_page(self, row: int) -> None:
        if row >= 0:
            self.pages[row].make()
            self.stack.setCurrentIndex(row)

    def _on_find(self) -> None:
        self.search.setFocus()
        self.search.selectAll()

    def _on_searched(self, words: str) -> None:
        found = [page.search(words) > 0 or not words.strip() for page in self.pages]
        for row, fits in enumerate(found):
            self.list.item(row).setHidden(not fits)
        if not any(found):
            self.stack.setCurrentWidget(self.nothing)
        elif not found[self.list.currentRow()]:
            self.list.setCurrentRow(found.index(True))
        else:
            self._on_page(self.list.currentRow())
