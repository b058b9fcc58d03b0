"""What a picture can show: the part of a tree that is in view, a whole tree, or the steps of an engine elsewhere."""

from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QPoint, QRectF
from PySide6.QtGui import QFont, QPainter, QPicture
from PySide6.QtWidgets import QWidget

from app.tree.elsewhere import Elsewhere
from app.tree.picture.canvas import CHIPS, ICICLE, TreeCanvas, TreeItem
from app.tree.picture.chips.chips import ChipsItem
from app.tree.picture.icicle import IcicleItem
from app.tree.picture.lettering import Lettering
from app.tree.picture.moving.parts import Part
from app.tree.picture.picture import MARGIN, Picture, Size
from app.tree.rounds.snapshot import Snapshot
from app.ui.colors import DARK, LIGHT, TreeColors

_ITEMS: dict[str, Callable[[TreeColors, Lettering], TreeItem]] = {CHIPS: ChipsItem, ICICLE: IcicleItem}


class Subject(Protocol):
    """Paints itself without a background, from (0, 0) on, in logical pixels; letters have the size of the window's."""

    @property
    def size(self) -> Size:
        """In logical pixels."""

    @property
    def shown(self) -> int:
        """How many drafted nodes are in the picture."""

    def paint(self, painter: QPainter, colors: TreeColors) -> None:
        """Paint it in these colours."""


def tree_item(way: str, colors: TreeColors, letters: Lettering) -> TreeItem:
    """What lays a tree out and paints it this way, in no scene."""
    return _ITEMS[way](colors, letters)


class Shown:
    """What is in view at this moment, recorded as it is painted: the window may show something else afterwards."""

    def __init__(self, size: Size, shown: int, paint: Callable[[QPainter, TreeColors], None], own: TreeColors) -> None:
        """`own`: the colours of the window; the others are light and dark."""
        self.size, self.shown = size, shown
        self._recorded = {colors: _recorded(size, paint, colors) for colors in (own, LIGHT.tree, DARK.tree)}

    def paint(self, painter: QPainter, colors: TreeColors) -> None:
        """As it was."""
        painter.save()
        self._recorded[colors].play(painter)
        painter.restore()


def _recorded(size: Size, paint: Callable[[QPainter, TreeColors], None], colors: TreeColors) -> QPicture:
    recorded = QPicture()
    painter = QPainter(recorded)
    painter.setClipRect(QRectF(0, 0, *size))
    paint(painter, colors)
    painter.end()
    return recorded


def shown_tree(canvas: TreeCanvas, own: TreeColors) -> Shown:
    """What a canvas shows, without the emptiness right of it and below it."""
    picture, origin = canvas.picture, canvas.origin
    assert picture, "an empty canvas is no subject"
    width, height = picture.size
    size = Size(min(canvas.width(), width - origin.x), min(canvas.height(), height - origin.y))
    return Shown(size, picture.shown, canvas.paint_on, own)


def shown_steps(page: Elsewhere, own: TreeColors) -> Shown:
    """The page of an engine elsewhere, without its background."""

    def paint(painter: QPainter, colors: TreeColors) -> None:
        page.set_colors(colors)
        page.picture.render(painter, QPoint(), renderFlags=QWidget.RenderFlag.DrawChildren)
        page.set_colors(own)

    return Shown(Size(page.width(), page.height()), 0, paint, own)


class WholeTree:
    """All nodes of a tree, in a picture `width` logical pixels wide, or wider where that would be a ribbon."""

    def __init__(self, tree: Snapshot, way: str, colors: TreeColors, font: QFont, width: float) -> None:
        letters = Lettering(font)
        self._item = tree_item(way, colors, letters)
        least = width * _ICICLE_SHARE if way == ICICLE else 0.0
        picture = _unfolded(self._item, tree, letters, width, least)
        self.shown = picture.shown
        self.size = Size(*picture.size)

    def paint(self, painter: QPainter, colors: TreeColors) -> None:
        """All of it."""
        self._item.set_colors(colors)
        painter.save()
        self._item.paint_part(painter, Part.WHOLE, QRectF(0, 0, *self.size))
        painter.restore()


_NODE_WIDTH = 56.0  # logical pixels that a token takes with the gap behind it, to begin with
_ICICLE_SHARE = 0.6  # height to width: bands have room for their texts where they have room
_STEP = 1.2  # from a size that does not do to the next
_TALLEST = 1.5  # heights to a width; then the picture becomes wider
_MOST_TRIES = 24  # the last one is 80 times as high as the first


def _unfolded(item: TreeItem, tree: Snapshot, letters: Lettering, width: float, least: float) -> Picture:
    """Lay a tree out for growing views, at least so high, until nothing of it is folded."""
    row = letters.type.least_row
    height = max(least, 2 * MARGIN + row * max(2.0, tree.drafted * _NODE_WIDTH / width))
    picture = _composed(item, tree, letters, Size(width, height))
    for _ in range(_MOST_TRIES):
        if picture.shown >= tree.drafted:
            break
        height *= _STEP
        width = max(width, height / _TALLEST)
        picture = _composed(item, tree, letters, Size(width, height))
    return picture


def _composed(item: TreeItem, tree: Snapshot, letters: Lettering, view: Size) -> Picture:
    item.clear()  # the direction of a try before must not count
    return item.compose(tree, letters, view, 1.0)
