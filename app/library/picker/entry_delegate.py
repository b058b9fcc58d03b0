"""Paints a model of a list: its name with badges, its figures, and how it would run here."""

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from app.i18n.translation import tr
from app.library.picker.entry import Entry
from app.library.picker.entry_list import BADGE, ENTRY, VERDICT
from app.library.picker.verdict import Tone, Verdict
from app.ui.theme import Colors

_SIDE, _ABOVE, _BETWEEN, _RADIUS = 14, 9, 3, 8
_DOT = 7
_AMBER = {True: "#e5b567", False: "#9a6700"}

Index = QModelIndex | QPersistentModelIndex
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


class EntryDelegate(QStyledItemDelegate):
    """Three lines a model, all of one height, in the theme's colours."""

    def __init__(self, colors: Colors, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.colors = colors

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """The same for all."""
        del index
        return QSize(0, 3 * QFontMetrics(option.font).lineSpacing() + 2 * _ABOVE + 2 * _BETWEEN)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """One model."""
        entry, verdict = index.data(ENTRY), index.data(VERDICT)
        if not isinstance(entry, Entry) or not isinstance(verdict, Verdict):
            return
        painter.save()
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # names and numbers stand in a row
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_ground(painter, option)
        metrics = QFontMetrics(option.font)
        rect: QRect = option.rect
        line = QRect(rect.left() + _SIDE, rect.top() + _ABOVE, rect.width() - 2 * _SIDE, metrics.lineSpacing())
        self._paint_name(painter, option.font, line, entry, str(index.data(BADGE)))
        painter.setFont(option.font)
        line = line.translated(0, line.height() + _BETWEEN)
        self._paint_words(painter, line, entry.figures or entry.about, self.colors.muted)
        self._paint_verdict(painter, line.translated(0, line.height() + _BETWEEN), entry, verdict)
        painter.restore()

    def _paint_ground(self, painter: QPainter, option: QStyleOptionViewItem) -> None:
        state = option.state
        chosen = bool(state & QStyle.StateFlag.State_Selected)
        rect: QRect = option.rect
        painter.setPen(Qt.PenStyle.NoPen)
        if chosen or state & QStyle.StateFlag.State_MouseOver:
            painter.setBrush(QColor(self.colors.bubble if chosen else self.colors.hover))
            painter.drawRoundedRect(rect.adjusted(4, 2, -4, -2), _RADIUS, _RADIUS)
        if state & QStyle.StateFlag.State_HasFocus and chosen:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(self.colors.accent))
            painter.drawRoundedRect(rect.adjusted(4, 2, -5, -3), _RADIUS, _RADIUS)

    def _paint_name(self, painter: QPainter, plain: QFont, line: QRect, entry: Entry, badge: str) -> None:
        """The owner in grey, the name in bold, badges at the right end."""
        badges = [each for each in (tr("Gated") if entry.gated else "", badge) if each]
        for each in badges:
            width = self._paint_badge(painter, plain, line, each)
            line = line.adjusted(0, 0, -width - 6, 0)
        bold = QFont(plain)
        bold.setWeight(QFont.Weight.DemiBold)
        owner, slash, name = entry.name.rpartition("/") if entry.of_hub or entry.local else ("", "", entry.name)
        at = line.left()
        for font, words, color in ((plain, owner + slash, self.colors.muted), (bold, name, self.colors.text)):
            if not words:
                continue
            metrics = QFontMetrics(font)
            place = QRect(at, line.top(), line.right() - at, line.height())
            painter.setFont(font)
            self._paint_words(painter, place, words, color)
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
            words, tone = entry.problem, Tone.BAD
        elif not words and entry.suggestion is not None:
            suggestion = entry.suggestion
            words = tr("Made for {vram} GB of GPU memory and {ram} GB of RAM")
            words = words.format(vram=suggestion.vram_gb, ram=suggestion.ram_gb)
        if not words:
            return
        if tone is Tone.QUIET:
            self._paint_words(painter, line, words, self.colors.muted)
            return
        color = QColor(tone_color(self.colors, tone))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        middle = line.center().y()
        painter.drawEllipse(line.left(), middle - _DOT // 2, _DOT, _DOT)
        self._paint_words(painter, line.adjusted(_DOT + 7, 0, 0, 0), words, color.name())

    def _paint_words(self, painter: QPainter, line: QRect, words: str, color: str) -> None:
        painter.setPen(QColor(color))
        shown = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, line.width())
        painter.drawText(line, _LEFT, shown)


def tone_color(colors: Colors, tone: Tone) -> str:
    """The colour of good, mixed and bad news."""
    return {
        Tone.GOOD: colors.accent,
        Tone.FAIR: colors.link,
        Tone.SLOW: _AMBER[colors.is_dark],
        Tone.BAD: colors.error,
        Tone.QUIET: colors.muted,
    }[tone]
