"""One tree laid out for one view: what stands where, in pixels. Pure arithmetic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from app.tree.grid import MARGIN, Box, Grid, Point, Size, Type, measure, picture_size, reveal, room
from app.tree.layout import Layout, arrange
from app.tree.snapshot import Snapshot

BONUS_NODE = -1
"""Stands for the bonus token where a node is asked for; it is no node of the draft's tree."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A snapshot with its layout and measures; `size` is that of the whole picture, in view or not.

    `lead` is the width kept free before the first shown token of a path that begins farther left.
    """

    tree: Snapshot
    layout: Layout
    grid: Grid
    view: Size
    size: Size
    lead: float

    @property
    def path(self) -> tuple[int, ...]:
        """The accepted path from the root to the bonus token."""
        return (*self.tree.accepted, BONUS_NODE)

    @property
    def has_lead(self) -> bool:
        """Whether a sign fits before the path: not in a view that is hardly wider than the bonus token."""
        return self.lead > MARGIN

    def chip(self, node: int) -> Box:
        """Where a node stands, or `BONUS_NODE`, or, if it is folded, the nearest shown node before it."""
        while node != BONUS_NODE and node not in self.layout.places:
            node = int(self.tree.parents[node])
        place = self.layout.bonus if node == BONUS_NODE else self.layout.places[node]
        return Box(*(self.grid.scale * side for side in self.grid.box(place)))

    def node_at(self, point: Point) -> int | None:
        """The node whose chip covers `point`, `BONUS_NODE`, or None."""
        row = self._rows.get(self.grid.row_at(point.y / self.grid.scale), ())
        return next((node for node in row if _covers(self.chip(node), point)), None)

    def nearest(self, point: Point) -> int:
        """The shown node, not the bonus token, whose chip's middle is nearest to `point`."""

        def distance(node: int) -> float:
            box = self.chip(node)
            return math.hypot(box.x + box.width / 2 - point.x, box.y + box.height / 2 - point.y)

        return min(self.layout.places, key=distance)

    def home(self) -> Point:
        """Where the view begins when the whole tree is wanted: at the root, or as near as the path's end lets it."""
        return self.followed(Point(0, 0))

    def followed(self, origin: Point) -> Point:
        """Where the view belongs, coming from `origin`, so that the end of the path is in it.

        Where the root does not fit as well, the view begins right before a token of the path, so that none is cut.
        """
        wanted = reveal(origin, self.chip(BONUS_NODE), self.view, self.size)
        if wanted.x <= self.chip(0).x:
            return wanted
        starts = [max(0, math.floor(self.chip(node).x - self.lead)) for node in self.path]
        return Point(next((start for start in starts if start >= wanted.x), starts[-1]), wanted.y)

    def hidden(self, origin: Point) -> int:
        """How many tokens of the path, from the root on, are not in a view that begins at `origin`.

        One that stands where the sign of the hidden ones belongs counts as hidden.
        """
        if origin.x <= self.chip(0).x:
            return 0
        return sum(self.chip(node).x < origin.x + self.lead for node in self.path)

    @cached_property
    def _rows(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = {self.layout.bonus.row: [BONUS_NODE]}
        for node, place in self.layout.places.items():
            rows.setdefault(place.row, []).append(node)
        return rows


def compose(
    tree: Snapshot, widths: Sequence[float], bonus_width: float, *, view: Size, zoom: float, text: Type
) -> Picture:
    """Lay a tree out for a view, `zoom` times as detailed as what fits into it; `widths` [nodes] are the chips'."""
    layout = arrange(tree, widths, bonus_width, room(view, zoom, text))
    grid = measure(layout, view, zoom, text)
    fits = text.lead + layout.bonus.width * grid.scale + MARGIN <= view.width
    lead = text.lead if fits else MARGIN
    return Picture(tree, layout, grid, view, picture_size(layout, grid, text.gap), lead)


def _covers(box: Box, point: Point) -> bool:
    return 0 <= point.x - box.x < box.width and 0 <= point.y - box.y < box.height
