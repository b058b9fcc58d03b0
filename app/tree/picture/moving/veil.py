"""The parts of a tree's picture above the canvas while something moves: each is painted once, and shown as it comes."""

import math
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from PySide6.QtCore import QPoint, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPixmap, QRegion
from PySide6.QtWidgets import QWidget

from app.tree.picture.canvas import TreeCanvas
from app.tree.picture.moving.parts import Part
from app.tree.picture.picture import Box, Picture, Point

_SOFT = 48  # logical pixels: from what is shown of a growing tree to what is not
_STRIPS = 8  # of these
_SAMPLE = 64  # nodes that tell which way a tree grows
_OUTLINE = 3  # logical pixels around a chip


@dataclass(frozen=True, slots=True)
class Moment:
    """How far each stage is, from 0 to 1."""

    grown: float
    checked: float
    cut: float


class Veil(QWidget):
    """Above the canvas while something moves: hides it, and lets the mouse through."""

    def __init__(self, canvas: TreeCanvas) -> None:
        super().__init__(canvas.viewport())
        self._canvas = canvas
        self._moment: Moment | None = None
        self._parts: dict[Part, QPixmap] = {}
        self._path: tuple[QRect, ...] = ()
        self._is_downward = False
        self._span = (0.0, 0.0)
        self.place: object = None
        self.spent = (0, 0.0)  # nodes of a part that was painted, and seconds for that
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.hide()

    def begin(self, picture: Picture) -> None:
        """Prepare this one."""
        origin = self._canvas.origin
        self._parts.clear()
        self.spent = (0, 0.0)
        self._path = tuple(_in_view(picture.chip(node), origin) for node in picture.path)
        self._is_downward = grows_downwards(picture)
        root = picture.chip(0)
        begin, end, room = (
            (root.y + root.height - origin.y, picture.size.height - origin.y, picture.view.height)
            if self._is_downward
            else (root.x + root.width - origin.x, picture.size.width - origin.x, picture.view.width)
        )
        self._span = (max(0.0, begin), max(0.0, min(end, room)))
        self.place = place_of(picture)

    def show_moment(self, now: Moment) -> None:
        """Show this one."""
        self._moment = now
        if self.isHidden():
            self.setGeometry(self._canvas.viewport().rect())
            self.show()
            self.raise_()
        self.update()

    def end(self) -> None:
        """Show the canvas."""
        self.hide()
        self._moment = None
        self._parts.clear()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Guesses, what becomes of them, and the path."""
        now, painter = self._moment, QPainter(self)
        painter.fillRect(self.rect(), self._canvas.background)
        if now is None:
            return
        if now.grown < 1:
            self._paint_growing(painter, now.grown)
            return
        painter.drawPixmap(0, 0, self._part(Part.GUESSES))
        if now.checked > 0:
            painter.setClipRegion(path_region(self._path, now.checked))
            painter.drawPixmap(0, 0, self._part(Part.PATH))
            painter.setClipping(False)
        if now.cut > 0:
            painter.setOpacity(now.cut)
            painter.drawPixmap(0, 0, self._part(Part.WHOLE))

    def _paint_growing(self, painter: QPainter, grown: float) -> None:
        """From the root on, with a soft edge."""
        begin, end = self._span
        front = begin + _SOFT + (end - begin) * _eased(grown)
        step = _SOFT / _STRIPS
        guesses = self._part(Part.GUESSES)
        self._paint_strip(painter, guesses, 0.0, front - _SOFT)
        for strip in range(_STRIPS):
            painter.setOpacity(1 - (strip + 0.5) / _STRIPS)
            self._paint_strip(painter, guesses, front - _SOFT + strip * step, front - _SOFT + (strip + 1) * step)
        painter.setOpacity(1.0)

    def _paint_strip(self, painter: QPainter, part: QPixmap, begin: float, end: float) -> None:
        size = self.size()
        strip = (
            QRectF(0, begin, size.width(), end - begin)
            if self._is_downward
            else QRectF(begin, 0, end - begin, size.height())
        )
        painter.setClipRect(strip.toAlignedRect() if begin == 0 else strip)
        painter.drawPixmap(0, 0, part)

    def _part(self, part: Part) -> QPixmap:
        """Painted when it is first asked for: no frame has to paint two of them."""
        if part not in self._parts:
            start = time.perf_counter()
            ratio = self.devicePixelRatioF()
            pixmap = QPixmap(self._canvas.viewport().size() * ratio)
            pixmap.setDevicePixelRatio(ratio)
            is_opaque = part is not Part.PATH
            pixmap.fill(self._canvas.background if is_opaque else QColor(Qt.GlobalColor.transparent))
            painter = QPainter(pixmap)
            self._canvas.paint_part(painter, part)
            painter.end()
            self._parts[part] = pixmap
            if part is Part.GUESSES and self._canvas.picture:
                self.spent = (self._canvas.picture.shown, time.perf_counter() - start)
        return self._parts[part]


def place_of(picture: Picture) -> object:
    """What tells pictures of the same tree apart."""
    return type(picture), picture.view, picture.size


def grows_downwards(picture: Picture) -> bool:
    """Whether nodes stand below the root, or the lower the deeper they are, rather than beside it, to the right."""
    root = picture.chip(0)
    children = [picture.chip(int(node)) for node in np.flatnonzero(picture.tree.parents == 0)[:_SAMPLE]]
    if not any(box != root and box.y < root.y + root.height and root.y < box.y + box.height for box in children):
        return True
    nodes = list(picture.nodes())
    sample = nodes[:: -(-len(nodes) // _SAMPLE)]
    boxes = [picture.chip(node) for node in sample]
    depths = picture.tree.depths[sample].astype(np.float64)
    depths -= depths.mean()

    def grows(places: list[float]) -> float:
        spread = np.array(places) - np.mean(places)
        norm = float(np.linalg.norm(spread))
        return abs(float(depths @ spread)) / norm if norm else 0.0

    return grows([box.y + box.height / 2 for box in boxes]) > grows([box.x + box.width / 2 for box in boxes])


def path_region(boxes: tuple[QRect, ...], share: float) -> QRegion:
    """Where the first `share` of a path is: its nodes one after the other, each with what leads to it."""
    around = [box.adjusted(-_OUTLINE, -_OUTLINE, _OUTLINE, _OUTLINE) for box in boxes]
    region = QRegion(around[0])
    reached = share * (len(boxes) - 1)
    for place, (box, following) in enumerate(pairwise(around)):
        part = min(1.0, reached - place)
        if part <= 0:
            break
        region += QRegion(box.united(_between(box, following, part)))
    for later in around[math.ceil(reached) + 1 :]:  # a path may turn: what stands in between is not reached yet
        region -= QRegion(later)
    return region


def _between(begin: QRect, end: QRect, share: float) -> QRect:
    def part(one: int, other: int) -> int:
        return round(one + (other - one) * share)

    corner = QPoint(part(begin.left(), end.left()), part(begin.top(), end.top()))
    return QRect(corner, QPoint(part(begin.right(), end.right()), part(begin.bottom(), end.bottom())))


def _in_view(box: Box, origin: Point) -> QRect:
    return QRectF(box.x - origin.x, box.y - origin.y, box.width, box.height).toAlignedRect()


def _eased(share: float) -> float:
    """Fast at first, slow at the end."""
    return 1 - (1 - share) ** 2
