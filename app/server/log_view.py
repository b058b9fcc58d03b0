"""The log of the local server as a table, the newest request first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QDateTime, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QAction, QKeySequence, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QStackedLayout,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.server.controller import ServerController
from app.server.visits import MOST_ENTRIES, Entry
from app.server.words import rate_of, seconds_of, state_of, tokens_of
from app.system.plain_text import tip, unsteered
from app.ui.throttle import Throttle
from app.ui.widgets import copy_text, label, offer

_REFRESH_MS = 100
_LONGEST = 300  # characters of what a client says, in a cell
_ROOT = QModelIndex()
_EMPTY = mark("Nobody has asked yet. Requests appear here while the server is on.")

_Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class Column:
    """One of the table: its title and what that means, its text, how wide it is at first (in letters), and its side.

    `stretches`: it takes the room that is left.
    """

    title: str
    about: str
    text: Callable[[Entry], str]
    letters: int
    is_number: bool = False
    stretches: bool = False


def _time(entry: Entry) -> str:
    return QDateTime.fromMSecsSinceEpoch(round(entry.came * 1000)).toString("HH:mm:ss")


COLUMNS = (
    Column(mark("Time"), mark("When the request came"), _time, 9),
    Column(mark("Client"), mark("The address that it came from"), lambda each: each.visit.client, 15),
    Column(mark("Program"), mark("What the client calls itself"), lambda each: each.visit.agent, 20),
    Column(mark("Asked for"), mark("The path of the address that was asked"), lambda each: each.visit.path, 25),
    Column(mark("State"), mark("What has become of it"), state_of, 22, stretches=True),
    Column(mark("Tokens"), mark("Tokens that were read → tokens that were written"), tokens_of, 12, True),
    Column(mark("Tokens/s"), mark("Tokens written a second, since the request came"), rate_of, 9, True),
    Column(mark("Duration"), mark("Since the request came, waiting included"), seconds_of, 9, True),
)


def shown(text: str) -> str:
    """What a client said, on one line, without anything that would turn or hide what stands beside it."""
    return unsteered(" ".join(text[:_LONGEST].split()))


class LogModel(QAbstractTableModel):
    """Rows of entries; `show_entries` changes as little as possible, so that selection and place stay."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._entries: tuple[Entry, ...] = ()  # newest first

    def rowCount(self, parent: _Index = _ROOT) -> int:  # noqa: N802
        """One an entry."""
        return 0 if parent.isValid() else len(self._entries)

    def columnCount(self, parent: _Index = _ROOT) -> int:  # noqa: N802
        """As `COLUMNS`."""
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The text of a cell, and all of it as its tool tip."""
        column = COLUMNS[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return shown(column.text(self._entries[index.row()]))
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip(column.text(self._entries[index.row()]))
        return _side(column) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """What the columns are."""
        if orientation == Qt.Orientation.Vertical:
            return None
        texts = {Qt.ItemDataRole.DisplayRole: tr(COLUMNS[section].title)}
        texts[Qt.ItemDataRole.ToolTipRole] = tip(tr(COLUMNS[section].about))
        return _side(COLUMNS[section]) if role == Qt.ItemDataRole.TextAlignmentRole else texts.get(role)  # type: ignore[call-overload]

    def show_entries(self, entries: Sequence[Entry]) -> None:
        """Show these, oldest first as they come."""
        newest = tuple(reversed(entries))
        known = [each.key for each in self._entries]
        keys = [each.key for each in newest]
        added = keys.index(known[0]) if known and known[0] in keys else len(keys)
        if not known or keys[added:] != known[: len(keys) - added]:
            self.beginResetModel()
            self._entries = newest
            self.endResetModel()
            return
        if added:
            self.beginInsertRows(_ROOT, 0, added - 1)
            self._entries = newest[:added] + self._entries
            self.endInsertRows()
        if len(self._entries) > len(newest):
            self.beginRemoveRows(_ROOT, len(newest), len(self._entries) - 1)
            self._entries = self._entries[: len(newest)]
            self.endRemoveRows()
        changed = [row for row, each in enumerate(newest) if each != self._entries[row]]
        self._entries = newest
        if changed:
            self.dataChanged.emit(self.index(changed[0], 0), self.index(changed[-1], len(COLUMNS) - 1))

    def as_text(self, rows: Sequence[int]) -> str:
        """These rows below their titles, with tabs between the cells; all, if there are none."""
        lines = [[tr(each.title) for each in COLUMNS]]
        for row in rows or range(len(self._entries)):
            lines.append([shown(each.text(self._entries[row])) for each in COLUMNS])
        return "".join("\t".join(line) + "\n" for line in lines)


def _side(column: Column) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignTrailing if column.is_number else Qt.AlignmentFlag.AlignLeading
    return side | Qt.AlignmentFlag.AlignVCenter


class LogPage(QWidget):
    """The table with what empties and copies it; a sentence where there is nothing."""

    def __init__(self, controller: ServerController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self.model = LogModel(self)
        self.table = self._table()
        self.empty = label("quiet-text", tr(_EMPTY), self)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        told = tr("The newest {count} requests. What they ask and get is not kept.").format(count=MOST_ENTRIES)
        self.about = label("quiet-text", told, self)
        self.copy = QPushButton(tr("Copy"), self)
        self.copy.setAccessibleName(tr("Copy the log"))
        self.clear = QPushButton(tr("Clear"), self)
        self.clear.setAccessibleName(tr("Clear the log"))
        for button in (self.copy, self.clear):
            button.setAutoDefault(False)
        self._pages = QStackedLayout()
        self._lay_out()
        self._throttle = Throttle(self._follow, _REFRESH_MS, self)
        self.copy.clicked.connect(self._on_copy)
        self.clear.clicked.connect(controller.clear_log)
        controller.visited.connect(self._throttle.request)
        self._refresh()

    def _table(self) -> QTableView:
        table = QTableView(self)
        table.setObjectName("log")
        table.setAccessibleName(tr("Requests of clients"))
        table.setModel(self.model)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setShowGrid(False)
        table.setFrameShape(QFrame.Shape.NoFrame)
        table.setWordWrap(False)
        table.setTabKeyNavigation(False)
        table.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.verticalHeader().hide()
        table.horizontalHeader().setHighlightSections(False)
        table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        letter = table.fontMetrics().averageCharWidth()
        for place, column in enumerate(COLUMNS):
            table.setColumnWidth(place, column.letters * letter + 12)
            if column.stretches:
                table.horizontalHeader().setSectionResizeMode(place, QHeaderView.ResizeMode.Stretch)
        action = QAction(table)
        action.setShortcut(QKeySequence.StandardKey.Copy)
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(self._on_copy)
        table.addAction(action)
        return table

    def _lay_out(self) -> None:
        foot = QHBoxLayout()
        foot.addWidget(self.about, 1)
        foot.addWidget(self.copy)
        foot.addWidget(self.clear)
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self.table)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 12, 20, 14)
        column.setSpacing(10)
        column.addLayout(self._pages, 1)
        column.addLayout(foot)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Catch up with what came while nobody looked."""
        super().showEvent(event)
        self._refresh()

    def _follow(self) -> None:
        if self.isVisible():
            self._refresh()

    def _refresh(self) -> None:
        entries = self._controller.log.entries
        self.model.show_entries(entries)
        self._pages.setCurrentWidget(self.table if entries else self.empty)
        lacks = "" if entries else tr("Nobody has asked yet.")
        offer(self.copy, tr("Copy the chosen requests, or all of them, as a table"), lacks)
        is_over = any(not each.is_under_way for each in entries)
        offer(
            self.clear, tr("Forget the requests that are over"), lacks or ("" if is_over else tr("None is over yet."))
        )

    def _on_copy(self) -> None:
        rows = sorted({index.row() for index in self.table.selectionModel().selectedRows()})
        copy_text(self.model.as_text(rows), self.copy)
