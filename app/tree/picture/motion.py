"""A round in one motion: the tree grows, the check sweeps along the accepted path, and what was rejected pales.

The picture is laid out and could be seen at once; a veil above it shows its parts, each painted a single time. A frame
costs a few copies of these, whatever the number of nodes.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPixmap, QRegion
from PySide6.QtWidgets import QWidget

from app.tree.picture.canvas import TreeCanvas
from app.tree.picture.parts import Part
from app.tree.picture.picture import Box, Picture, Point
from app.tree.rounds.snapshot import Snapshot

GROW_MS, CHECK_MS, CUT_MS = 90, 90, 70
LONGEST_MS = GROW_MS + CHECK_MS + CUT_MS
SHORTEST_MS = 120
"""In less time a motion cannot be followed: then there is none."""

FRAME_MS = 16
_SOFT = 48  # logical pixels: from what is shown of a growing tree to what is not
_STRIPS = 8  # of these
_SAMPLE = 64  # nodes that tell which way a tree grows
_OUTLINE = 3  # logical pixels around a chip
_ENDING = {
    QEvent.Type.KeyPress,
    QEvent.Type.ShortcutOverride,  # keys that are shortcuts
    QEvent.Type.MouseButtonPress,
    QEvent.Type.Wheel,
    QEvent.Type.Resize,
    QEvent.Type.Hide,
}


@dataclass
class Cost:
    """How long it takes here to paint a part of a tree: too large ones do not move."""

    seconds_per_node: float = 2e-5  # about what a core of 2.5 GHz takes
    _LEAST = 32  # nodes: of smaller trees most of the time is something else

    def allows(self, nodes: int) -> bool:
        """Whether a part with so many nodes is painted within a frame; from time to time it is tried again."""
        if nodes * self.seconds_per_node <= FRAME_MS / 1000:
            return True
        self.seconds_per_node *= 0.95
        return False

    def learn(self, nodes: int, seconds: float) -> None:
        """It was painted in so much time."""
        if nodes >= self._LEAST:
            self.seconds_per_node = (self.seconds_per_node + seconds / nodes) / 2


@dataclass(frozen=True, slots=True)
class Moment:
    """How far each stage is, from 0 to 1."""

    grown: float
    checked: float
    cut: float


def moment(elapsed_ms: float, length_ms: float, *, has_grown: bool) -> Moment | None:
    """Where a motion is that takes so long altogether; None once it is over."""
    if elapsed_ms >= length_ms:
        return None
    stages = (0 if has_grown else GROW_MS, CHECK_MS, CUT_MS)
    left = elapsed_ms * sum(stages) / length_ms
    shares = []
    for stage in stages:
        shares.append(min(1.0, left / stage) if stage else 1.0)
        left = max(0.0, left - stage)
    return Moment(*shares)


class Motion(QObject):
    """Moves what a canvas has just been told to show. Any key or click in it, and whatever else it shows, ends that."""

    def __init__(self, canvas: TreeCanvas, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock` tells seconds."""
        super().__init__(canvas)
        self.is_wanted = True
        self.cost = Cost()
        self._canvas = canvas
        self._clock = clock
        self._veil = _Veil(canvas)
        self._tree: Snapshot | None = None
        self._begun = self._asked = -math.inf
        self._length_ms = 0.0
        self._has_grown = False
        self._timer = QTimer(self, interval=FRAME_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.frame)
        canvas.composed.connect(self._on_composed)
        for watched in (canvas, canvas.viewport()):
            watched.installEventFilter(self)

    @property
    def is_running(self) -> bool:
        """Whether something moves."""
        return self._tree is not None

    def begin(self, before: Snapshot | None, room_ms: float) -> None:
        """Move what is shown now, in place of `before`; it will be seen for so long at least."""
        self.end()
        since_ms, self._asked = (self._clock() - self._asked) * 1000, self._clock()
        picture = self._canvas.picture
        if picture is None or not self._is_worth(picture, before) or min(room_ms, since_ms) < SHORTEST_MS:
            return
        self._tree = picture.tree
        self._has_grown = before is not None and before.number == picture.tree.number
        whole = LONGEST_MS - GROW_MS if self._has_grown else LONGEST_MS
        self._length_ms = min(whole, room_ms)
        start = self._clock()
        self._veil.begin(picture)
        self._begun = self._clock()
        self.cost.learn(picture.shown, self._begun - start)
        self.frame()
        self._timer.start()

    def frame(self) -> None:
        """Show the moment that it is now."""
        now = moment((self._clock() - self._begun) * 1000, self._length_ms, has_grown=self._has_grown)
        if now is None or not self._canvas.isVisible():
            self.end()
        else:
            self._veil.show_moment(now)

    def end(self) -> None:
        """Show all of it at once."""
        if self._tree is not None:
            self._timer.stop()
            self._tree = None
            self._veil.end()

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Who does something in the tree wants to see it."""
        if self._tree is not None and event.type() in _ENDING:
            self.end()
        return False

    def _is_worth(self, picture: Picture, before: Snapshot | None) -> bool:
        """Verified trees with guesses, if they were not seen verified just before."""
        tree = picture.tree
        is_new = before is None or before.number != tree.number or not before.has_bonus
        is_whole = bool(tree.has_bonus and tree.drafted)
        return self.is_wanted and is_new and is_whole and self._canvas.isVisible() and self.cost.allows(picture.shown)

    def _on_composed(self) -> None:
        """The same round again, laid out as it was, goes on moving."""
        picture = self._canvas.picture
        if picture is None or picture.tree is not self._tree or _place_of(picture) != self._veil.place:
            self.end()


class _Veil(QWidget):
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
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.hide()

    def begin(self, picture: Picture) -> None:
        """Prepare what is needed first."""
        origin = self._canvas.origin
        self._parts.clear()
        self._part(Part.GUESSES)
        self._path = tuple(_in_view(picture.chip(node), origin) for node in picture.path)
        self._is_downward = grows_downwards(picture)
        root = picture.chip(0)
        begin, end, room = (
            (root.y + root.height - origin.y, picture.size.height - origin.y, picture.view.height)
            if self._is_downward
            else (root.x + root.width - origin.x, picture.size.width - origin.x, picture.view.width)
        )
        self._span = (max(0.0, begin), max(0.0, min(end, room)))
        self.place = _place_of(picture)

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
            ratio = self.devicePixelRatioF()
            pixmap = QPixmap(self._canvas.viewport().size() * ratio)
            pixmap.setDevicePixelRatio(ratio)
            is_opaque = part is not Part.PATH
            pixmap.fill(self._canvas.background if is_opaque else QColor(Qt.GlobalColor.transparent))
            painter = QPainter(pixmap)
            self._canvas.paint_part(painter, part)
            painter.end()
            self._parts[part] = pixmap
        return self._parts[part]


def _place_of(picture: Picture) -> object:
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
