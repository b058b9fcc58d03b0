"""The tree as nested bands: one graphics item that lays out and paints up to thousands of them."""

import math

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from app.tree.picture.chips.left_edge import LeftClip
from app.tree.picture.icicle_layout import IciclePicture, compose_icicle
from app.tree.picture.lettering import Lettering
from app.tree.picture.moving.parts import Part, guesses
from app.tree.picture.picture import BONUS_NODE, MARGIN, Size
from app.tree.picture.styles import BOLD_STYLES, BONUS, PATH_STYLES, STYLES, ink, mark, node_styles, outline
from app.tree.rounds.snapshot import Snapshot
from app.ui.colors import TreeColors

_INDENT = 5.0  # logical pixels from the edge of a band to its text
_SIZES = (1.35, 1.8)  # of letters, times the font's own; few, as each is laid out
_MOST_COMPARED = 64  # nodes
_GAPPED = 3.0  # bands that are thinner are drawn without a gap
_OUTLINED = 6.0  # bands of guesses that are thinner have no outline, but its colour: their own would hardly be seen


class IcicleItem(pg.GraphicsObject):  # type: ignore[misc]
    """Paints one picture, in logical pixels from its top left corner. Only what is in view costs anything."""

    def __init__(self, colors: TreeColors, letters: Lettering) -> None:
        super().__init__()
        self._colors = colors
        self._letters = letters
        self._picture: IciclePicture | None = None
        self._rectangles: NDArray[np.float64] = np.empty((0, 4))  # left, top, right, bottom of every shown band
        self._nodes: NDArray[np.intp] = np.empty(0, np.intp)
        self._styles: NDArray[np.intp] = np.empty(0, np.intp)
        self._mark: QRectF | None = None
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemUsesExtendedStyleOption)  # paint gets the exposed rectangle

    def compose(
        self, tree: Snapshot, letters: Lettering, view: Size, zoom: float, _opened: tuple[int, ...] = ()
    ) -> IciclePicture:
        """Lay a tree out and show it; too thin bands have no counts that could be opened."""
        held = self._picture if self._picture and not tree.is_verified and self._picture.view == view else None
        most = self._letters.type.line if held else math.inf  # what grows does not begin large only to shrink
        picture, letters = _fitted(tree, letters, view, zoom, most)
        self.prepareGeometryChange()
        self._picture, self._letters = picture, letters
        self._nodes = np.flatnonzero(picture.bands.shown)
        self._styles = node_styles(tree)[self._nodes]
        self._rectangles = _rectangles(picture, self._nodes)
        self.update()
        return picture

    def clear(self) -> None:
        """Show nothing."""
        self.prepareGeometryChange()
        self._picture = None
        self.update()

    def set_clip(self, clip: LeftClip | None) -> None:
        """Bands may be cut at the edge: their columns tell where they go on."""

    def set_mark(self, place: QRectF | None) -> None:
        """Draw a line around a band."""
        self._mark = place
        self.update()

    def set_colors(self, colors: TreeColors) -> None:
        """Change the colours."""
        self._colors = colors
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        """The whole picture with its margins."""
        return QRectF(0, 0, *self._picture.size) if self._picture else QRectF()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        """Bands by style, the path last, then the texts that fit."""
        self.paint_part(painter, Part.WHOLE, option.exposedRect)
        if self._mark and self._picture:
            painter.setPen(mark(self._colors))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self._mark)

    def paint_part(self, painter: QPainter, part: Part, exposed: QRectF) -> None:
        """The same of a part; the mark is left out."""
        picture = self._picture
        if picture is None:
            return
        is_path, styles = part is Part.PATH, self._styles
        if part is Part.GUESSES:
            styles = node_styles(guesses(picture.tree))[self._nodes]
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        left, top, right, bottom = self._rectangles.T
        in_view = (right > exposed.left()) & (left < exposed.right())
        in_view &= (bottom > exposed.top()) & (top < exposed.bottom())
        for style in PATH_STYLES if is_path else STYLES:
            chosen = np.flatnonzero(in_view & (styles == style))
            self._paint_bands(painter, style, [QRectF(*box) for box in self._boxes(chosen)])
            self._paint_texts(painter, style, chosen, exposed)
        if picture.tree.has_bonus and part is not Part.GUESSES:
            self._paint_bonus(painter, picture)

    def _boxes(self, chosen: NDArray[np.intp]) -> list[list[float]]:
        """x, y, width and height of these, with a gap to the next."""
        edges = self._rectangles[chosen]
        sizes = edges[:, 2:] - edges[:, :2]
        sizes -= sizes >= _GAPPED
        boxes: list[list[float]] = np.concatenate([edges[:, :2], sizes], 1).tolist()
        return boxes

    def _paint_bands(self, painter: QPainter, style: int, bands: list[QRectF]) -> None:
        """The line lies within the band."""
        colours, pen = ink(self._colors, style), outline(self._colors, style)
        least = 0.0 if style in PATH_STYLES else _OUTLINED
        thin = [band for band in bands if min(band.height(), band.width()) < least]
        full = [band for band in bands if min(band.height(), band.width()) >= least]
        if thin:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colours.line))
            painter.drawRects(thin)
        if full:
            if pen.style() != Qt.PenStyle.NoPen:
                inset = pen.widthF() / 2
                full = [band.adjusted(inset, inset, -inset, -inset) for band in full]
            painter.setPen(pen)
            painter.setBrush(QColor(colours.fill))
            painter.drawRects(full)

    def _paint_texts(self, painter: QPainter, style: int, chosen: NDArray[np.intp], exposed: QRectF) -> None:
        letters, line = self._letters, self._letters.type.line
        visible = np.clip(self._rectangles[chosen, 1::2], exposed.top(), exposed.bottom())
        tall = np.flatnonzero(np.diff(visible, axis=1)[:, 0] >= line)
        if not len(tall) or self._picture is None:
            return
        tree, bold = self._picture.tree, style in BOLD_STYLES
        painter.setPen(QColor(ink(self._colors, style).text))
        painter.setFont(letters.bold if bold else letters.plain)
        places = zip(chosen[tall].tolist(), visible[tall].mean(1).tolist(), strict=True)
        for index, middle in places:
            node, (left, _, right, _) = int(self._nodes[index]), self._rectangles[index].tolist()
            text = letters.fitted(tree.pieces[node], int(tree.tokens[node]), int(right - left - 2 * _INDENT), bold=bold)
            if text:
                letters.draw(painter, QPointF(left + _INDENT, round(middle + letters.baseline)), text, bold=bold)

    def _paint_bonus(self, painter: QPainter, picture: IciclePicture) -> None:
        box, letters, tree = picture.chip(BONUS_NODE), self._letters, picture.tree
        left, top = round(box.x), round(box.y)
        band = QRectF(left, top, round(box.x + box.width) - left - 1, round(box.y + box.height) - top - 1)
        self._paint_bands(painter, BONUS, [band])
        painter.setPen(QColor(ink(self._colors, BONUS).text))
        painter.setFont(letters.bold)
        text = letters.fitted(tree.bonus_piece, tree.bonus, int(box.width - 2 * _INDENT), bold=True)
        if text and band.height() >= letters.type.line:
            start = QPointF(box.x + _INDENT, round(band.center().y() + letters.baseline))
            letters.draw(painter, start, text, bold=True)


def _fitted(
    tree: Snapshot, letters: Lettering, view: Size, zoom: float, most: float
) -> tuple[IciclePicture, Lettering]:
    """Letters as large as they can be with no fewer bands and texts than in their own size, lines up to `most` high.

    Large trees have no room to spare, and would take long to compare.
    """
    usual = _composed(tree, letters, view, zoom)
    if tree.drafted > _MOST_COMPARED:
        return usual, letters
    found, needed = (usual, letters), _readable(usual, letters)
    for size in _SIZES:
        larger = letters.times(size)
        if larger.type.line > most:
            break
        picture = _composed(tree, larger, view, zoom)
        if picture.shown < usual.shown or _readable(picture, larger) < needed:
            break
        found = picture, larger
    return found


def _composed(tree: Snapshot, letters: Lettering, view: Size, zoom: float) -> IciclePicture:
    path = [(tree.pieces[node], int(tree.tokens[node])) for node in tree.accepted]
    if tree.has_bonus:
        path.append((tree.bonus_piece, tree.bonus))
    widths = [_room(letters, *token) for token in path]
    return compose_icicle(tree, widths, view=view, zoom=zoom, text=letters.type)


def _readable(picture: IciclePicture, letters: Lettering) -> int:
    tree = picture.tree
    tokens = zip(tree.pieces, tree.tokens.tolist(), strict=True)
    widths = np.array([_room(letters, *token) for token in tokens])
    return picture.readable(widths, _room(letters, tree.bonus_piece, tree.bonus) if tree.has_bonus else 0.0)


def _room(letters: Lettering, piece: str, token: int) -> float:
    return letters.label(piece, token).bold_width + 2 * _INDENT + 1


def _rectangles(picture: IciclePicture, nodes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Left, top, right and bottom, on whole pixels; neighbours share their edges."""
    bands, depths = picture.bands, picture.tree.depths[nodes]
    begins = MARGIN + bands.tops[nodes]
    ends = np.maximum(np.round(begins + bands.heights[nodes]), np.round(begins) + 1)
    low, high = picture.levels[depths], picture.levels[depths + 1]
    across = (np.round(begins), ends)
    sides = (across[0], low, across[1], high) if picture.is_downward else (low, across[0], high, across[1])
    return np.stack(sides, 1)
