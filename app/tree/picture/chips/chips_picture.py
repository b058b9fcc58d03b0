"""A laid-out tree as a picture of chips: where each chip is, and which node is at a point. Pure arithmetic."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from app.tree.picture.chips.chips_layout import Layout, Place
from app.tree.picture.picture import BONUS_NODE, MARGIN, Box, Picture, Point

LARGEST_SCALE = 3.0


@dataclass(frozen=True, slots=True)
class Grid:
    """Distance of rows and height of chips before the picture grows by `scale`.

    Gaps and links are `stretch` times as wide as they must be.
    """

    row: int
    chip_height: int
    scale: float
    stretch: float = 1.0

    @property
    def gutter(self) -> int:
        """Between the chips of two rows."""
        return self.row - self.chip_height

    def box(self, place: Place) -> Box:
        """The chip at a place, before the picture grows."""
        y = MARGIN + place.row * self.row + self.gutter // 2
        return Box(MARGIN + place.left, y, place.width, self.chip_height)

    def row_at(self, y: float) -> int:
        """The row at a height, before the picture grows; there may be none of that number."""
        return int((y - MARGIN) // self.row)


@dataclass(frozen=True, eq=False)
class ChipsPicture(Picture):
    """A layout and the grid that makes pixels of it; `zoom`: how many times the view's size it was laid out for.

    `gap` is what a count behind a chip has room for, before the picture grows. `alone` tells the grid that it would
    have if there had been no picture before.
    """

    layout: Layout
    grid: Grid
    zoom: float
    gap: float
    alone: Callable[[], Grid]

    @cached_property
    def natural(self) -> Grid:
        """The grid if there had been no picture before: what the next round may begin with."""
        return self.alone()

    @property
    def goes_right(self) -> bool:
        """Only where rows do."""
        return not self.layout.is_downward

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

    def fold_at(self, point: Point) -> int | None:
        """Only the counts of one row are looked at; they are as high as chips, or they would be hard to hit."""
        for node in self._rows.get(self.grid.row_at(point.y / self.grid.scale), ()):
            if node in self.layout.folded:
                box = self.chip(node)
                if _covers(box._replace(x=box.x + box.width, width=self.gap * self.grid.scale), point):
                    return node
        return None

    @cached_property
    def _rows(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = {self.layout.bonus.row: [BONUS_NODE]} if self.layout.bonus else {}
        for node, place in self.layout.places.items():
            rows.setdefault(place.row, []).append(node)
        return rows


def _covers(box: Box, point: Point) -> bool:
    return 0 <= point.x - box.x < box.width and 0 <= point.y - box.y < box.height
