"""The tree as chips and curves: prepared as paths and lists by style, then painted by one graphics item."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyqtgraph as pg
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from app.tree.picture.chips_picture import ChipsPicture, compose_chips
from app.tree.picture.left_edge import LeftClip
from app.tree.picture.lettering import Label, Lettering
from app.tree.picture.parts import Part, guesses
from app.tree.picture.picture import Box, Size
from app.tree.picture.styles import (
    ACCEPTED,
    BOLD_STYLES,
    BONUS,
    PATH_STYLES,
    STYLES,
    edge,
    ink,
    mark,
    node_styles,
    outline,
)
from app.tree.rounds.snapshot import Snapshot
from app.ui.colors import TreeColors

_ABOVE_EDGE = 2  # logical pixels between the middle of a row and the foot of a count


@dataclass(frozen=True, slots=True)
class Chip:
    """One token; the text begins at `start`, on the baseline."""

    rect: QRectF
    text: str
    start: QPointF


@dataclass(frozen=True, slots=True)
class Count:
    """How many nodes are folded into the chip before it."""

    text: str
    start: QPointF


@dataclass(frozen=True, slots=True)
class Drawing:
    """Edges and chips by style, in the order of painting: unlikely edges first, accepted and bonus last."""

    edges: tuple[tuple[int, QPainterPath], ...]
    chips: tuple[tuple[int, tuple[Chip, ...]], ...]
    counts: tuple[Count, ...]
    bounds: QRectF
    scale: float


def draw(picture: ChipsPicture, letters: Lettering) -> Drawing:
    """Prepare a picture for painting; everything is measured before it grows by `scale`."""
    tree, layout, grid = picture.tree, picture.layout, picture.grid
    connect = _connect_downwards if layout.is_downward else _connect
    styles = node_styles(tree).tolist()
    boxes = {node: grid.box(place) for node, place in layout.places.items()}
    bonus = grid.box(layout.bonus) if layout.bonus else None
    return Drawing(
        edges=_edges(tree, boxes, bonus, styles, connect),
        chips=_chips(tree, boxes, bonus, styles, letters),
        counts=_counts(picture, boxes),
        bounds=QRectF(0, 0, picture.size.width / grid.scale, picture.size.height / grid.scale),
        scale=grid.scale,
    )


def _chips(
    tree: Snapshot, boxes: dict[int, Box], bonus: Box | None, styles: list[int], letters: Lettering
) -> tuple[tuple[int, tuple[Chip, ...]], ...]:
    tokens = tree.tokens.tolist()
    chips: dict[int, list[Chip]] = {}
    for node, box in boxes.items():
        label, style = letters.label(tree.pieces[node], tokens[node]), styles[node]
        chips.setdefault(style, []).append(_chip(box, label, letters, bold=style == ACCEPTED))
    if bonus:
        chips[BONUS] = [_chip(bonus, letters.label(tree.bonus_piece, tree.bonus), letters, bold=True)]
    return tuple((style, tuple(alike)) for style, alike in chips.items())


def _chip(box: Box, label: Label, letters: Lettering, *, bold: bool) -> Chip:
    indent = (box.width - (label.bold_width if bold else label.plain_width)) / 2
    baseline = round(box.y + box.height / 2 + letters.baseline)
    return Chip(QRectF(*box), label.text, QPointF(round(box.x + indent), baseline))


def _counts(picture: ChipsPicture, boxes: dict[int, Box]) -> tuple[Count, ...]:
    """Counts stand in the upper half of the gap behind their chip, where no edge ever runs: edges only lead down."""
    layout = picture.layout
    parents = set(picture.tree.parents[list(layout.places)].tolist())
    if layout.bonus:
        parents.add(picture.tree.tip)
    counts = []
    for node, folded in layout.folded.items():
        box = boxes[node]
        text = "99+" if folded > 99 and node in parents else f"+{folded}"
        counts.append(Count(text, QPointF(box.x + box.width + 2, box.y + box.height / 2 - _ABOVE_EDGE)))
    return tuple(counts)


def _edges(
    tree: Snapshot,
    boxes: dict[int, Box],
    bonus: Box | None,
    styles: list[int],
    connect: Callable[[QPainterPath, Box, Box], None],
) -> tuple[tuple[int, QPainterPath], ...]:
    paths = {style: QPainterPath() for style in STYLES}
    parents = tree.parents.tolist()
    for node, box in boxes.items():
        if node:
            connect(paths[styles[node]], boxes[parents[node]], box)
    if bonus:
        connect(paths[BONUS], boxes[tree.tip], bonus)
    return tuple((style, path) for style, path in paths.items() if not path.isEmpty())


def _connect(path: QPainterPath, parent: Box, child: Box) -> None:
    """From the right end of a chip to the left end of another: the curve stays in the gap behind the parent."""
    start, end = parent.x + parent.width, child.x
    above, below = parent.y + parent.height / 2, child.y + child.height / 2
    path.moveTo(start, above)
    if above == below:
        path.lineTo(end, below)
    else:
        middle = (start + end) / 2
        path.cubicTo(middle, above, middle, below, end, below)


_STEM = 9.0  # from the left end of a chip to where its edges are tied on, where levels are rows


def _connect_downwards(path: QPainterPath, parent: Box, child: Box) -> None:
    """From below the beginning of a chip to above that of another: the curve stays between the two levels."""
    start, end = parent.x + min(_STEM, parent.width / 2), child.x + min(_STEM, child.width / 2)
    above, below = parent.y + parent.height, child.y
    path.moveTo(start, above)
    if abs(start - end) < 1:
        path.lineTo(end, below)
        return
    middle, turn = (above + below) / 2, math.copysign(min(abs(end - start) / 2, below - above), end - start)
    path.quadTo(start, middle, start + turn, middle)
    path.lineTo(end - turn, middle)
    path.quadTo(end, middle, end, below)


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

    def compose(self, tree: Snapshot, letters: Lettering, view: Size, zoom: float) -> ChipsPicture:
        """Lay a tree out and show it."""
        widths = [letters.label(*token).width for token in zip(tree.pieces, tree.tokens.tolist(), strict=True)]
        bonus_width = letters.label(tree.bonus_piece, tree.bonus).width
        picture = compose_chips(
            tree, widths, bonus_width, view=view, zoom=zoom, text=letters.type, before=self._picture
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
            painter.setPen(edge(self._colors, style))
            painter.drawPath(path)

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
        painter.setFont(self._letters.bold if style in BOLD_STYLES else self._letters.plain)
        for chip in chips:
            painter.drawText(chip.start, chip.text)

    def _paint_mark(self, painter: QPainter, place: QRectF, scale: float) -> None:
        painter.setPen(mark(self._colors))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        unscaled = QRectF(place.x() / scale, place.y() / scale, place.width() / scale, place.height() / scale)
        painter.drawRoundedRect(unscaled.adjusted(-2, -2, 2, 2), _CORNER + 2, _CORNER + 2)
