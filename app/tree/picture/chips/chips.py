"""The tree as chips and curves: one graphics item, which paints what was prepared."""

from dataclasses import replace

import pyqtgraph as pg
from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from app.tree.picture.chips.chips_drawing import Chip, Drawing, draw
from app.tree.picture.chips.chips_fitting import compose_chips
from app.tree.picture.chips.chips_picture import ChipsPicture
from app.tree.picture.chips.left_edge import LeftClip
from app.tree.picture.lettering import Lettering
from app.tree.picture.moving.parts import Part, guesses
from app.tree.picture.picture import Size
from app.tree.picture.styles import BOLD_STYLES, PATH_STYLES, REJECTED, edge, ink, mark, outline
from app.tree.rounds.snapshot import Snapshot
from app.ui.colors import TreeColors

_CORNER = 4.0


class ChipsItem(pg.GraphicsObject):  # type: ignore[misc]
    """Paints one drawing, in logical pixels from its top left corner."""

    def __init__(self, colors: TreeColors, letters: Lettering) -> None:
        super().__init__()
        self._colors = colors
        self._letters = letters
        self._picture: ChipsPicture | None = None  # what is shown
        self._drawing: Drawing | None = None
        self._clip: LeftClip | None = None
        self._mark: QRectF | None = None
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemUsesExtendedStyleOption)  # paint gets the exposed rectangle

    def compose(
        self, tree: Snapshot, letters: Lettering, view: Size, zoom: float, opened: tuple[int, ...] = ()
    ) -> ChipsPicture:
        """Lay a tree out and show it."""
        widths = [letters.label(*token).width for token in zip(tree.pieces, tree.tokens.tolist(), strict=True)]
        bonus_width = letters.label(tree.bonus_piece, tree.bonus).width
        picture = compose_chips(
            tree, widths, bonus_width, view=view, zoom=zoom, text=letters.type, before=self._picture, opened=opened
        )
        self._picture = picture
        self._show(draw(picture, letters), letters)
        return picture

    def clear(self) -> None:
        """Show nothing."""
        self._picture = None
        self._show(None, self._letters)

    def set_clip(self, clip: LeftClip | None) -> None:
        """Leave out the chips at the left edge of the view; with None they are cut there."""
        self._clip = clip
        self.update()

    def set_mark(self, place: QRectF | None) -> None:
        """Draw a line around a chip, given in the coordinates of the picture."""
        self._mark = place
        self.update()

    def set_colors(self, colors: TreeColors) -> None:
        """Change the colours."""
        self._colors = colors
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        """The whole picture with its margins."""
        return self._drawing.bounds if self._drawing else QRectF()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        """Edges first, then chips, so that no line runs over a text."""
        if self._drawing is None:
            return
        self._paint(painter, self._drawing, option.exposedRect)
        if self._mark:
            self._paint_mark(painter, self._mark, self._drawing.scale)

    def paint_part(self, painter: QPainter, part: Part, exposed: QRectF) -> None:
        """The same of a part; the mark is left out."""
        drawing = self._drawing_of(part)
        if drawing is not None:
            painter.scale(drawing.scale, drawing.scale)
            inner = QRectF(exposed.topLeft() / drawing.scale, exposed.size() / drawing.scale)
            self._paint(painter, drawing, inner)

    def _drawing_of(self, part: Part) -> Drawing | None:
        picture, whole = self._picture, self._drawing
        if picture is None or whole is None or part is Part.WHOLE:
            return whole
        if part is Part.GUESSES:
            without = replace(picture, tree=guesses(picture.tree), layout=replace(picture.layout, bonus=None))
            return draw(without, self._letters)
        edges = tuple(each for each in whole.edges if each[0] in PATH_STYLES)
        return replace(
            whole, edges=edges, chips=tuple(each for each in whole.chips if each[0] in PATH_STYLES), counts=()
        )

    def _paint(self, painter: QPainter, drawing: Drawing, exposed: QRectF) -> None:
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_edges(painter, drawing)
        clip = self._clip
        for style, chips in drawing.chips:
            in_view = [chip for chip in chips if chip.rect.intersects(exposed)]
            if clip:
                self._paint_left_out(painter, style, [chip for chip in in_view if clip.takes(style, chip.rect)])
                in_view = [chip for chip in in_view if not clip.takes(style, chip.rect)]
            self._paint_chips(painter, style, in_view)
        painter.setPen(QColor(self._colors.muted))
        painter.setFont(self._letters.small)
        for count in drawing.counts:
            if clip is None or count.start.x() >= clip.left:
                painter.drawText(count.start, count.text)

    def _show(self, drawing: Drawing | None, letters: Lettering) -> None:
        self.prepareGeometryChange()
        self._drawing = drawing
        self._letters = letters
        self.setScale(drawing.scale if drawing else 1.0)
        self.update()

    def _paint_edges(self, painter: QPainter, drawing: Drawing) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for style, path in drawing.edges:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, style < REJECTED or not drawing.is_square)
            painter.setPen(edge(self._colors, style))
            painter.drawPath(path)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)

    def _paint_left_out(self, painter: QPainter, style: int, chips: list[Chip]) -> None:
        """A line in place of every chip, so that what hangs behind it hangs on something."""
        painter.setPen(edge(self._colors, style))
        for chip in chips:
            y = chip.rect.center().y()
            painter.drawLine(QLineF(chip.rect.left(), y, chip.rect.right(), y))

    def _paint_chips(self, painter: QPainter, style: int, chips: list[Chip]) -> None:
        colours = ink(self._colors, style)
        painter.setPen(outline(self._colors, style))
        painter.setBrush(QColor(colours.fill))
        for chip in chips:
            painter.drawRoundedRect(chip.rect, _CORNER, _CORNER)
        painter.setPen(QColor(colours.text))
        bold = style in BOLD_STYLES
        painter.setFont(self._letters.bold if bold else self._letters.plain)
        for chip in chips:
            self._letters.draw(painter, chip.start, chip.text, bold=bold)

    def _paint_mark(self, painter: QPainter, place: QRectF, scale: float) -> None:
        painter.setPen(mark(self._colors))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        unscaled = QRectF(place.x() / scale, place.y() / scale, place.width() / scale, place.height() / scale)
        painter.drawRoundedRect(unscaled.adjusted(-2, -2, 2, 2), _CORNER + 2, _CORNER + 2)
