"""A list of models to look through by keyboard and mouse; it tells what is in view and what is chosen."""

from PySide6.QtCore import QModelIndex, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QListView, QWidget

from app.library.picker.choice_list import Index
from app.library.picker.entry import Entry
from app.library.picker.entry_list import EntryDelegate, EntryList
from app.ui.theme import Colors

_SETTLE_MS = 120  # after scrolling, before what is in view is asked about
_NEAR_END_ROWS = 8


class EntryView(QListView):
    """`chosen` carries the entry that a person has come to, or None; `opened` is Enter or a double click."""

    chosen = Signal(object)
    opened = Signal(Entry)
    delete_requested = Signal(Entry)
    typed = Signal(str)
    view_changed = Signal()
    end_reached = Signal()

    def __init__(self, entries: EntryList, colors: Colors, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.entries = entries
        self._chosen_key = ""
        self.painter_ = EntryDelegate(colors, self)
        self.setObjectName("models")
        self.setAccessibleName(name)
        self.setModel(entries)
        self.setItemDelegate(self.painter_)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settle.timeout.connect(self._on_settled)
        signals = (entries.rowsInserted, entries.rowsRemoved, entries.modelReset)
        for changed in (self.verticalScrollBar().valueChanged, *signals):
            changed.connect(lambda *_: self._settle.start())  # none of what they carry is a time
        entries.modelReset.connect(self._on_reset)
        self.doubleClicked.connect(self._on_double_clicked)

    @property
    def current(self) -> Entry | None:
        """The entry that is chosen."""
        return self.entries.entry(self.currentIndex().row())

    def choose(self, key: str) -> None:
        """Go to an entry, if it is shown."""
        if (row := self.entries.row_of(key)) >= 0:
            self.setCurrentIndex(self.entries.index(row))

    def expect(self, key: str) -> None:
        """Go to an entry that will be there when the list is told next."""
        self._chosen_key = key

    def in_view(self) -> list[Entry]:
        """The entries that can be seen now, from above; the one that is chosen comes first."""
        count = self.entries.rowCount()
        first = self.indexAt(self.viewport().rect().topLeft()).row()
        if first < 0:
            return []
        height = max(1, self.sizeHintForRow(first))
        rows = range(first, min(count, first + self.viewport().height() // height + 2))
        seen = [entry for row in rows if (entry := self.entries.entry(row)) is not None]
        current = self.current
        return seen if current is None else [current, *(each for each in seen if each != current)]

    def set_theme(self, colors: Colors) -> None:
        """Paint in these colours."""
        self.painter_.colors = colors
        self.viewport().update()

    def currentChanged(self, current: Index, previous: Index) -> None:  # noqa: N802
        """Somebody came to another line."""
        super().currentChanged(current, previous)
        entry = self.entries.entry(current.row())
        self._chosen_key = entry.key if entry is not None else ""
        self.chosen.emit(entry)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """More or fewer lines are in view."""
        super().resizeEvent(event)
        self._settle.start()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter opens, Delete deletes, letters go to the search."""
        entry, text = self.current, event.text()
        commands = event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if entry is not None:
                self.opened.emit(entry)
        elif event.key() == Qt.Key.Key_Delete:
            if entry is not None:
                self.delete_requested.emit(entry)
        elif text.isprintable() and text and not commands:
            self.typed.emit(text)
        else:
            super().keyPressEvent(event)

    def _on_reset(self) -> None:
        """Other lines: what was chosen stays so, if it is among them."""
        if not self._chosen_key:
            return
        if self.entries.row_of(self._chosen_key) >= 0:
            self.choose(self._chosen_key)
        else:
            self._chosen_key = ""
            self.chosen.emit(None)

    def _on_double_clicked(self, index: QModelIndex) -> None:
        entry = self.entries.entry(index.row())
        if entry is not None:
            self.opened.emit(entry)

    def _on_settled(self) -> None:
        self.view_changed.emit()
        count = self.entries.rowCount()
        last = self.indexAt(self.viewport().rect().bottomLeft()).row()
        if last < 0 or last >= count - _NEAR_END_ROWS:
            self.end_reached.emit()
