"""Paints the frames of an animation: the tree, the answer so far beside or below it, and the figures of the round."""

import math
from collections.abc import Callable, Iterator

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QAbstractTextDocumentLayout,
    QColor,
    QFont,
    QFontInfo,
    QFontMetricsF,
    QImage,
    QPainter,
    QPalette,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextOption,
)

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.tree.exports.animations.story import Frame
from app.tree.picture.canvas import TreeCanvas
from app.tree.rounds.text import tokens_in_words
from app.ui.colors import Ink, TreeColors

_AREA = 960 * 540  # logical pixels: of larger pictures letters are larger, too
_MARGIN = 14.0
_TEXT_SHARE = 0.36  # of the side along which text and tree share the picture
_BESIDE = 1.2  # width to height from which on the text stands beside the tree
_LARGER = 1.2  # letters of the answer than those of the tree
_TAIL = 1600  # characters of the answer that are laid out: more are not seen
_LONGEST_WORD = 40  # letters; some languages have no spaces
_TRANSPARENT_LINE = 90  # of 255


class Scene:
    """Paints one frame after the other; as in the window, a tree is laid out as the one before was if that does."""

    def __init__(self, size: QSize, way: str, colors: TreeColors, font: QFont) -> None:
        """`size` in pixels."""
        self.size = size
        self._scale = max(1.0, math.sqrt(size.width() * size.height() / _AREA))
        self._colors = colors
        self._font = _in_pixels(font, 1.0)
        self._tree, self._text, self._caption = self._areas()
        self._canvas = TreeCanvas(colors)  # never shown; lays out and follows as the one in the window does
        self._canvas.setFont(self._font)
        self._canvas.resize(self._tree.size().toSize())
        self._canvas.set_way(way)

    def close(self) -> None:
        """Nothing more is to be painted."""
        self._canvas.close()
        self._canvas.deleteLater()

    def image(self, frame: Frame) -> QImage:
        """The frame, in the format RGB32."""
        *_, image = self.steps(frame)
        assert image, "the last step is the frame"
        return image

    def steps(self, frame: Frame) -> Iterator[QImage | None]:
        """The frame, painted in steps that are short enough for a window that is used meanwhile; it comes last."""
        self._canvas.show_tree(frame.tree)
        yield None
        image = QImage(self.size, QImage.Format.Format_RGB32)  # the format that is painted fastest
        image.fill(QColor(self._colors.background))
        self._paint(image, frame, self._paint_tree)
        yield None
        self._paint(image, frame, self._paint_text)
        self._paint(image, frame, self._paint_caption)
        yield image

    def _paint(self, image: QImage, frame: Frame, paint: Callable[[QPainter, Frame], None]) -> None:
        painter = QPainter(image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.scale(self._scale, self._scale)
        paint(painter, frame)
        painter.end()

    def _areas(self) -> tuple[QRectF, QRectF, QRectF]:
        """Of tree, text and caption, in logical pixels."""
        whole = QRectF(0, 0, self.size.width() / self._scale, self.size.height() / self._scale)
        inner = whole.adjusted(_MARGIN, _MARGIN, -_MARGIN, -_MARGIN)
        line = QFontMetricsF(self._font).height()
        caption = QRectF(inner.left(), inner.bottom() - line, inner.width(), line)
        inner.setBottom(caption.top() - _MARGIN / 2)
        tree, text = QRectF(inner), QRectF(inner)
        if whole.width() >= _BESIDE * whole.height():
            text.setWidth(inner.width() * _TEXT_SHARE)
            tree.setLeft(text.right() + 2 * _MARGIN)
        else:
            text.setTop(inner.bottom() - inner.height() * _TEXT_SHARE)
            tree.setBottom(text.top() - 2 * _MARGIN)
        return tree, text, caption

    def _paint_tree(self, painter: QPainter, _frame: Frame) -> None:
        """The one that was laid out."""
        painter.save()
        painter.translate(self._tree.topLeft())
        painter.setClipRect(QRectF(0, 0, self._tree.width(), self._tree.height()))
        self._canvas.paint_on(painter, self._colors)
        painter.restore()

    def _paint_text(self, painter: QPainter, frame: Frame) -> None:
        """The end of it, where there is more than fits; with a line to the tree."""
        line = QColor(self._colors.muted)
        line.setAlpha(_TRANSPARENT_LINE)
        painter.setPen(line)
        if self._text.right() < self._tree.left():
            x = (self._text.right() + self._tree.left()) / 2
            painter.drawLine(QPointF(x, self._text.top()), QPointF(x, self._text.bottom()))
        else:
            y = (self._text.top() + self._tree.bottom()) / 2
            painter.drawLine(QPointF(self._text.left(), y), QPointF(self._text.right(), y))
        document = self._document(frame)
        painter.save()
        painter.setClipRect(self._text)
        above = max(0.0, document.size().height() - self._text.height())
        painter.translate(self._text.left(), self._text.top() - above)
        context = QAbstractTextDocumentLayout.PaintContext()
        context.palette.setColor(QPalette.ColorRole.Text, QColor(self._colors.text))
        document.documentLayout().draw(painter, context)
        painter.restore()

    def _document(self, frame: Frame) -> QTextDocument:
        document = QTextDocument()
        document.setDocumentMargin(0)
        document.setDefaultFont(_in_pixels(self._font, _LARGER))
        wrapping = QTextOption()
        wrapping.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        document.setDefaultTextOption(wrapping)
        document.setTextWidth(self._text.width())
        cursor = QTextCursor(document)
        cursor.insertText(_tail(frame.told), QTextCharFormat())
        cursor.insertText(_tail(frame.accepted), _format(self._colors.accepted))
        cursor.insertText(_tail(frame.bonus), _format(self._colors.bonus))
        return document

    def _paint_caption(self, painter: QPainter, frame: Frame) -> None:
        painter.setPen(QColor(self._colors.muted))
        painter.setFont(self._font)
        painter.drawText(self._caption, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, _words(frame))


def _words(frame: Frame) -> str:
    """The round, and what comes of it as far as that is decided."""
    tree = frame.tree
    words = [tr("Round {number}").format(number=f"{Number(tree.number):,}")]
    if not tree.is_verified:
        nodes = tr("1 node") if tree.drafted == 1 else tr("{count} nodes")
        words += [nodes.format(count=f"{Number(tree.drafted):,}")]
        words += [tr("being checked") if tree.checking else tr("not checked yet")]
    else:
        words += [tokens_in_words(tree)]
    return " · ".join(words)


def _tail(text: str) -> str:
    """The end of a long text, from a whole word on where there are spaces between words."""
    if len(text) <= _TAIL:
        return text
    end = text[-_TAIL:]
    return "… " + end[end.find(" ", 0, _LONGEST_WORD) + 1 :]


def _format(ink: Ink) -> QTextCharFormat:
    made = QTextCharFormat()
    made.setBackground(QColor(ink.fill))
    made.setForeground(QColor(ink.text))
    return made


def _in_pixels(font: QFont, factor: float) -> QFont:
    """The same in pixels: a size in points would depend on what is painted on."""
    made = QFont(font)
    made.setPixelSize(max(1, round(QFontInfo(font).pixelSize() * factor)))
    return made
