"""The picture of one tree inside a view that zooms, pans and follows."""

from typing import Protocol

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QCursor, QKeyEvent, QMouseEvent, QPainter, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QApplication, QGraphicsView, QToolTip, QWidget

from app.i18n.translation import tr
from app.system.plain_text import tip
from app.tree.picture.chips.chips import ChipsItem
from app.tree.picture.chips.chips_picture import ChipsPicture
from app.tree.picture.chips.left_edge import LeftClip, Marker, marker, paint_marker
from app.tree.picture.explanation import Inspection
from app.tree.picture.folds import Folds, definition
from app.tree.picture.icicle import IcicleItem
from app.tree.picture.lettering import Lettering
from app.tree.picture.moving.parts import Part
from app.tree.picture.picture import Box, Picture, Point, Size, Way, confine, reveal
from app.tree.rounds.snapshot import Snapshot, same_node
from app.ui.colors import TreeColors
from app.ui.widgets import claims_escape, keep_tips
from engine.protocol.watching import Inspected


class TreeItem(Protocol):
    """One item of a graphics scene that lays a tree out and paints it, in logical pixels from its top left corner."""

    def compose(
        self, tree: Snapshot, letters: Lettering, view: Size, zoom: float, opened: tuple[int, ...] = (), /
    ) -> Picture:
        """Lay a tree out and show it; `opened` are nodes behind which more is wanted."""

    def clear(self) -> None:
        """Show nothing."""

    def set_clip(self, clip: LeftClip | None) -> None:
        """Leave out what stands at the left edge of the view; with None it is cut there."""

    def set_mark(self, place: QRectF | None) -> None:
        """Draw a line around a node, given in the coordinates of the picture."""

    def set_colors(self, colors: TreeColors) -> None:
        """Change the colours."""

    def paint_part(self, painter: QPainter, part: Part, exposed: QRectF) -> None:
        """Paint a part of what is shown, in the coordinates of the picture, of which `exposed` is seen."""

    def setVisible(self, visible: bool) -> None:  # noqa: N802  # Qt's own
        """Show or hide the item."""


CHIPS, ICICLE = "chips", "icicle"
WAYS = (CHIPS, ICICLE)  # to show a tree

ZOOM_STEP = 1.25
_LARGEST_ZOOM = 64.0
_TIMES_OPENED = 4  # until something of a fold is seen: what is behind it may be very unlikely
_LEAST_HEIGHT = 52  # two rows of chips
_WHEEL_NOTCH = 120  # eighths of a degree


class TreeCanvas(pg.GraphicsView):  # type: ignore[misc]
    """Shows one snapshot. One unit of the scene is one logical pixel at every zoom, so text is never stretched."""

    panned = Signal()
    """The person moved the picture by hand."""

    composed = Signal()
    """The picture was laid out anew: another tree, size or zoom."""

    asked = Signal(int)
    """The target's alternatives behind this node are looked at."""

    def __init__(self, colors: TreeColors, parent: QWidget | None = None) -> None:
        super().__init__(parent, background=colors.background)
        self._tree: Snapshot | None = None
        self._picture: Picture | None = None
        self._zoom = 1.0
        self._origin = Point(0, 0)
        self._following = True
        self._grip: Point | None = None  # the point of the picture that is being dragged
        self._explained: tuple[str, QRect] | None = None
        self._inspection = Inspection()
        self._folds = Folds()
        self._pressed: QPointF | None = None
        self._picked: int | None = None  # the node that is looked at
        self._by_keys = False  # and how: a pointer that rests somewhere must not take it over
        self._colors = colors
        self._marker: Marker | None = None
        self._letters = Lettering(self.font())
        self._ways: dict[str, TreeItem] = {
            CHIPS: ChipsItem(colors, self._letters),
            ICICLE: IcicleItem(colors, self._letters),
        }
        self._way = self._ways[CHIPS]
        self._box = pg.ViewBox(enableMouse=False, enableMenu=False, invertY=True, defaultPadding=0)
        for way in self._ways.values():
            self._box.addItem(way, ignoreBounds=True)
            way.setVisible(way is self._way)
        self.setCentralItem(self._box)
        self.setViewportUpdateMode(QGraphicsView.ViewportUpdateMode.FullViewportUpdate)
        self.setMinimumSize(120, _LEAST_HEIGHT)
        keep_tips(self.viewport())
        self.setAccessibleName(tr("Speculation tree"))

    @property
    def picture(self) -> Picture | None:
        """What is shown now."""
        return self._picture

    @property
    def way(self) -> str:
        """`CHIPS` or `ICICLE`."""
        return next(name for name, item in self._ways.items() if item is self._way)

    @property
    def tree(self) -> Snapshot | None:
        """The tree that is shown, laid out or not."""
        return self._tree

    @property
    def background(self) -> QColor:
        """What the picture stands on."""
        return QColor(self._colors.background)

    @property
    def origin(self) -> Point:
        """The part of the picture that stands in the view's top left corner."""
        return self._origin

    def show_tree(self, tree: Snapshot | None) -> None:
        """Replace the tree; None for none."""
        if tree is not self._tree:
            self._inspection, self._picked = Inspection(tree), same_node(self._tree, self._picked, tree)
        self._tree = tree
        self._folds.follow(tree)
        self._compose()
        self._move_to(self._followed() if self._following else self._confined(self._origin))
        self._refresh_tooltip()

    def set_colors(self, colors: TreeColors) -> None:
        """Change the colours."""
        self._colors = colors
        self.setBackground(colors.background)
        for way in self._ways.values():
            way.set_colors(colors)

    def set_way(self, name: str) -> None:
        """Show the tree as `CHIPS` or as `ICICLE`, as a whole."""
        self._way.setVisible(False)
        self._way.clear()
        self._way = self._ways[name]
        self._way.setVisible(True)
        self.fit()

    def set_following(self, following: bool) -> None:
        """Whether the view moves to the end of the accepted path with every tree."""
        self._following = following
        self._move_to(self._followed() if following else self._origin)

    def fit(self) -> None:
        """Show the whole tree at a legible size, folded where it does not fit."""
        self._zoom = 1.0
        self._folds.close()
        self._compose()
        if self._picture:
            self._move_to(self._picture.home())

    def open_fold(self, node: int | None = None) -> None:
        """Unfold what is behind a node, as far as there is room; by default behind the one that is looked at.

        Bands have no fold of their own: there it is zoomed, and so it is where the room cannot be shared otherwise.
        """
        picture, node = self._picture, self._picked if node is None else node
        if picture is None or node is None or node < 0 or not picture.folded(node):
            return
        if not isinstance(picture, ChipsPicture):
            self.zoom_by(2.0, QPointF(self._place(picture.chip(node)).center()))
            return
        for _ in range(_TIMES_OPENED):
            self._folds.open(node)
            self._recompose(node)
            if self._picture and self._picture.folded(node) < picture.folded(node):
                return
        self._folds.close()
        self.zoom_by(2.0, QPointF(self._place(picture.chip(node)).center()))

    def close_folds(self) -> None:
        """Show what is likeliest, as at first."""
        if self._folds.close():
            self._recompose(self._picked)

    def _recompose(self, node: int | None) -> None:
        """The node stays where it is, or as near as it can."""
        before = self._picture
        self._compose()
        picture = self._picture
        if before and picture and node is not None:
            old, new = before.chip(node), picture.chip(node)
            moved = self._confined(Point(self._origin.x + new.x - old.x, self._origin.y + new.y - old.y))
            self._move_to(reveal(moved, new, picture.view, picture.size))
        self._refresh_tooltip()

    def pick(self, way: Way) -> None:
        """Look at the node that lies this way from the one that was looked at, to begin with the last accepted one."""
        picture = self._picture
        if picture is None:
            return
        begun = self._picked
        known = begun is not None and (begun in picture.path or begun in set(picture.nodes()))
        if way is Way.CHILD and known and begun is not None and picture.neighbour(begun, way) == begun:
            self.open_fold(begun)
            picture = self._picture or picture
        self._picked = picture.neighbour(begun, way) if known and begun is not None else picture.tree.tip
        place = picture.chip(self._picked)
        self._move_to(reveal(self._origin, place, picture.view, picture.size))
        self._explain(QPointF(self._place(place).center()), by_keys=True)

    def tell(self, alternatives: Inspected) -> None:
        """What the target finds likeliest behind a node of the tree that is shown."""
        self._inspection.tell(alternatives)
        if self._explained:
            self._explain(QPointF(self._explained[1].center()), self._by_keys)

    def show_root(self) -> None:
        """Move to where the accepted path begins; what follows may not move the view back."""
        before = self._origin
        self._move_to(Point(0, 0))
        if self._origin != before:
            self.panned.emit()

    def show_bonus(self) -> None:
        """Move to where the accepted path ends."""
        self._move_to(self._followed())

    def zoom_by(self, factor: float, at: QPointF | None = None) -> None:
        """Show more or less detail; the node nearest to `at`, a point of the view, stays where it is."""
        before = self._picture
        if before is None or (factor > 1 and before.is_exhausted):
            return
        node = before.nearest(self._in_picture(at or QPointF(self.viewport().rect().center())))
        self._zoom = min(_LARGEST_ZOOM, max(1.0, self._zoom * factor))
        self._compose()
        if self._picture:
            old, new = before.chip(node), self._picture.chip(node)
            self._move_to(self._confined(Point(self._origin.x + new.x - old.x, self._origin.y + new.y - old.y)))

    def tooltip_at(self, position: QPointF) -> tuple[str, QRect] | None:
        """Rich text about the chip or sign at a point of the view, and its place in the view; None between them."""
        picture = self._picture
        if picture is None:
            return None
        if self._marker and self._marker.patch.contains(position):
            return self._marker.definition, self._marker.patch.toAlignedRect()
        node = self.node_at(position)
        fold = picture.fold_at(self._in_picture(position)) if node is None else None
        if fold is not None:
            return definition(picture.folded(fold)), self._fold_place(fold)
        return None if node is None else (self._inspection.explain(picture, node), self._place(picture.chip(node)))

    def fold_at(self, position: QPointF) -> int | None:
        """The node whose count of folded ones is at a point of the view."""
        return self._picture.fold_at(self._in_picture(position)) if self._picture else None

    def node_at(self, position: QPointF) -> int | None:
        """The node, or `BONUS_NODE`, at a point of the view."""
        return self._picture.node_at(self._in_picture(position)) if self._picture else None

    @property
    def picked(self) -> tuple[int | None, QRect]:
        """The node that is looked at, by keys or with the pointer, and its place in the view."""
        known = self._picture is not None and self._picked is not None and self._explained is not None
        return (self._picked, self._explained[1]) if known and self._explained else (None, QRect())

    # ---- laying out and moving ---------------------------------------------------------------------------------------

    def _compose(self) -> None:
        if self._tree is None:
            self._picture = None
            self._way.clear()
            return
        if self._letters.plain != self.font():
            self._letters = Lettering(self.font())
        self._picture = self._way.compose(
            self._tree, self._letters, Size(self.width(), self.height()), self._zoom, self._folds.opened
        )
        self.composed.emit()

    def _followed(self) -> Point:
        """Where the view belongs so that the end of the accepted path is in it."""
        picture = self._picture
        if picture is None or self._zoom == 1.0:
            return picture.home() if picture else Point(0, 0)
        return picture.followed(self._origin)

    def _confined(self, origin: Point) -> Point:
        picture = self._picture
        return confine(origin, picture.view, picture.size) if picture else Point(0, 0)

    def _place(self, box: Box) -> QRect:
        """A box of the picture, in the view."""
        return QRectF(box.x - self._origin.x, box.y - self._origin.y, box.width, box.height).toAlignedRect()

    def _fold_place(self, node: int) -> QRect:
        """The count behind a node, in the view."""
        place = self._place(self._picture.chip(node)) if self._picture else QRect()
        return QRect(place.right() + 1, place.top(), round(self._letters.type.gap), place.height())

    def _in_picture(self, position: QPointF) -> Point:
        return Point(self._origin.x + position.x(), self._origin.y + position.y())

    def _move_to(self, origin: Point) -> None:
        self._origin = Point(round(origin.x), round(origin.y))  # on whole pixels letters stay crisp
        self._box.setRange(QRectF(*self._origin, self.width(), self.height()), padding=0)
        self._marker = marker(self._picture, self._origin, self._letters) if self._picture else None
        self._way.set_clip(self._clip() if self._following else None)

    def _clip(self) -> LeftClip | None:
        """A hand that drags pushes chips over the edge; where the view goes by itself it shows them whole or not."""
        picture, origin = self._picture, self._origin
        if not isinstance(picture, ChipsPicture) or not origin.x:
            return None
        scale = picture.grid.scale
        path_left = origin.x + (picture.lead if self._marker else 0)
        patch = self._marker.patch.translated(*origin) if self._marker else QRectF()
        inner = QRectF(patch.x() / scale, patch.y() / scale, patch.width() / scale, patch.height() / scale)
        return LeftClip(origin.x / scale, path_left / scale, inner)

    def paint_on(self, painter: QPainter, colors: TreeColors) -> None:
        """Paint what is in view on something else, in these colours, without background and mark."""
        before = self._colors
        try:
            self.set_colors(colors)
            self.paint_part(painter, Part.WHOLE)
        finally:
            self.set_colors(before)

    def paint_part(self, painter: QPainter, part: Part) -> None:
        """Paint a part of what is shown in the coordinates of the view; the background is there already."""
        painter.save()
        painter.translate(-self._origin.x, -self._origin.y)
        self._way.paint_part(painter, part, QRectF(*self._origin, self.width(), self.height()))
        painter.restore()
        if self._marker:
            paint_marker(painter, self._marker, self._colors, self._letters)

    def drawForeground(self, painter: QPainter, _rect: QRectF | QRect) -> None:  # noqa: N802
        """The sign at the left edge, in the coordinates of the view."""
        if self._marker:
            painter.save()
            painter.resetTransform()
            paint_marker(painter, self._marker, self._colors, self._letters)
            painter.restore()

    def event(self, event: QEvent) -> bool:
        """Escape folds what was opened before it stops an answer."""
        is_key = event.type() == QEvent.Type.ShortcutOverride  # events also come before there are folds
        return (is_key and bool(self._folds.opened) and claims_escape(event)) or bool(super().event(event))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape folds what was opened; all other keys are shortcuts."""
        if event.key() == Qt.Key.Key_Escape and self._folds.opened:
            self.close_folds()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802
        """Lay out anew for the new size."""
        super().resizeEvent(event)
        if event is not None:  # the base class calls this by itself, before there is anything to lay out
            self.show_tree(self._tree)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Zoom at the pointer."""
        self.zoom_by(ZOOM_STEP ** (event.angleDelta().y() / _WHEEL_NOTCH), event.position())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Begin to drag."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.position()
            self._grip = self._in_picture(event.position())
            self.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Drag the picture, or explain the chip under the pointer."""
        position = event.position()
        if self._grip is None:
            self._explain(position)
            on_count = self.fold_at(position) is not None
            self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if on_count else Qt.CursorShape.ArrowCursor)
            return
        before = self._origin
        self._move_to(self._confined(Point(self._grip.x - position.x(), self._grip.y - position.y())))
        if self._origin != before:
            self.panned.emit()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """End to drag; a click on a count opens the fold."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._grip = None
            self.viewport().unsetCursor()
            moved = event.position() - (self._pressed or event.position())
            fold = self.fold_at(event.position())
            if fold is not None and moved.manhattanLength() < QApplication.startDragDistance():
                self.open_fold(fold)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Explain nothing any more."""
        super().leaveEvent(event)
        self._explained = None
        self._mark_picked()

    def _explain(self, position: QPointF, by_keys: bool = False) -> None:
        found, self._by_keys = self.tooltip_at(position), by_keys
        if found == self._explained:
            return
        (text, place), self._explained = found or ("", QRect()), found
        if (node := self.node_at(position)) is not None:
            self._picked = node
            if (question := self._inspection.question(node)) is not None:
                self.asked.emit(question)
        self._mark_picked()
        if by_keys and found:
            self.setAccessibleDescription(text)
        where = QPoint(place.center().x(), min(place.bottom(), self.height() - 1)) if found else position.toPoint()
        QToolTip.showText(self.viewport().mapToGlobal(where), tip(text), self.viewport(), place)

    def _mark_picked(self) -> None:
        picture, node = self._picture, self._picked
        shown = picture is not None and node is not None and self._explained is not None
        self._way.set_mark(QRectF(*picture.chip(node)) if shown and picture and node is not None else None)

    def _refresh_tooltip(self) -> None:
        """The chip that a tooltip speaks of is gone or elsewhere; speak of the one that is there now."""
        if self._explained and self._by_keys and self._picture and self._picked is not None:
            self._explain(QPointF(self._place(self._picture.chip(self._picked)).center()), by_keys=True)
        elif self._explained:
            self._explain(QPointF(self.viewport().mapFromGlobal(QCursor.pos())))
