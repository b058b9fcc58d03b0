"""A tree as rows of chips, folded to what is legible in the view. Pure arithmetic."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.tree.picture.grid import LARGEST_SCALE, MARGIN, Box, Grid, Point, Size, Type, measure, picture_size, room
from app.tree.picture.layout import Layout, arrange
from app.tree.picture.picture import BONUS_NODE, Picture
from app.tree.rounds.snapshot import Snapshot


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
    layout = arrange(tree, widths, bonus_width, room(view, zoom, text))
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
