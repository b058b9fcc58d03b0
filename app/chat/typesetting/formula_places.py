"""The formulas of one document: shown as they were written first, and as pictures as soon as there are some.

Qt draws pictures by itself. An object of ours would be asked for its size again and again, each time the text around
it is painted: a screen full of formulas would hold the window for a tenth of a second.
"""

import math
from collections.abc import Set as AbstractSet
from functools import lru_cache

from PySide6.QtCore import QByteArray, QPointF, QRectF, QSize, QSizeF, Qt, QUrl
from PySide6.QtGui import (
    QFontInfo,
    QFontMetrics,
    QGuiApplication,
    QImage,
    QPainter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextImageFormat,
    QTextLength,
)
from PySide6.QtSvg import QSvgRenderer

from app.chat.typesetting.formula_drawing import INK, Formula
from app.chat.typesetting.formulas import Formulas, Latex
from app.chat.typesetting.layout_cost import Budget

_Place = tuple[QTextCursor, Latex]  # the text of a formula, selected

OBJECT = "￼"
PARAGRAPH = "\u2029"  # as Qt has the end of a line in what is selected
SOURCE = QTextFormat.Property.UserProperty.value + 1  # how the formula was written
MOST_PIXELS = 8_000_000  # of all pictures in a document; there are some thousand in a formula of a line
_SCALE = 1.12  # the formulas' letters are smaller than those of most fonts
_SIZE = QTextFormat.Property.FontPixelSize.value
_IMAGE = QTextDocument.ResourceType.ImageResource.value
_NO_WIDER = QTextLength(QTextLength.Type.PercentageLength, 100)  # than the document


class FormulaPlaces:
    """Puts pictures into a document. Without `formulas` everything stays as it was written."""

    def __init__(self, document: QTextDocument, formulas: Formulas | None, color: str) -> None:
        self._document = document
        self._formulas = formulas
        self._images = FormulaImages(document, color)
        self._awaited: list[_Place] = []
        self._ready: list[_Place] = []

    @property
    def is_current(self) -> bool:
        """Whether all pictures that there are stand in their places."""
        return not self._ready

    def clear(self, color: str) -> None:
        """The document was emptied; what comes will be in this colour."""
        self._images.clear(color)
        self._awaited, self._ready = [], []

    def fit(self) -> None:
        """The document has another width."""
        self._images.fit()

    def place(self, found: QTextCursor, latex: Latex) -> None:
        """Put a formula in the place of the selected text."""
        if self._formulas is not None and self._formulas.is_known(latex):
            self._draw(found, latex)
        else:
            begin = found.selectionStart()
            found.insertText(latex.source)
            found.setPosition(begin, QTextCursor.MoveMode.KeepAnchor)
            self._awaited.append((found, latex))

    def take(self, settled: AbstractSet[Latex]) -> None:
        """These are settled now; `draw` puts them where they are awaited."""
        self._ready += [each for each in self._awaited if each[1] in settled]
        self._awaited = [(place, each) for place, each in self._awaited if each not in settled and place.hasSelection()]

    def draw(self, budget: Budget) -> None:
        """Put pictures in their places, all of a paragraph at once, until none is left or the time is up."""
        whole = QTextCursor(self._document)
        while self._ready:
            paragraph = self._ready[-1][0].block()
            whole.beginEditBlock()
            while self._ready and self._ready[-1][0].block() == paragraph:
                place, latex = self._ready.pop()
                if place.selectedText().replace(PARAGRAPH, "\n") == latex.source:  # it still stands there
                    self._draw(place, latex)
            whole.endEditBlock()
            if budget.is_spent:
                return

    def _draw(self, place: QTextCursor, latex: Latex) -> None:
        picture = self._formulas.picture(latex) if self._formulas else None
        shown = self._images.format(latex, picture) if picture is not None else None
        if shown is None:
            place.insertText(latex.source)
        else:
            plain = QTextFormat(place.charFormat()).toCharFormat()
            place.insertText(OBJECT, shown)
            place.setCharFormat(plain)


class FormulaImages:
    """The pictures in one document, in its letters' size and as sharp as the sharpest screen; every formula once."""

    def __init__(self, document: QTextDocument, color: str) -> None:
        self._document = document
        self.clear(color)

    def clear(self, color: str) -> None:
        """Begin anew, in this colour and the letters that the document has now."""
        self._color = color
        self._fitted_width = self._width
        self._formats: dict[Latex, QTextImageFormat] = {}
        self._pictures: dict[str, Formula] = {}  # by their names in the document

    def format(self, latex: Latex, picture: Formula) -> QTextImageFormat | None:
        """The format of the character that stands for a formula; None if there is no more room for pictures."""
        if latex not in self._formats:
            if not self._formats:
                self._em = QFontInfo(self._document.defaultFont()).pixelSize() * _SCALE
                self.fit()
            if self._pixels(picture) + sum(map(self._pixels, self._pictures.values())) > MOST_PIXELS:
                return None
            self._formats[latex] = self._made(latex, picture)
        return self._formats[latex]

    def fit(self) -> None:
        """The document may have another width: draw anew what was too wide for it, or is now."""
        before, self._fitted_width = self._fitted_width, self._width
        narrow = min(before, self._fitted_width)
        wide = [
            each
            for each in self._pictures.items()
            if before != self._fitted_width and each[1].width * self._em > narrow
        ]
        for name, picture in wide:
            self._draw(name, picture)
        if wide:
            self._document.markContentsDirty(0, self._document.characterCount())

    @property
    def _width(self) -> float:
        return self._document.textWidth() if self._document.textWidth() > 0 else math.inf

    def _pixels(self, picture: Formula) -> float:
        """At most so many, in whatever width: a picture that is made narrower becomes lower, too."""
        ratio: float = QGuiApplication.instance().devicePixelRatio()  # type: ignore[union-attr]
        return picture.width * (picture.ascent + picture.depth) * (self._em * ratio) ** 2

    def _made(self, latex: Latex, picture: Formula) -> QTextImageFormat:
        name = f"formula:{len(self._formats)}"
        depth = self._draw(name, picture)
        made = QTextImageFormat()
        made.setName(name)
        made.setProperty(SOURCE, latex.source)
        made.setMaximumWidth(_NO_WIDER)
        if depth:  # else it stands on the line by itself
            made.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignBaseline)
            made.setProperty(_SIZE, _size_that_reaches(depth))
        return made

    def _draw(self, name: str, picture: Formula) -> int:
        """Give the document a picture, no wider than the document is; returns how far it goes below the line."""
        em = self._em * min(1.0, self._fitted_width / (picture.width * self._em))
        ascent, depth = math.ceil(picture.ascent * em), max(0, math.ceil(picture.depth * em))
        size = QSize(max(1, math.ceil(picture.width * em)), max(1, ascent + depth))
        exact = QSizeF(picture.width, picture.ascent + picture.depth) * em
        place = QRectF(QPointF(0, ascent - picture.ascent * em), exact)
        self._document.addResource(_IMAGE, QUrl(name), _image(picture.svg.replace(INK, self._color), place, size))
        self._pictures[name] = picture
        return depth


@lru_cache(maxsize=200)
def _size_that_reaches(depth: int) -> int:
    """How large letters are, in pixels, that go this far below the line: a picture is put as low as they go."""
    size = max(1, depth * 100 // max(1, _depth_of_letters(100)))
    while _depth_of_letters(size) < depth:
        size += 1
    while size > 1 and _depth_of_letters(size - 1) >= depth:
        size -= 1
    return size


def _depth_of_letters(pixels: int) -> int:
    probe = QTextCharFormat()
    probe.setProperty(_SIZE, pixels)
    return QFontMetrics(probe.font()).descent()


def _image(svg: str, place: QRectF, size: QSize) -> QImage:
    """The picture at a place in a size of whole pixels."""
    ratio = QGuiApplication.instance().devicePixelRatio()  # type: ignore[union-attr]
    image = QImage(size * ratio, QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(ratio)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(svg.encode())).render(painter, place)
    painter.end()
    return image
