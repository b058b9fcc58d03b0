"""A formula inside a line of text: stands on the line, sharp at every scale, in the colour of the theme."""

from PySide6.QtCore import QByteArray, QObject, QRect, QRectF, QSizeF
from PySide6.QtGui import (
    QFont,
    QFontInfo,
    QFontMetricsF,
    QPainter,
    QPyTextObject,
    QTextCharFormat,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtSvg import QSvgRenderer

from app.chat.formula_drawing import INK, Formula
from app.chat.formulas import Formulas, Latex

OBJECT = "￼"
KIND = QTextFormat.ObjectTypes.UserObject.value + 1
SOURCE = QTextFormat.Property.UserProperty.value + 1  # how the formula was written

_SCALE = 1.12  # the formulas' letters are smaller than those of most fonts
_CONTENT, _DISPLAYED, _MARK = SOURCE + 1, SOURCE + 2, SOURCE + 3


class FormulaObject(QPyTextObject):
    """Measures and paints the formulas of a document."""

    def __init__(self, formulas: Formulas, color: str, parent: QObject) -> None:
        super().__init__(parent)
        self._formulas = formulas
        self._color = color
        self._renderers: dict[Latex, QSvgRenderer] = {}
        self._latexes: dict[str, Latex] = {}  # by how they were written
        self._em = 0.0  # the size of a letter of the font for which it was asked last
        self._font = QFont()

    def set_color(self, color: str) -> None:
        """Draw in another colour."""
        self._color = color
        self._renderers.clear()

    def intrinsicSize(self, document: QTextDocument, _position: int, layout: QTextFormat) -> QSizeF:  # noqa: N802
        """The size in this document's letters, no wider than the document."""
        picture = self._formulas.picture(self._latex(layout))
        if picture is None:
            return QSizeF(0, 0)
        font = document.defaultFont()
        if not self._em or font != self._font:
            self._font, self._em = font, letter_size(font)
        em = self._em
        room = document.textWidth()
        shrink = min(1.0, room / (picture.width * em)) if room > 0 else 1.0
        return QSizeF(picture.width, picture.ascent + picture.depth) * em * shrink

    def drawObject(  # noqa: N802
        self,
        painter: QPainter,
        rect: QRectF | QRect,
        _document: QTextDocument,
        _position: int,
        layout: QTextFormat,
    ) -> None:
        """Paint the formula."""
        latex = self._latex(layout)
        picture = self._formulas.picture(latex)
        if picture is None:
            return
        renderer = self._renderers.get(latex)
        if renderer is None:
            renderer = QSvgRenderer(QByteArray(picture.svg.replace(INK, self._color).encode()), self)
            self._renderers[latex] = renderer
        renderer.render(painter, QRectF(rect))

    def _latex(self, layout: QTextFormat) -> Latex:
        """A text layout asks several times for every formula, so one property has to do."""
        source = str(layout.property(SOURCE)) + str(layout.property(_DISPLAYED))
        if source not in self._latexes:
            self._latexes[source] = _latex(layout)
        return self._latexes[source]


def formula_format(latex: Latex, picture: Formula, font: QFont) -> QTextCharFormat:
    """The format of the character that stands for a formula."""
    layout = QTextCharFormat()
    layout.setObjectType(KIND)
    layout.setProperty(SOURCE, latex.source)
    layout.setProperty(_CONTENT, latex.content)
    layout.setProperty(_DISPLAYED, latex.displayed)
    layout.setProperty(_MARK, latex.mark)
    layout.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
    layout.setFont(_aligning(picture, font))
    return layout


def letter_size(font: QFont) -> float:
    """The size of a formula's letters beside text in this font, in pixels."""
    return QFontInfo(font).pixelSize() * _SCALE


def _aligning(picture: Formula, font: QFont) -> QFont:
    """A text layout centres an object on a quarter of its font's x-height: the font that makes that its base line."""
    wanted = 2 * (picture.ascent - picture.depth) * letter_size(font)
    probe = QFont(font)
    probe.setPixelSize(100)
    made = QFont(font)
    made.setPixelSize(max(1, round(wanted * 100 / QFontMetricsF(probe).xHeight())))
    return made


def _latex(layout: QTextFormat) -> Latex:
    return Latex(str(layout.property(_CONTENT)), str(layout.property(_MARK)), bool(layout.property(_DISPLAYED)))
