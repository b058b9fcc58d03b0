"""The lines of a list of models, each model once, and how a line is painted."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QRect, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem

from app.i18n.number_text import size_text
from app.i18n.translation import tr
from app.library.local.models import Sight
from app.library.picker.choice_list import ROOT, Index, LineDelegate, bold
from app.library.picker.entry import UNKNOWN, Entry, Filter, Tone, Verdict, parameters_text
from app.system.plain_text import tip
from app.ui.theme import Colors

ENTRY = Qt.ItemDataRole.UserRole
VERDICT = Qt.ItemDataRole.UserRole + 1
BADGE = Qt.ItemDataRole.UserRole + 2


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

    def rowCount(self, parent: Index = ROOT) -> int:  # noqa: N802
        """The lines that are shown."""
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """A line, whole or in words."""
        entry = self.entry(index.row())
        if entry is None:
            return None
        verdict, badge = self._verdicts.get(entry.key, entry.guess), self._badges.get(entry.key, "")
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip(describe(entry, verdict))
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(filter(None, (entry.name, entry.figures, entry.words_of_sight, badge, verdict.words)))
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

    def set_bytes(self, source: str, size: int) -> None:
        """Say how large a model really is, once the hub has told."""
        for place, entry in enumerate(self._entries):
            if entry.source == source and entry.is_estimate and size:
                self._entries[place] = replace(entry, bytes=size, is_estimate=False)
                if (row := self.row_of(entry.key)) >= 0:
                    self._touch(row)

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
        entry.words_of_sight,
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


_SIDE, _ABOVE, _BETWEEN = 14, 9, 3
_DOT = 7


class EntryDelegate(LineDelegate):
    """Three lines a model, all of one height."""

    rows, room = 3, 2 * _ABOVE + 2 * _BETWEEN

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """One model."""
        entry, verdict = index.data(ENTRY), index.data(VERDICT)
        if not isinstance(entry, Entry) or not isinstance(verdict, Verdict):
            return
        painter.save()
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # names and numbers stand in a row
        is_chosen = self.begin(painter, option)
        if is_chosen and option.state & QStyle.StateFlag.State_HasFocus:
            self._paint_frame(painter, option.rect)
        metrics = QFontMetrics(option.font)
        rect: QRect = option.rect
        line = QRect(rect.left() + _SIDE, rect.top() + _ABOVE, rect.width() - 2 * _SIDE, metrics.lineSpacing())
        self._paint_name(painter, option.font, line, entry, str(index.data(BADGE)))
        painter.setFont(option.font)
        line = line.translated(0, line.height() + _BETWEEN)
        self.write(painter, line, entry.figures or entry.about, self.colors.muted)
        self._paint_verdict(painter, line.translated(0, line.height() + _BETWEEN), entry, verdict)
        painter.restore()

    def _paint_frame(self, painter: QPainter, rect: QRect) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QColor(self.colors.accent))
        painter.drawRoundedRect(rect.adjusted(4, 2, -5, -3), self.radius, self.radius)

    def _paint_name(self, painter: QPainter, plain: QFont, line: QRect, entry: Entry, badge: str) -> None:
        """The owner in grey, the name in bold, badges at the right end."""
        sees = tr("Pictures") if entry.sight is Sight.READS else ""
        badges = [each for each in (sees, tr("Gated") if entry.gated else "", badge) if each]
        for each in badges:
            width = self._paint_badge(painter, plain, line, each)
            line = line.adjusted(0, 0, -width - 6, 0)
        owner, slash, name = entry.name.rpartition("/") if entry.of_hub or entry.local else ("", "", entry.name)
        at = line.left()
        for font, words, color in ((plain, owner + slash, self.colors.muted), (bold(plain), name, self.colors.text)):
            if not words:
                continue
            metrics = QFontMetrics(font)
            place = QRect(at, line.top(), line.right() - at, line.height())
            painter.setFont(font)
            self.write(painter, place, words, color)
            at += metrics.horizontalAdvance(words)

    def _paint_badge(self, painter: QPainter, plain: QFont, line: QRect, words: str) -> int:
        font = QFont(plain)
        font.setPointSizeF(plain.pointSizeF() * 0.85)
        metrics = QFontMetrics(font)
        width = metrics.horizontalAdvance(words) + 14
        place = QRect(line.right() - width, line.top(), width, line.height())
        painter.setPen(QColor(self.colors.border))
        painter.setBrush(QColor(self.colors.raised))
        painter.drawRoundedRect(place, place.height() / 2, place.height() / 2)
        painter.setFont(font)
        painter.setPen(QColor(self.colors.muted))
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, words)
        return width

    def _paint_verdict(self, painter: QPainter, line: QRect, entry: Entry, verdict: Verdict) -> None:
        words, tone = verdict.words, verdict.tone
        if entry.problem:
            words, tone = entry.problem_verdict.words, entry.problem_verdict.tone
        elif not words and entry.suggestion is not None:
            suggestion = entry.suggestion
            words = tr("Made for {vram} GB of GPU memory and {ram} GB of RAM")
            words = words.format(vram=suggestion.vram_gb, ram=suggestion.ram_gb)
        if not words:
            return
        if tone is Tone.QUIET:
            self.write(painter, line, words, self.colors.muted)
            return
        color = QColor(tone_color(self.colors, tone))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        middle = line.center().y()
        painter.drawEllipse(line.left(), middle - _DOT // 2, _DOT, _DOT)
        self.write(painter, line.adjusted(_DOT + 7, 0, 0, 0), words, color.name())


def tone_color(colors: Colors, tone: Tone) -> str:
    """The colour of good, mixed and bad news."""
    return {
        Tone.GOOD: colors.accent,
        Tone.FAIR: colors.link,
        Tone.SLOW: colors.warning,
        Tone.BAD: colors.error,
        Tone.QUIET: colors.muted,
    }[tone]
