"""The tree as chips and curves: one graphics item that paints a prepared drawing."""

from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from app.tree.drawing import ACCEPTED, BONUS, ROOT, Chip, Drawing
from app.tree.lettering import Lettering
from app.tree.palette import EDGE_WIDTHS, Ink, Palette

_OUTLINES = {ROOT: 1.0, ACCEPTED: 1.6, BONUS: 1.6}  # logical pixels; drafted chips have no outline
_EDGES = {ROOT: 3.6, ACCEPTED: 3.6, BONUS: 2.2}
_CORNER = 4.0


@dataclass(frozen=True, slots=True)
class Brink:
    """Where chips are left out rather than cut: those that begin left of `left`, those of the accepted path that begin
    left of `path_left`, and those that touch `patch`; all in the units of the drawing.
    """

    left: float
    path_left: float
    patch: QRectF

    def takes(self, style: int, chip: QRectF) -> bool:
        """Whether a chip is left out."""
        left = self.path_left if style in _EDGES else self.left
        return chip.x() < left or chip.intersects(self.patch)


class ChipsItem(pg.GraphicsObject):  # type: ignore[misc]
    """Paints one drawing, in logical pixels from its top left corner."""

    def __init__(self, palette: Palette, letters: Lettering) -> None:
        super().__init__()
        self._palette = palette
        self._letters = letters
        self._drawing: Drawing | None = None
        self._brink: Brink | None = None
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemUsesExtendedStyleOption)  # paint gets the exposed rectangle

    def show_drawing(self, drawing: Drawing | None, letters: Lettering) -> None:
        """Replace the picture; None for none."""
        self.prepareGeometryChange()
        self._drawing = drawing
        self._letters = letters
        self.setScale(drawing.scale if drawing else 1.0)
        self.update()

    def set_brink(self, brink: Brink | None) -> None:
        """Leave out the chips at the left edge of the view; with None they are cut there."""
        self._brink = brink
        self.update()

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        self._palette = palette
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        """The whole picture with its margins."""
        return self._drawing.bounds if self._drawing else QRectF()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        """Edges first, then chips, so that no line runs over a text."""
        if self._drawing is None:
            return
        exposed: QRectF = option.exposedRect
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_edges(painter, self._drawing)
        brink = self._brink
        for style, chips in self._drawing.chips:
            in_view = [chip for chip in chips if chip.rect.intersects(exposed)]
            if brink:
                self._paint_left_out(painter, style, [chip for chip in in_view if brink.takes(style, chip.rect)])
                in_view = [chip for chip in in_view if not brink.takes(style, chip.rect)]
            self._paint_chips(painter, style, in_view)
        painter.setPen(QColor(self._palette.muted))
        painter.setFont(self._letters.small)
        for count in self._drawing.counts:
            if brink is None or count.start.x() >= brink.left:
                painter.drawText(count.start, count.text)

    def _paint_edges(self, painter: QPainter, drawing: Drawing) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for style, path in drawing.edges:
            painter.setPen(self._edge(style))
            painter.drawPath(path)

    def _paint_left_out(self, painter: QPainter, style: int, chips: list[Chip]) -> None:
        """A line in place of every chip, so that what hangs behind it hangs on something."""
        painter.setPen(self._edge(style))
        for chip in chips:
            y = chip.rect.center().y()
            painter.drawLine(QLineF(chip.rect.left(), y, chip.rect.right(), y))

    def _paint_chips(self, painter: QPainter, style: int, chips: list[Chip]) -> None:
        ink = self._ink(style)
        painter.setPen(self._outline(style))
        painter.setBrush(QColor(ink.fill))
        for chip in chips:
            painter.drawRoundedRect(chip.rect, _CORNER, _CORNER)
        painter.setPen(QColor(ink.text))
        painter.setFont(self._letters.bold if style in (ACCEPTED, BONUS) else self._letters.plain)
        for chip in chips:
            painter.drawText(chip.start, chip.text)

    def _edge(self, style: int) -> QPen:
        return QPen(QColor(self._ink(style).line), _EDGES.get(style) or EDGE_WIDTHS[style])

    def _outline(self, style: int) -> QPen:
        if style not in _OUTLINES:
            return QPen(Qt.PenStyle.NoPen)
        pen = QPen(QColor(self._ink(style).line), _OUTLINES[style])
        if style == BONUS:
            pen.setStyle(Qt.PenStyle.DashLine)
        return pen

    def _ink(self, style: int) -> Ink:
        palette = self._palette
        return {ROOT: palette.root, ACCEPTED: palette.accepted, BONUS: palette.bonus}.get(style) or palette.ramp[style]
