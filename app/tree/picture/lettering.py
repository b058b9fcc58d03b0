"""The fonts of the tree, and how wide its texts are."""

from typing import NamedTuple

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QFont, QFontInfo, QFontMetricsF, QPainter, QStaticText

from app.i18n.translation import tr
from app.tree.picture.picture import MARGIN, Type
from app.tree.rounds.text import visible

LEAST_PIXELS = 9.0
"""Of letters, the small ones too: below this nobody reads them."""

_SMALL = 0.85
_LONGEST = 16  # mean characters in a chip; a longer token is elided
_LEAST_LETTERS = 3.5  # mean characters: with less room a text is left out rather than elided
_CACHED = 20_000
_SHAPED = 4_000  # texts; they take more memory than their widths


class Label(NamedTuple):
    """The text of a chip; its widths, and the chip's own, are in logical pixels."""

    text: str
    plain_width: float
    bold_width: float
    width: int


class Lettering:
    """Plain, bold and small letters of one family. Tokens come again and again, so what was measured is kept.

    A chip is as wide as its text in bold, whether or not it is bold now: it keeps its width when it is accepted.
    """

    def __init__(self, font: QFont) -> None:
        self.plain = font
        self.bold = QFont(font)
        self.bold.setBold(True)
        self.small = QFont(font)
        if font.pixelSize() > 0:
            self.small.setPixelSize(round(font.pixelSize() * _SMALL))
        else:
            self.small.setPointSizeF(font.pointSizeF() * _SMALL)
        self._bold, self._small = QFontMetricsF(self.bold), QFontMetricsF(self.small)
        self._plain = QFontMetricsF(font)
        self._small_widths: dict[str, float] = {}
        line, count = self._plain.height(), self._small.horizontalAdvance("+99")
        gap = round(count) + 5
        lead = (
            MARGIN + round(self.small_width(tr("‹ {count} more").format(count=99))) + gap
        )  # a count may stand between the sign and the token
        self.type = Type(line=line, gap=gap, link=round(line * 0.6), lead=lead, least_size=self._least_size())
        self.baseline = (self._plain.ascent() - self._plain.descent()) / 2
        self.small_baseline = (self._small.ascent() - self._small.descent()) / 2
        self._padding = round(line * 0.35)
        self._ascents = (self._plain.ascent(), self._bold.ascent())
        self._shaped: dict[tuple[str, bool], QStaticText] = {}
        self._labels: dict[tuple[str, int], Label] = {}
        self._fitted: dict[tuple[str, int, bool], str] = {}
        self._larger: dict[float, Lettering] = {}

    def times(self, size: float) -> "Lettering":
        """The same, so many times as large; kept, as they come again and again."""
        if size == 1.0:
            return self
        if size not in self._larger:
            font = QFont(self.plain)
            font.setPixelSize(round(QFontInfo(self.plain).pixelSize() * size))
            self._larger[size] = Lettering(font)
        return self._larger[size]

    def _least_size(self) -> float:
        """Times their own size at which the small letters are as small as any may be."""
        return min(1.0, LEAST_PIXELS / QFontInfo(self.small).pixelSize())

    def draw(self, painter: QPainter, start: QPointF, text: str, *, bold: bool) -> None:
        """Draw a text that begins at `start`, on its baseline, in the painter's pen; shaped once, then only painted."""
        key = (text, bold)
        shaped = self._shaped.get(key)
        if shaped is None:
            if len(self._shaped) >= _SHAPED:
                self._shaped.clear()
            shaped = self._shaped[key] = QStaticText(text)
            shaped.setTextFormat(Qt.TextFormat.PlainText)
        painter.drawStaticText(QPointF(start.x(), start.y() - self._ascents[bold]), shaped)

    def small_width(self, text: str) -> float:
        """How wide a text is in small letters, in logical pixels; these are few, such as `+7`."""
        width = self._small_widths.get(text)
        if width is None:
            if len(self._small_widths) >= _CACHED:
                self._small_widths.clear()
            width = self._small_widths[text] = self._small.horizontalAdvance(text)
        return width

    def label(self, piece: str, token: int) -> Label:
        """A token made visible and, if it is very long, elided."""
        label = self._labels.get((piece, token))
        if label is None:
            if len(self._labels) >= _CACHED:
                self._labels.clear()
            label = self._labels[piece, token] = self._measured(visible(piece, token))
        return label

    def fitted(self, piece: str, token: int, room: int, *, bold: bool) -> str:
        """A token made visible, elided to so many logical pixels; empty where that would say nothing."""
        label = self.label(piece, token)
        if (label.bold_width if bold else label.plain_width) <= room:
            return label.text
        if room < _LEAST_LETTERS * self._plain.averageCharWidth():
            return ""
        key = (label.text, room, bold)
        if key not in self._fitted:
            if len(self._fitted) >= _CACHED:
                self._fitted.clear()
            letters = self._bold if bold else self._plain
            self._fitted[key] = letters.elidedText(label.text, Qt.TextElideMode.ElideRight, room)
        return self._fitted[key]

    def _measured(self, text: str) -> Label:
        room = _LONGEST * self._bold.averageCharWidth()
        fitting = self._bold.elidedText(text, Qt.TextElideMode.ElideRight, room)
        plain, bold = self._plain.horizontalAdvance(fitting), self._bold.horizontalAdvance(fitting)
        width = max(plain, bold, self.type.line) + 2 * self._padding  # a comma is to be hit, too
        return Label(fitting, plain, bold, round(width))
