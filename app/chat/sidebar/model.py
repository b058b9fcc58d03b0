"""The rows of the list as Qt wants them; conversations can be dragged from one group into another."""

from collections.abc import Sequence, Set
from itertools import groupby

from PySide6.QtCore import QAbstractListModel, QMimeData, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.chat.sidebar.rows import IN_TEXTS, IN_TITLES, PINNED, TODAY, ChatRow, HeaderRow, Row
from app.i18n.translation import tr
from app.system.plain_text import tip

ROW = Qt.ItemDataRole.UserRole
_MIME = "application/x-coppice-conversation"
_MOST_STEPS = 32  # runs of rows that come or go one after the other; beyond, all rows are replaced at once

Index = QModelIndex | QPersistentModelIndex
_Key = tuple[str, str] | tuple[int, int]


class ConversationModel(QAbstractListModel):
    """Compares new rows with the old ones, so that views and screen readers hear only of what changed."""

    renamed = Signal(object, str)  # id of a conversation, its title
    moved = Signal(object, str)  # id of a conversation, a folder or nothing
    pinned = Signal(object, bool)  # id of a conversation, whether it is to stay at the top

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[Row] = []

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Show other rows. A row that was there before stays the current and the selected one, wherever it is now."""
        head, tail = _same_ends(self._rows, rows)  # of thousands of chats one is saved at a time
        former, new = self._rows[head : len(self._rows) - tail], rows[head : len(rows) - tail]
        before, after = [_key(row) for row in former], [_key(row) for row in new]
        kept = set(before) & set(after)
        gone, come = _runs_without(before, kept), _runs_without(after, kept)
        is_unique = len(set(before)) == len(before) and len(set(after)) == len(after)
        if not (kept or head or tail) or not is_unique or len(gone) + len(come) > _MOST_STEPS:
            self.beginResetModel()
            self._rows = list(rows)
            self.endResetModel()
            return
        for first, last in reversed(gone):
            self.beginRemoveRows(QModelIndex(), head + first, head + last)
            del self._rows[head + first : head + last + 1]
            self.endRemoveRows()
        self._reorder(head, [key for key in after if key in kept])
        for first, last in come:
            self.beginInsertRows(QModelIndex(), head + first, head + last)
            self._rows[head + first : head + first] = new[first : last + 1]
            self.endInsertRows()
        self._update(head, new)

    def _reorder(self, head: int, keys: Sequence[_Key]) -> None:
        """Bring the rows behind the first `head` into this order, as many as there are keys."""
        end = head + len(keys)
        before = [_key(row) for row in self._rows[head:end]]
        if before == keys:
            return
        self.layoutAboutToBeChanged.emit()
        places = {key: number for number, key in enumerate(keys)}
        known = self.persistentIndexList()
        rows = [index.row() for index in known]
        moved = [head + places[before[row - head]] if head <= row < end else row for row in rows]
        self._rows[head:end] = sorted(self._rows[head:end], key=lambda row: places[_key(row)])
        self.changePersistentIndexList(known, [self.index(number) for number in moved])
        self.layoutChanged.emit()

    def _update(self, head: int, rows: Sequence[Row]) -> None:
        """Take over what is new in rows that stay where they are, behind the first `head`.

        Qt lays out all rows again for each that is said to have changed: what nobody sees, as its time, is not said.
        """
        end = head + len(rows)
        pairs = enumerate(zip(self._rows[head:end], rows, strict=True), head)
        changed = [number for number, (one, other) in pairs if _shown(one) != _shown(other)]
        self._rows[head:end] = rows
        if changed:
            self.dataChanged.emit(self.index(changed[0]), self.index(changed[-1]))

    def row(self, index: Index) -> Row | None:
        """What stands there."""
        return self._rows[index.row()] if 0 <= index.row() < len(self._rows) else None

    @property
    def first(self) -> QModelIndex:
        """The first conversation; an invalid index if there is none."""
        chats = (number for number, row in enumerate(self._rows) if isinstance(row, ChatRow))
        return self.index(next(chats, -1))

    def index_of(self, conversation: int) -> QModelIndex:
        """Where a conversation stands; an invalid index if nowhere."""
        for number, row in enumerate(self._rows):
            if isinstance(row, ChatRow) and row.record.id == conversation:
                return self.index(number)
        return QModelIndex()

    def index_of_folder(self, folder: str) -> QModelIndex:
        """Where the header of a folder stands; an invalid index if nowhere."""
        rows = (number for number, row in enumerate(self._rows) if isinstance(row, HeaderRow) and row.folder == folder)
        return self.index(next(rows, -1))

    # ---- what Qt asks -----------------------------------------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802
        """A list has no rows below its rows."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The row itself, its words, and what a screen reader says."""
        row = self.row(index)
        if row is None:
            return None
        if role == ROW:
            return row
        words = _header(row) if isinstance(row, HeaderRow) else row.record.shown_title
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return words
        if role == Qt.ItemDataRole.AccessibleTextRole and isinstance(row, HeaderRow) and row.folder:
            return (tr("{folder}, collapsed folder") if row.is_closed else tr("{folder}, folder")).format(folder=words)
        folder = row.folder_elsewhere if isinstance(row, ChatRow) else ""
        with_folder = "\n".join(filter(None, (words, tr("Folder: {folder}").format(folder=folder) if folder else "")))
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return with_folder.replace("\n", ", ")
        has_tip = isinstance(row, ChatRow) or row.folder  # a name may be longer than the list is wide
        return tip(with_folder) if role == Qt.ItemDataRole.ToolTipRole and has_tip else None

    def setData(self, index: Index, value: object, role: int = Qt.ItemDataRole.EditRole) -> bool:  # noqa: N802
        """A title that was written in the list."""
        row = self.row(index)
        if not isinstance(row, ChatRow) or role != Qt.ItemDataRole.EditRole or str(value) == row.record.shown_title:
            return False
        self.renamed.emit(row.record.id, str(value))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Conversations are chosen, renamed and dragged; everything is dropped on, the empty room below too."""
        row = self.row(index)
        if isinstance(row, ChatRow):
            return (
                Qt.ItemFlag.ItemIsEnabled
                | Qt.ItemFlag.ItemIsSelectable
                | Qt.ItemFlag.ItemIsEditable
                | Qt.ItemFlag.ItemIsDragEnabled
                | Qt.ItemFlag.ItemIsDropEnabled
            )
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsDropEnabled if row else Qt.ItemFlag.ItemIsDropEnabled

    def mimeTypes(self) -> list[str]:  # noqa: N802
        """Only our own."""
        return [_MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:  # noqa: N802
        """The conversation that is dragged."""
        data = QMimeData()
        ids = [row.record.id for row in map(self.row, indexes) if isinstance(row, ChatRow)]
        data.setData(_MIME, ",".join(map(str, ids)).encode())
        return data

    def dropMimeData(  # noqa: N802
        self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index
    ) -> bool:
        """Into a group, wherever in it: among the pinned ones, into its folder, or out of every folder."""
        del action, column
        header = self._group(parent.row() if parent.isValid() else row - 1 if row > 0 else row)
        if header is None or not data.hasFormat(_MIME):
            return False
        for identity in map(int, bytes(data.data(_MIME).data()).decode().split(",")):
            dragged = self.row(self.index_of(identity))
            if isinstance(dragged, ChatRow):
                self._bring(dragged, header)
        return False  # the list is shown anew by whoever moved it; Qt must not take rows away

    def _group(self, row: int) -> HeaderRow | None:
        """The header of the group that a row is in; below the last row is no folder. None among what was found."""
        headers = [each for each in self._rows[: row + 1] if isinstance(each, HeaderRow)]
        header = headers[-1] if headers else HeaderRow(TODAY)
        found = any(each in (HeaderRow(IN_TITLES), HeaderRow(IN_TEXTS)) for each in self._rows)
        return None if found else header

    def _bring(self, dragged: ChatRow, header: HeaderRow) -> None:
        pins = header == HeaderRow(PINNED)
        if pins != dragged.record.is_pinned:
            self.pinned.emit(dragged.record.id, pins)
        if not pins and header.folder != dragged.record.folder:
            self.moved.emit(dragged.record.id, header.folder)


def _same_ends(before: Sequence[Row], after: Sequence[Row]) -> tuple[int, int]:
    """How many rows are the same at the beginning, and how many at the end."""
    most = min(len(before), len(after))
    head = next((place for place in range(most) if not _is_same(before[place], after[place])), most)
    most -= head
    tail = next((place for place in range(most) if not _is_same(before[-1 - place], after[-1 - place])), most)
    return head, tail


def _shown(row: Row) -> tuple[object, ...]:
    """All that is seen of a row."""
    if isinstance(row, HeaderRow):
        return row.text, row.folder, row.count, row.is_closed
    return row.record.shown_title, row.folder_elsewhere, row.record.is_pinned, row.excerpt


def _is_same(one: Row, other: Row) -> bool:
    """Whether two rows are the same for sure; told without comparing all of two records."""
    if isinstance(one, ChatRow) and isinstance(other, ChatRow):
        same_words = one.excerpt == other.excerpt and one.message == other.message
        return one.record is other.record and same_words and one.is_found is other.is_found
    return one == other


def _key(row: Row) -> _Key:
    """What stays the same of a row while its words change."""
    return (row.text, row.folder) if isinstance(row, HeaderRow) else (row.record.id, row.message)


def _runs_without(keys: Sequence[_Key], kept: Set[_Key]) -> list[tuple[int, int]]:
    """First and last place of every run of keys that are not among the kept ones."""
    runs = []
    for is_kept, numbers in groupby(range(len(keys)), lambda number: keys[number] in kept):
        if not is_kept:
            places = list(numbers)
            runs.append((places[0], places[-1]))
    return runs


def _header(row: HeaderRow) -> str:
    """The name of a folder is the person's own word, every other header is ours."""
    return row.text if row.folder else tr(row.text)
