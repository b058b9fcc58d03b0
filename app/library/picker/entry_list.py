"""The lines of a list of models, as its view asks for them; ten thousand are as quick as ten."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.i18n.number_text import size_text
from app.i18n.translation import tr
from app.library.picker.entry import Entry, parameters_text
from app.library.picker.filters import Filter
from app.library.picker.verdict import UNKNOWN, Verdict
from app.system.plain_text import tip

ENTRY = Qt.ItemDataRole.UserRole
VERDICT = Qt.ItemDataRole.UserRole + 1
BADGE = Qt.ItemDataRole.UserRole + 2

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()


class EntryList(QAbstractListModel):
    """All entries, and which of them a filter lets through. Every line has a verdict, and perhaps a badge."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: list[Entry] = []
        self._shown: list[int] = []
        self._rows: dict[str, int] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._badges: dict[str, str] = {}
        self._filter = Filter()

    def rowCount(self, parent: Index = _ROOT) -> int:  # noqa: N802
        """The lines that are shown."""
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """A line, whole or in words."""
        entry = self.entry(index.row())
        if entry is None:
            return None
        verdict, badge = self.verdict(entry.key), self._badges.get(entry.key, "")
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip(describe(entry, verdict))
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(filter(None, (entry.name, entry.figures, badge, verdict.words)))
        return {ENTRY: entry, VERDICT: verdict, BADGE: badge, Qt.ItemDataRole.DisplayRole: entry.name}.get(role)

    def entry(self, row: int) -> Entry | None:
        """The entry in a line."""
        return self._entries[self._shown[row]] if 0 <= row < len(self._shown) else None

    def row_of(self, key: str) -> int:
        """The line of an entry, -1 where it is not shown."""
        return self._rows.get(key, -1)

    def verdict(self, key: str) -> Verdict:
        """What is said of it."""
        return self._verdicts.get(key, UNKNOWN)

    @property
    def total(self) -> int:
        """All entries, whether they are shown or not."""
        return len(self._entries)

    def replace(self, entries: Sequence[Entry]) -> None:
        """Show others; what was said of those that stay is still true."""
        self.beginResetModel()
        self._entries = [self._completed(each) for each in entries]
        self._choose()
        self.endResetModel()

    def append(self, entries: Iterable[Entry]) -> None:
        """Show more."""
        begin = len(self._entries)
        self._entries += map(self._completed, entries)
        new = [each for each in range(begin, len(self._entries)) if self._passes(self._entries[each])]
        if new:
            first = len(self._shown)
            self.beginInsertRows(QModelIndex(), first, first + len(new) - 1)
            self._shown += new
            self._rows |= {self._entries[place].key: first + row for row, place in enumerate(new)}
            self.endInsertRows()

    def set_filter(self, wanted: Filter) -> None:
        """Show only what passes."""
        if wanted != self._filter:
            self._filter = wanted
            self.beginResetModel()
            self._choose()
            self.endResetModel()

    def set_verdict(self, key: str, verdict: Verdict) -> None:
        """Say something of an entry; it goes if the filter does not let it through any more."""
        if self.verdict(key) == verdict:
            return
        self._verdicts[key] = verdict
        row = self.row_of(key)
        if row < 0:
            return
        self._entries[self._shown[row]] = self._completed(self._entries[self._shown[row]])
        if self._passes(self._entries[self._shown[row]]):
            self._touch(row)
        else:
            self.beginRemoveRows(QModelIndex(), row, row)
            del self._shown[row]
            self._number()
            self.endRemoveRows()

    def set_badges(self, badges: dict[str, str]) -> None:
        """A word beside the name, such as where it is already."""
        changed = {key for key in {*badges, *self._badges} if badges.get(key) != self._badges.get(key)}
        self._badges = badges
        for key in changed:
            if (row := self.row_of(key)) >= 0:
                self._touch(row)

    def forget_verdicts(self) -> None:
        """Nothing is known any more, as when the terms have changed."""
        self._verdicts.clear()
        if self._shown:
            self.dataChanged.emit(self.index(0), self.index(len(self._shown) - 1))

    def _completed(self, entry: Entry) -> Entry:
        """With the number of parameters, which only the engine knows of models on this computer."""
        counted = self.verdict(entry.key).parameters
        return replace(entry, parameters=counted) if counted and not entry.parameters else entry

    def _passes(self, entry: Entry) -> bool:
        return self._filter.passes(entry, self.verdict(entry.key))

    def _choose(self) -> None:
        self._shown = [place for place, entry in enumerate(self._entries) if self._passes(entry)]
        self._number()

    def _number(self) -> None:
        self._rows = {self._entries[place].key: row for row, place in enumerate(self._shown)}

    def _touch(self, row: int) -> None:
        self.dataChanged.emit(self.index(row), self.index(row))


def describe(entry: Entry, verdict: Verdict) -> str:
    """Every figure of a line with its meaning, a line each."""
    parameters = tr("Parameters: {count}").format(count=parameters_text(entry.parameters)) if entry.parameters else ""
    size = tr("Download: {size}") if entry.of_hub else tr("On disk: {size}")
    lines = (
        entry.name,
        entry.about,
        parameters,
        tr("Format: {format}").format(format=entry.format) if entry.format else "",
        size.format(size=size_text(entry.bytes)) if entry.bytes else "",
        tr("Licence: {licence}").format(licence=entry.licence) if entry.licence else "",
        tr("Gated: its authors ask for a login, and for consent to their terms") if entry.gated else "",
        tr("Family: {family}; its tokenizer is compared when a draft is chosen").format(family=entry.family)
        if entry.family
        else "",
        tr("Where: {place}").format(place=tr(entry.where.value)),
        tr("Last used: {day}").format(day=entry.last_used_text) if entry.last_used else "",
        entry.problem,
        verdict.words,
        verdict.details if verdict.details not in verdict.words else "",
    )
    return "\n".join(filter(None, lines))
