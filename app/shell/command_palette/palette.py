"""The palette itself: a field over a list in the upper middle of the window; the keyboard is all it needs."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QListView, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.shell.command_palette.entries import Entry, found
from app.shell.command_palette.rows import HitDelegate, HitModel
from app.ui.theme import Colors
from app.ui.widgets import label

_WIDTH, _MOST_ROWS, _TOP = 620, 11, 72
_TO_LIST = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


class CommandPalette(QFrame):
    """`chosen` carries the entry that was run; the palette has closed by then. Esc and a click elsewhere close it."""

    chosen = Signal(Entry)

    def __init__(self, colors: Colors, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._window = parent
        self._entries: Sequence[Entry] = ()
        self._recent: Sequence[str] = ()
        self.setObjectName("popover")
        self.setAccessibleName(tr("Command palette"))
        self.field = QLineEdit(self, placeholderText=tr("What do you want to do, or which chat to open?"))
        self.field.setObjectName("palette-field")
        self.field.setAccessibleName(tr("Search commands and chats"))
        self.model = HitModel(self)
        self.list = self._build_list(colors)
        self.nothing: QLabel = label("quiet-text", tr("Nothing fits."), self)
        self.nothing.setContentsMargins(12, 8, 12, 12)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 10, 10, 10)
        column.setSpacing(8)
        for widget in (self.field, self.list, self.nothing):
            column.addWidget(widget)
        self.field.textChanged.connect(self._show_found)
        self.field.installEventFilter(self)
        self.list.clicked.connect(self._run)

    def _build_list(self, colors: Colors) -> QListView:
        view = QListView(self)
        view.setObjectName("palette-list")
        view.setAccessibleName(tr("Commands and chats"))
        view.setModel(self.model)
        view.setItemDelegate(HitDelegate(colors, view))
        view.setFrameShape(QFrame.Shape.NoFrame)
        view.setUniformItemSizes(True)
        view.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the field keeps it, and hands the arrows on
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        return view

    def open(self, entries: Sequence[Entry], recent: Sequence[str]) -> None:
        """Show these, the ones used last first, and wait for letters."""
        self._entries, self._recent = entries, recent
        self.field.clear()
        self._show_found()
        self.setFixedWidth(min(_WIDTH, self._window.width() - 32))
        corner = QPoint((self._window.width() - self.width()) // 2, min(_TOP, self._window.height() // 8))
        self.move(self._window.mapToGlobal(corner))
        self.show()
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)

    def set_theme(self, colors: Colors) -> None:
        """Paint in these colours."""
        delegate = self.list.itemDelegate()
        assert isinstance(delegate, HitDelegate)
        delegate.colors = colors

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Arrows go to the list, Enter runs what is chosen there; everything else is written."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._run(self.list.currentIndex())
                return True
            if event.key() in _TO_LIST:
                self._step(event)
                return True
        return super().eventFilter(watched, event)

    def _step(self, event: QKeyEvent) -> None:
        """One row or one page up or down; beyond the last comes the first."""
        rows = [row for row, hit in enumerate(self.model.hits) if hit.entry.is_enabled]
        if not rows:
            return
        here = rows.index(self.list.currentIndex().row()) if self.list.currentIndex().row() in rows else -1
        match event.key():
            case Qt.Key.Key_Down:
                here = (here + 1) % len(rows)
            case Qt.Key.Key_Up:
                here = (here - 1) % len(rows)
            case Qt.Key.Key_PageDown:
                here = min(here + _MOST_ROWS - 1, len(rows) - 1)
            case _:
                here = max(here - _MOST_ROWS + 1, 0)
        self.list.setCurrentIndex(self.model.index(rows[here]))

    def _show_found(self) -> None:
        hits = found(self._entries, self.field.text(), self._recent)
        self.model.show_hits(hits)
        first = next((row for row, hit in enumerate(hits) if hit.entry.is_enabled), -1)
        self.list.setCurrentIndex(self.model.index(first) if first >= 0 else QModelIndex())
        row = self.list.sizeHintForRow(0) if hits else 0
        self.list.setFixedHeight(row * min(len(hits), _MOST_ROWS) + 2)
        self.list.setVisible(bool(hits))
        self.nothing.setVisible(not hits)
        self.adjustSize()

    def _run(self, index: QModelIndex) -> None:
        if not index.isValid() or not self.model.hits[index.row()].entry.is_enabled:
            return
        entry = self.model.hits[index.row()].entry
        self.close()
        self.chosen.emit(entry)
        entry.run()
