"""A laid-out tree as a picture of chips: the direction it grows in, the distance of its rows, and where each chip is.

Only when the rows have all the distance that helps does the picture itself grow. Pure arithmetic.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.tree.picture.chips_layout import Extent, Layout, Place, arrange
from app.tree.picture.levels_layout import arrange_downwards, fits_downwards
from app.tree.picture.picture import (
    BONUS_NODE,
    LEVEL_GUTTER,
    MARGIN,
    ROW_GUTTER,
    Box,
    Picture,
    Point,
    Size,
    Type,
    clamp,
)
from app.tree.rounds.snapshot import Snapshot

LARGEST_SCALE = 3.0
_MOST_COMPARED = 256  # nodes: of larger trees most are folded either way, and it would take milliseconds to compare
_WORTH_TURNING = 1.1  # times as many nodes: with fewer more, a picture that turns round by round would be a nuisance


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


def extent(view: Size, zoom: float, text: Type, least_row: int) -> Extent:
    """What is legible in a picture `zoom` times the size of the view, with a gap behind the last chips."""
    rows = (view.height * zoom - 2 * MARGIN) // least_row
    width = view.width * zoom - 2 * MARGIN - text.gap
    return Extent(rows=max(1, int(rows)), width=width, gap=text.gap, link=text.link)


def measure(layout: Layout, view: Size, zoom: float, text: Type, held: Grid | None = None) -> Grid:
    """Spread the rows over a picture `zoom` times the size of the view, as far as that helps reading.

    No farther than in the grid that is `held`: what grows does not begin large only to shrink.
    """
    largest = text.largest_level if layout.is_downward else text.largest_row
    row = clamp((view.height * zoom - 2 * MARGIN) / layout.rows, text.least_row, largest * zoom)
    if held:
        row = min(row, held.row * held.scale)
    scale = clamp(row / largest, 1.0, LARGEST_SCALE if held is None else held.scale)
    unscaled = int(row / scale)
    gutter = LEVEL_GUTTER if layout.is_downward and unscaled >= text.least_level else ROW_GUTTER
    return Grid(row=unscaled, chip_height=min(unscaled - gutter, math.ceil(text.line) + 6), scale=scale)


def picture_size(layout: Layout, grid: Grid, gap: float) -> Size:
    """The whole picture with its margins, and with room for a count behind the rightmost chip."""
    width = layout.width + gap + 2 * MARGIN
    height = layout.rows * grid.row + 2 * MARGIN
    return Size(width * grid.scale, height * grid.scale)


@dataclass(frozen=True, eq=False)
class ChipsPicture(Picture):
    """A layout and the grid that makes pixels of it; `natural` is the grid if there had been no picture before.

    `zoom`: how many times the view's size it was laid out for.
    """

    layout: Layout
    grid: Grid
    natural: Grid
    zoom: float

    @property
    def shown(self) -> int:
        """All places but the root's."""
        return len(self.layout.places) - 1

    @property
    def is_exhausted(self) -> bool:
        """Nothing is folded, and chips are as large as they get."""
        return not self.layout.folded and self.grid.scale >= LARGEST_SCALE

    def nodes(self) -> Iterable[int]:
        """Those that have a place."""
        return self.layout.places

    def folded(self, node: int) -> int:
        """As the layout has counted them."""
        return self.layout.folded.get(node, 0)

    def chip(self, node: int) -> Box:
        """As the grid has it, grown."""
        while node != BONUS_NODE and node not in self.layout.places:
            node = int(self.tree.parents[node])
        place = self.layout.bonus if node == BONUS_NODE else self.layout.places[node]
        assert place, "a bonus token stands in verified trees only"
        return Box(*(self.grid.scale * side for side in self.grid.box(place)))

    def node_at(self, point: Point) -> int | None:
        """Only the chips of one row are looked at."""
        row = self._rows.get(self.grid.row_at(point.y / self.grid.scale), ())
        return next((node for node in row if _covers(self.chip(node), point)), None)

    @cached_property
    def _rows(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = {self.layout.bonus.row: [BONUS_NODE]} if self.layout.bonus else {}
        for node, place in self.layout.places.items():
            rows.setdefault(place.row, []).append(node)
        return rows


def compose_chips(
    tree: Snapshot,
    widths: Sequence[float],
    bonus_width: float,
    *,
    view: Size,
    zoom: float,
    text: Type,
    before: ChipsPicture | None = None,
) -> ChipsPicture:
    """Lay a tree out for a view, `zoom` times as detailed as what fits into it; `widths` [nodes] are the chips'.

    `before`: what this one takes the place of. While a tree grows, and once it is verified, its rows stand no farther
    apart than they did; it begins with the distance that the round before has come to. Zoomed pictures are as a person
    has made them, but grow in the direction that they had.
    """
    layout = _arranged(tree, widths, bonus_width, view, zoom, text, before)
    natural = measure(layout, view, zoom, text)
    held = _held(before, tree, view) if before and zoom == before.zoom == 1.0 else None
    grid = measure(layout, view, zoom, text, held) if held else natural
    fits = text.lead + bonus_width * grid.scale + MARGIN <= view.width
    lead = text.lead if fits else MARGIN
    tail = text.gap if fits and text.lead + bonus_width * grid.scale + 2 * MARGIN + text.gap <= view.width else 0.0
    return ChipsPicture(tree, view, picture_size(layout, grid, text.gap), lead, tail, layout, grid, natural, zoom)


def _arranged(
    tree: Snapshot,
    widths: Sequence[float],
    bonus_width: float,
    view: Size,
    zoom: float,
    text: Type,
    before: ChipsPicture | None,
) -> Layout:
    """To the right where that shows the whole path and no fewer nodes: bushy trees and wide views; else downwards.

    The direction of the picture before stays unless the other one is better by a margin. While a tree grows, and while
    it is zoomed, it never changes; once it is verified, it may change downwards.
    """
    was_downward = before is not None and before.layout.is_downward
    rightwards, downwards = (extent(view, zoom, text, least) for least in (text.least_row, text.least_level))
    fits = fits_downwards(tree, downwards)
    if not fits:  # a long path stands closer, rather than out of sight
        downwards, fits = rightwards, fits_downwards(tree, rightwards)
    if before is not None and before.tree.number == tree.number and before.view == view:
        if was_downward and fits:
            return arrange_downwards(tree, widths, bonus_width, downwards)
        if not was_downward and (before.tree is tree or not tree.has_bonus):
            return arrange(tree, widths, bonus_width, rightwards)
    right = arrange(tree, widths, bonus_width, rightwards)
    is_whole = right.width <= rightwards.width
    is_fine = is_whole and (not right.folded or tree.drafted > _MOST_COMPARED) and not was_downward
    if is_fine or not fits:
        return right
    down = arrange_downwards(tree, widths, bonus_width, downwards)
    shown, shown_down = len(right.places), len(down.places)
    margin = 1 / _WORTH_TURNING if was_downward else _WORTH_TURNING
    return down if not is_whole or shown_down > margin * shown else right


def _held(before: ChipsPicture, tree: Snapshot, view: Size) -> Grid | None:
    if before.view != view:
        return None
    if before.tree is tree or (before.tree.number == tree.number and not before.tree.has_bonus):
        return before.grid
    return None if tree.has_bonus else before.natural


def _covers(box: Box, point: Point) -> bool:
    return 0 <= point.x - box.x < box.width and 0 <= point.y - box.y < box.height
