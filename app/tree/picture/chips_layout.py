"""A tree as rows of chips: which nodes are shown, in which row, how far right, and how large. Pure arithmetic.

Text flows from left to right: a child stands behind its parent, one gap away, or one link where it is the only child,
so that phrases without an alternative stay together. A row belongs to one chain of tokens: the best child stands on its
parent's row, so that the top row reads as the draft's most likely continuation, and every further child opens a row
below what its elder siblings take. Unlikely nodes are folded into their nearest shown ancestor. Only when the rows have
all the distance that helps does the picture itself grow.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from app.tree.picture.picture import BONUS_NODE, MARGIN, Box, Picture, Point, Size, Type, clamp
from app.tree.rounds.snapshot import Snapshot


class Place(NamedTuple):
    """Of a token: its row, counted from the top, its left end, and its width; both in the unit of the widths given."""

    row: int
    left: float
    width: float

    @property
    def right(self) -> float:
        """The end where its children are tied on."""
        return self.left + self.width


@dataclass(frozen=True, slots=True)
class Extent:
    """What a picture has room for; the gap behind a fork, and the link between a node and its only child."""

    rows: int
    width: float
    gap: float
    link: float


@dataclass(frozen=True, slots=True)
class Layout:
    """`places` holds the shown nodes in index order, the root top left; `folded` how many nodes are folded into a node.

    The bonus token follows the last accepted node on that node's own row; None as long as there is none. `width`
    reaches to the rightmost end.
    """

    places: Mapping[int, Place]
    folded: Mapping[int, int]
    bonus: Place | None
    rows: int
    width: float


def arrange(tree: Snapshot, widths: Sequence[float], bonus_width: float, extent: Extent) -> Layout:
    """Lay a tree out; `widths` [nodes] are those of the tokens.

    The accepted path and the bonus token are always shown; where they need more width, so much is used.
    """
    starts = _Starts(tree, widths, extent)
    bonus_left = starts.behind(tree.tip)
    path_end = bonus_left + bonus_width if tree.has_bonus else starts.lefts[tree.tip] + widths[tree.tip]
    children = _keep(tree, starts, extent.rows, max(extent.width, path_end))
    lefts = starts.lefts
    rows = _rows(tree.tip if tree.has_bonus else None, children)
    places = {node: Place(rows[node], lefts[node], widths[node]) for node in sorted(children)}
    return Layout(
        places=places,
        folded=_folded(tree, children),
        bonus=Place(rows[tree.tip], bonus_left, bonus_width) if tree.has_bonus else None,
        rows=1 + max(rows.values()),
        width=max(path_end, *(place.right for place in places.values())),
    )


class _Starts:
    """Left ends of the nodes placed so far, to begin with those of the accepted path."""

    def __init__(self, tree: Snapshot, widths: Sequence[float], extent: Extent) -> None:
        children = np.bincount(tree.parents[1:], minlength=len(widths))
        gaps = np.where(children > 1, extent.gap, extent.link)
        if tree.has_bonus:
            gaps[tree.tip] = extent.gap
        self._advance: list[float] = (np.asarray(widths, np.float64) + gaps).tolist()
        self._widths = widths
        self.lefts = {0: 0.0}
        for parent, node in pairwise(tree.accepted):
            self.lefts[node] = self.behind(parent)

    def behind(self, node: int) -> float:
        """Where the children of a placed node begin."""
        return self.lefts[node] + self._advance[node]

    def place(self, node: int, parent: int, most: float) -> bool:
        """Put a node behind its parent, unless it would reach farther than `most`."""
        left = self.behind(parent)
        fits = left + self._widths[node] <= most
        if fits:
            self.lefts[node] = left
        return fits


def _keep(tree: Snapshot, starts: _Starts, max_rows: int, max_width: float) -> dict[int, list[int]]:
    """Place nodes until the extent is used up; the shown nodes with their shown children, most likely first.

    The accepted path comes first, then nodes by path probability. A node's first child continues its row; each further
    one opens a row and is left out when no row is free. Where the bonus token continues the row, every child opens one.
    Behind a node whose likelier child found no room, no less likely one is shown.
    """
    parents = tree.parents.tolist()
    tip = tree.tip if tree.has_bonus else None
    order = np.argsort(-tree.log_probs, kind="stable").tolist()
    children: dict[int, list[int]] = {node: [] for node in tree.accepted}
    for node in tree.accepted[1:]:
        children[parents[node]].append(node)
    closed: set[int] = set()
    rows = 1
    for node in order:
        parent = parents[node]
        if node in children or parent not in children or parent in closed:
            continue
        opens_row = bool(children[parent]) or parent == tip
        if (opens_row and rows >= max_rows) or not starts.place(node, parent, max_width):
            closed.add(parent)
            continue
        rows += opens_row
        children[parent].append(node)
        children[node] = []
    rank = {node: place for place, node in enumerate(order)}
    for siblings in children.values():
        siblings.sort(key=rank.__getitem__)
    return children


def _rows(tip: int | None, children: Mapping[int, list[int]]) -> dict[int, int]:
    """The row of every shown node; the subtree of a node takes the rows from its own row down, without gaps."""
    nodes = sorted(children)
    heights: dict[int, int] = {}
    for node in reversed(nodes):  # children stand behind their parents
        heights[node] = max(1, sum(heights[child] for child in children[node]) + (node == tip))
    rows = {0: 0}
    for node in nodes:
        row = rows[node] + (node == tip)
        for child in children[node]:
            rows[child] = row
            row += heights[child]
    return rows


def _folded(tree: Snapshot, shown: Mapping[int, object]) -> dict[int, int]:
    """How many nodes are folded into each shown node that has any."""
    nearest: list[int] = []
    counts: dict[int, int] = {}
    for node, parent in enumerate(tree.parents.tolist()):
        if node in shown:
            nearest.append(node)
        else:
            nearest.append(nearest[parent])
            counts[nearest[node]] = counts.get(nearest[node], 0) + 1
    return counts


LARGEST_SCALE = 3.0


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


def extent(view: Size, zoom: float, text: Type) -> Extent:
    """What is legible in a picture `zoom` times the size of the view, with a gap behind the last chips."""
    rows = (view.height * zoom - 2 * MARGIN) // text.least_row
    width = view.width * zoom - 2 * MARGIN - text.gap
    return Extent(rows=max(1, int(rows)), width=width, gap=text.gap, link=text.link)


def measure(layout: Layout, view: Size, zoom: float, text: Type, held: Grid | None = None) -> Grid:
    """Spread the rows over a picture `zoom` times the size of the view, as far as that helps reading.

    No farther than in the grid that is `held`: what grows does not begin large only to shrink.
    """
    row = (view.height * zoom - 2 * MARGIN) / layout.rows
    row = clamp(row, text.least_row, text.largest_row * zoom)
    if held:
        row = min(row, held.row * held.scale)
    scale = clamp(row / text.largest_row, 1.0, LARGEST_SCALE if held is None else held.scale)
    unscaled = int(row / scale)
    return Grid(row=unscaled, chip_height=min(unscaled - 3, math.ceil(text.line) + 6), scale=scale)


def picture_size(layout: Layout, grid: Grid, gap: float) -> Size:
    """The whole picture with its margins, and with room for a count behind the rightmost chip."""
    width = layout.width + gap + 2 * MARGIN
    height = layout.rows * grid.row + 2 * MARGIN
    return Size(width * grid.scale, height * grid.scale)


@dataclass(frozen=True, eq=False)
class ChipsPicture(Picture):
    """A layout and the grid that makes pixels of it; `natural` is the grid if there had been no picture before."""

    layout: Layout
    grid: Grid
    natural: Grid

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
    apart than they did; it begins with the distance that the round before has come to.
    """
    layout = arrange(tree, widths, bonus_width, extent(view, zoom, text))
    natural = measure(layout, view, zoom, text)
    held = _held(before, tree, view) if before else None
    grid = measure(layout, view, zoom, text, held) if held else natural
    fits = text.lead + bonus_width * grid.scale + MARGIN <= view.width
    lead = text.lead if fits else MARGIN
    tail = text.gap if fits and text.lead + bonus_width * grid.scale + 2 * MARGIN + text.gap <= view.width else 0.0
    return ChipsPicture(tree, view, picture_size(layout, grid, text.gap), lead, tail, layout, grid, natural)


def _held(before: ChipsPicture, tree: Snapshot, view: Size) -> Grid | None:
    if before.view != view:
        return None
    if before.tree is tree or (before.tree.number == tree.number and not before.tree.has_bonus):
        return before.grid
    return None if tree.has_bonus else before.natural


def _covers(box: Box, point: Point) -> bool:
    return 0 <= point.x - box.x < box.width and 0 <= point.y - box.y < box.height
