"""How a layout becomes pixels: how much fits, how large it is, and which part of the picture is in view.

Pure arithmetic. Zoom is detail, not magnification: at twice the zoom twice as many rows fit into the picture, at the
same legible size; only when the rows have all the distance that helps does the picture itself grow.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from app.tree.picture.layout import Layout, Place, Room

MARGIN = 6
LARGEST_SCALE = 3.0
_LEAST_ROW = 18


class Size(NamedTuple):
    """Of a view or a picture, in logical pixels."""

    width: float
    height: float


class Point(NamedTuple):
    """In a picture, in logical pixels from its top left corner."""

    x: float
    y: float


class Box(NamedTuple):
    """A rectangle in a picture, in logical pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Type:
    """Measures before the picture grows, in logical pixels: height of a line of text, gap and link between chips.

    `lead` is what stands before the first shown token of a path that begins farther left; it never grows.
    """

    line: float
    gap: float
    link: float
    lead: float

    @property
    def least_row(self) -> int:
        """Below this rows are folded rather than squeezed."""
        return max(_LEAST_ROW, math.ceil(self.line + 3))

    @property
    def largest_row(self) -> int:
        """More distance would not make a row easier to read."""
        return round(self.least_row * 1.5)


@dataclass(frozen=True, slots=True)
class Grid:
    """Distance of rows and height of chips before the picture grows by `scale`."""

    row: int
    chip_height: int
    scale: float

    def box(self, place: Place) -> Box:
        """The chip at a place, before the picture grows."""
        y = MARGIN + place.row * self.row + (self.row - self.chip_height) // 2
        return Box(MARGIN + place.left, y, place.width, self.chip_height)

    def row_at(self, y: float) -> int:
        """The row at a height, before the picture grows; there may be none of that number."""
        return int((y - MARGIN) // self.row)


def room(view: Size, zoom: float, text: Type) -> Room:
    """What is legible in a picture `zoom` times the size of the view, with a gap behind the last chips."""
    rows = (view.height * zoom - 2 * MARGIN) // text.least_row
    width = view.width * zoom - 2 * MARGIN - text.gap
    return Room(rows=max(1, int(rows)), width=width, gap=text.gap, link=text.link)


def measure(layout: Layout, view: Size, zoom: float, text: Type, held: Grid | None = None) -> Grid:
    """Spread the rows over a picture `zoom` times the size of the view, as far as that helps reading.

    No farther than in the grid that is `held`: what grows does not begin large only to shrink.
    """
    row = (view.height * zoom - 2 * MARGIN) / layout.rows
    row = _clamp(row, text.least_row, text.largest_row * zoom)
    if held:
        row = min(row, held.row * held.scale)
    scale = _clamp(row / text.largest_row, 1.0, LARGEST_SCALE if held is None else held.scale)
    unscaled = int(row / scale)
    return Grid(row=unscaled, chip_height=min(unscaled - 3, math.ceil(text.line) + 6), scale=scale)


def picture_size(layout: Layout, grid: Grid, gap: float) -> Size:
    """The whole picture with its margins, and with room for a count behind the rightmost chip."""
    width = layout.width + gap + 2 * MARGIN
    height = layout.rows * grid.row + 2 * MARGIN
    return Size(width * grid.scale, height * grid.scale)


def reveal(origin: Point, box: Box, view: Size, picture: Size) -> Point:
    """The top left corner of the view, moved from `origin` as little as it takes to show `box`."""
    x = _clamp(origin.x, box.x + box.width + MARGIN - view.width, box.x - MARGIN)
    y = _clamp(origin.y, box.y + box.height + MARGIN - view.height, box.y - MARGIN)
    return confine(Point(x, y), view, picture)


def confine(origin: Point, view: Size, picture: Size) -> Point:
    """The corner nearest to `origin` from which the view shows no more emptiness than it must."""
    x = _clamp(origin.x, 0.0, max(0.0, picture.width - view.width))
    y = _clamp(origin.y, 0.0, max(0.0, picture.height - view.height))
    return Point(x, y)


def _clamp(value: float, least: float, most: float) -> float:
    return max(least, min(most, value))
