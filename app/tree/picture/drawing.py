"""A laid-out tree, ready to be painted: edges gathered into a few paths, chips and counts gathered by style."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainterPath

from app.tree.picture.chips_picture import ChipsPicture
from app.tree.picture.grid import Box
from app.tree.picture.lettering import Label, Lettering
from app.tree.picture.palette import STEPS
from app.tree.rounds.snapshot import Snapshot

ROOT, ACCEPTED, BONUS, AHEAD = range(len(STEPS), len(STEPS) + 4)
"""Styles beside the steps of the ramp, which are those of guesses that are not decided yet."""

REJECTED = AHEAD + 1
"""The first of the styles of guesses that were not accepted, a step each."""

STYLES = (AHEAD, *reversed(range(REJECTED, REJECTED + len(STEPS))), *reversed(range(len(STEPS))), ROOT, ACCEPTED, BONUS)
"""All, in the order of painting: the unlikely first, the path last."""

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
    styles = node_styles(tree).tolist()
    boxes = {node: grid.box(place) for node, place in layout.places.items()}
    bonus = grid.box(layout.bonus) if layout.bonus else None
    return Drawing(
        edges=_edges(tree, boxes, bonus, styles),
        chips=_chips(tree, boxes, bonus, styles, letters),
        counts=_counts(picture, boxes),
        bounds=QRectF(0, 0, picture.size.width / grid.scale, picture.size.height / grid.scale),
        scale=grid.scale,
    )


def node_styles(tree: Snapshot) -> NDArray[np.intp]:
    """Per node: what became of it; where it was not accepted, or is not decided yet, the step of its probability."""
    least = -np.log(STEPS[:-1])
    steps = np.searchsorted(least, -tree.log_probs)
    if tree.has_bonus:
        steps += REJECTED
    elif tree.checking:
        steps[tree.checking :] = AHEAD
    steps[list(tree.accepted)] = ACCEPTED
    steps[0] = ROOT
    return steps


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
    tree: Snapshot, boxes: dict[int, Box], bonus: Box | None, styles: list[int]
) -> tuple[tuple[int, QPainterPath], ...]:
    paths = {style: QPainterPath() for style in STYLES}
    parents = tree.parents.tolist()
    for node, box in boxes.items():
        if node:
            _connect(paths[styles[node]], boxes[parents[node]], box)
    if bonus:
        _connect(paths[BONUS], boxes[tree.tip], bonus)
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
