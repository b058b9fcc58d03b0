"""A picture of chips prepared for painting: paths and lists by style, measured before the picture grows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainterPath

from app.tree.picture.chips.chips_picture import ChipsPicture
from app.tree.picture.lettering import Lettering
from app.tree.picture.picture import BONUS_NODE, Box
from app.tree.picture.styles import ACCEPTED, BONUS, STYLES, node_styles
from app.tree.rounds.snapshot import Snapshot

_ABOVE_EDGE = 2  # logical pixels between the middle of a row and the foot of a count


class Chip(NamedTuple):
    """One token; the text begins at `start`, on the baseline."""

    rect: QRectF
    text: str
    start: QPointF


class Count(NamedTuple):
    """How many nodes are folded into the chip before it."""

    text: str
    start: QPointF
    node: int
    width: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """Edges and chips by style, in the order of painting: unlikely edges first, accepted and bonus last.

    `is_square`: edges run along rows and columns of pixels, so that thin ones need not be smoothed.
    """

    edges: tuple[tuple[int, QPainterPath], ...]
    chips: tuple[tuple[int, tuple[Chip, ...]], ...]
    counts: tuple[Count, ...]
    bounds: QRectF
    scale: float
    is_square: bool


def draw(picture: ChipsPicture, letters: Lettering) -> Drawing:
    """Prepare a picture for painting; everything is measured before it grows by `scale`."""
    tree, layout, grid = picture.tree, picture.layout, picture.grid
    styles = node_styles(tree).tolist()
    boxes = {node: grid.box(place) for node, place in layout.places.items()}
    bonus = grid.box(layout.bonus) if layout.bonus else None
    return Drawing(
        edges=_edges(picture, {**boxes, BONUS_NODE: bonus} if bonus else boxes, styles),
        chips=_chips(tree, boxes, bonus, styles, letters),
        counts=_counts(picture, boxes, letters),
        bounds=QRectF(0, 0, picture.size.width / grid.scale, picture.size.height / grid.scale),
        scale=grid.scale,
        is_square=layout.is_downward,
    )


def _chips(
    tree: Snapshot, boxes: Mapping[int, Box], bonus: Box | None, styles: list[int], letters: Lettering
) -> tuple[tuple[int, tuple[Chip, ...]], ...]:
    tokens, pieces, label, baseline = tree.tokens.tolist(), tree.pieces, letters.label, letters.baseline
    chips: dict[int, list[Chip]] = {style: [] for style in STYLES}
    for node, (x, y, width, height) in boxes.items():
        style = styles[node]
        text, plain, bold, _ = label(pieces[node], tokens[node])
        start = QPointF(
            round(x + (width - (bold if style == ACCEPTED else plain)) / 2), round(y + height / 2 + baseline)
        )
        chips[style].append(Chip(QRectF(x, y, width, height), text, start))
    if bonus:
        x, y, width, height = bonus
        text, _, bold, _ = label(tree.bonus_piece, tree.bonus)
        start = QPointF(round(x + (width - bold) / 2), round(y + height / 2 + baseline))
        chips[BONUS].append(Chip(QRectF(x, y, width, height), text, start))
    return tuple((style, tuple(alike)) for style, alike in chips.items() if alike)


def _counts(picture: ChipsPicture, boxes: Mapping[int, Box], letters: Lettering) -> tuple[Count, ...]:
    """Counts stand in the upper half of the gap behind their chip, where no edge ever runs: edges only lead down."""
    layout = picture.layout
    parents = set(picture.tree.parents[list(layout.places)].tolist())
    if layout.bonus:
        parents.add(picture.tree.tip)
    counts = []
    for node, folded in layout.folded.items():
        box = boxes[node]
        text = "99+" if folded > 99 and node in parents else f"+{folded}"
        start = QPointF(box.x + box.width + 2, box.y + box.height / 2 - _ABOVE_EDGE)
        counts.append(Count(text, start, node, letters.small_width(text)))
    return tuple(counts)


def _edges(picture: ChipsPicture, boxes: Mapping[int, Box], styles: list[int]) -> tuple[tuple[int, QPainterPath], ...]:
    tree, layout = picture.tree, picture.layout
    parents = tree.parents.tolist()
    paths = {style: QPainterPath() for style in STYLES}
    is_downward = layout.is_downward
    rails = _rails(parents, tree.tip, boxes) if is_downward else {}
    gutter = picture.grid.gutter
    for node, box in boxes.items():
        if not node:
            continue
        parent = tree.tip if node == BONUS_NODE else parents[node]
        path, above = paths[BONUS if node == BONUS_NODE else styles[node]], boxes[parent]
        if is_downward and box[1] > above[1]:
            _connect_lines(path, above, box, rails[parent], gutter)
        else:
            _connect(path, above, box)
    return tuple((style, path) for style, path in paths.items() if not path.isEmpty())


def _rails(parents: list[int], tip: int, boxes: Mapping[int, Box]) -> dict[int, float]:
    """Of every node with children in lower lines: where its edges go down, left of all that is indented."""
    rails: dict[int, float] = {}
    for node, box in boxes.items():
        if node:
            parent = tip if node == BONUS_NODE else parents[node]
            rails[parent] = min(rails.get(parent, box.x), box.x)
    return {parent: left + _STEM for parent, left in rails.items()}


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


_STEM = 8.0  # from the left end of a chip to where its edges are tied on, where lines go downwards


def _connect_lines(path: QPainterPath, parent: Box, child: Box, rail: float, gutter: float) -> None:
    """From below a chip to above that of a lower line: between the lines, and down the rail past those between them."""
    left, above, width, height = parent
    start, bottom = left + min(_STEM, width / 2), above + height
    left, top, width, _ = child
    end = left + min(_STEM, width / 2)
    path.moveTo(start, bottom)
    if top - bottom > 2 * gutter:
        _bend(path, start, rail, bottom, bottom + gutter)
        path.lineTo(rail, top - gutter)
        _bend(path, rail, end, top - gutter, top)
    else:
        _bend(path, start, end, bottom, top)


def _bend(path: QPainterPath, start: float, end: float, above: float, below: float) -> None:
    """Down to the middle of two heights, across, and down to the lower one, with rounded corners."""
    way = end - start
    if abs(way) < 1:
        path.lineTo(end, below)
        return
    middle, turn = (above + below) / 2, math.copysign(min(abs(way) / 2, below - above), way)
    path.quadTo(start, middle, start + turn, middle)
    path.lineTo(end - turn, middle)
    path.quadTo(end, middle, end, below)
