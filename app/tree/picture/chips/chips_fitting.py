"""Fits a tree of chips into a view: the direction it grows in, the size of its letters, what is folded, and the spread.

As many nodes as can be read are shown; then letters are as large as they can be with all of them, up to a size that is
comfortable; then rows, and in a tree that grows to the right the gaps, are spread over what is left. Pure arithmetic.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.tree.picture.chips.chips_layout import Extent, Layout, Shape, arrange, stretched
from app.tree.picture.chips.chips_picture import ChipsPicture, Grid
from app.tree.picture.chips.levels_layout import arrange_in_levels
from app.tree.picture.chips.lines_layout import Lines
from app.tree.picture.picture import LINE_GUTTER, MARGIN, ROW_GUTTER, Size, Type, clamp
from app.tree.rounds.snapshot import Snapshot

SIZES = (3.0, 2.6, 2.2, 1.9, 1.65, 1.4, 1.2, 1.0)
"""Of letters, times the font's own. Few, so that they do not change a little with every round."""

_BETWEEN = 0.85  # of the font's own size: before letters that a person has set large become as small as they may
_WORTH_BETWEEN = 1.1  # times the small size; nearer to it, it would not be seen

_COMFORTABLE, _COMFORTABLE_WIDE = 2.2, 2.6  # in wide views; larger letters are for those who zoom
_MOST_STRETCHED = 3.0  # times as wide as they must be gaps may be
_HOPEFUL = 1.1  # times the size of letters at which all nodes would fit in proportion is worth a try
_FEW = 0.7  # of the nodes: where less is shown levels may show more
_WIDE = 700.0  # logical pixels: in narrower views few nodes fit, and lines of them are quickly set

_MOST_COMPARED = 256  # nodes: of larger trees most are folded anyhow, and it would take milliseconds to compare
_WORTH_TURNING = 1.15  # times as good: for less, a picture that turns round by round would be a nuisance


@dataclass(frozen=True, eq=False)
class Fitting:
    """What is to be fitted into what; `widths` [nodes] are the chips', as large as the font has them.

    `most`: how large letters may be; `opened`: behind which nodes a person wants to see more.
    """

    tree: Snapshot
    widths: Sequence[float]
    bonus_width: float
    view: Size
    zoom: float
    text: Type
    opened: tuple[int, ...] = ()
    most: float = math.inf

    @property
    def sizes(self) -> list[float]:
        """Those of letters that may be tried, the largest first."""
        comfortable = _COMFORTABLE_WIDE if self.view.width > _WIDE else _COMFORTABLE
        most = min(self.most, comfortable * self.zoom)
        return [size for size in SIZES if size <= most]

    @property
    def whole_sizes(self) -> list[float]:
        """Those that a tree without any fold may have, the largest first."""
        small = self.text.small_size
        between = [_BETWEEN] if _WORTH_BETWEEN * small < _BETWEEN else []
        return [*self.sizes, *between, small]

    def extent(self, size: float, least_row: int) -> Extent:
        """What is legible in the picture with letters of this size, with a gap behind the last chips."""
        width, height = (self.zoom * side / size - 2 * MARGIN for side in self.view)
        rows = max(1, int(height // least_row))
        return Extent(rows, width - self.text.gap, self.text.gap, self.text.link, self.text.indent)


@dataclass(frozen=True, slots=True)
class _Found:
    """A layout, the size of letters that it was made for, and whether the whole path is in view."""

    layout: Layout
    size: float
    is_whole: bool

    @property
    def worth(self) -> float:
        """Nodes count most."""
        return len(self.layout.places) * math.sqrt(self.size)


def in_rows(fitting: Fitting) -> _Found:
    """To the right: as large as shows all nodes, or else as small as may be read."""
    tree, text = fitting.tree, fitting.text
    if tree.drafted <= _MOST_COMPARED or fitting.zoom > 1:
        endless = Extent(1 << 30, math.inf, text.gap, text.link)
        layout = arrange(tree, fitting.widths, fitting.bonus_width, endless)
        for size in fitting.whole_sizes:
            extent = fitting.extent(size, text.least_row)
            if layout.rows <= extent.rows and layout.width <= extent.width:
                return _Found(layout, size, is_whole=True)
    return _legible(fitting, lambda size: _folded(arrange, fitting, size, text.least_row))


def in_levels(fitting: Fitting) -> _Found:
    """Downwards, a row for each level: letters of the font's size, or as small as may be read; larger if all fit."""
    least_row = fitting.text.least_line
    found = _legible(fitting, lambda size: _folded(arrange_in_levels, fitting, size, least_row))
    for size in fitting.sizes[:-1] if found.is_whole and not found.layout.folded else ():
        larger = _folded(arrange_in_levels, fitting, size, least_row)
        if larger.is_whole and not larger.layout.folded:
            return larger
    return found


def in_lines(fitting: Fitting) -> _Found:
    """Downwards as text goes: as large as shows all nodes, or else as small as may be read."""
    text = fitting.text
    lines = Lines(fitting.tree, fitting.widths, fitting.bonus_width, fitting.opened)
    largest = math.inf
    for size in fitting.whole_sizes:
        extent = fitting.extent(size, text.least_line)
        if size <= largest and lines.area <= extent.rows * extent.width:
            layout = lines.whole(extent)
            if layout.rows <= extent.rows and not layout.folded:
                return _Found(layout, size, is_whole=True)
            largest = _HOPEFUL * size * math.sqrt(extent.rows / layout.rows)

    def filled(size: float) -> _Found:
        extent = fitting.extent(size, text.least_line)
        return _checked(lines.fill(extent), size, extent)

    return _legible(fitting, filled)


_WAYS = {Shape.ROWS: in_rows, Shape.LEVELS: in_levels, Shape.LINES: in_lines}

_Arrange = Callable[[Snapshot, Sequence[float], float, Extent, Sequence[int]], Layout]


def _folded(arrange_tree: _Arrange, fitting: Fitting, size: float, least_row: int) -> _Found:
    extent = fitting.extent(size, least_row)
    layout = arrange_tree(fitting.tree, fitting.widths, fitting.bonus_width, extent, fitting.opened)
    return _checked(layout, size, extent)


def _checked(layout: Layout, size: float, extent: Extent) -> _Found:
    return _Found(layout, size, layout.rows <= extent.rows and layout.width <= extent.width)


def _best(found: Sequence[_Found]) -> _Found:
    return max(found, key=lambda each: (each.is_whole, each.worth))


def _legible(fitting: Fitting, fold: Callable[[float], _Found]) -> _Found:
    """The best of the sizes for trees that are folded; as small as may be read where nothing else shows the path."""
    tried = _small(fitting)
    found = _best([fold(size) for size in tried])
    for size in (fitting.text.small_size, fitting.text.least_size):
        if not found.is_whole and size < min(tried):
            found = _best([found, fold(size)])
    return found


def _small(fitting: Fitting) -> tuple[float, ...]:
    """Sizes for trees that are folded: the smallest letters are for those that are nearly seen whole."""
    normal, small, drafted = min(1.0, fitting.most), fitting.text.small_size, fitting.tree.drafted
    if drafted > _MOST_COMPARED:
        return (normal,)
    return (normal, small) if drafted <= _MOST_COMPARED // 2 else (small,)


def compose_chips(
    tree: Snapshot,
    widths: Sequence[float],
    bonus_width: float,
    *,
    view: Size,
    zoom: float,
    text: Type,
    before: ChipsPicture | None = None,
    opened: tuple[int, ...] = (),
) -> ChipsPicture:
    """Lay a tree out for a view, `zoom` times as detailed as what fits into it; `widths` [nodes] are the chips'.

    `opened`: nodes behind which more is wanted. `before`: what this one takes the place of. While a tree grows, its
    letters and distances are no larger than they were, to begin with what the round before would have alone; once it is
    verified its letters may become larger. Zoomed pictures are as a person has made them, but keep their direction.
    """
    fitting = Fitting(tree, widths, bonus_width, view, zoom, text, opened)
    was = _Was(before.layout.shape, before.tree, before.view) if before else None
    held = _held(before, tree, view) if before and zoom == before.zoom == 1.0 else None
    is_free = before is None or (before.tree is not tree and tree.is_verified)
    found = _turned(fitting if is_free or not held else replace(fitting, most=held.scale), was)
    layout, grid = _spread(found, fitting, held if held and found.size <= held.scale else None)
    fits = text.lead + bonus_width * grid.scale + MARGIN <= view.width
    lead = text.lead if fits else MARGIN
    tail = text.gap if fits and text.lead + bonus_width * grid.scale + 2 * MARGIN + text.gap <= view.width else 0.0
    size = picture_size(layout, grid, text.gap)
    alone = (lambda: _spread(_turned(fitting, was), fitting, None)[1]) if held else (lambda: grid)
    return ChipsPicture(tree, view, size, lead, tail, layout, grid, zoom, text.gap, alone)


class _Was(NamedTuple):
    """What there was before, without the picture: each would keep the one before it, and so on."""

    shape: Shape
    tree: Snapshot
    view: Size


def _turned(fitting: Fitting, before: _Was | None) -> _Found:
    """To the right where that shows the whole path and hardly fewer nodes: bushy trees and wide views; else downwards.

    The shape of the picture before stays unless another one is better by a margin. While a tree is zoomed it never
    changes; while it grows, and once it is verified, it may change downwards where it would be folded or small.
    """
    tree = fitting.tree
    shape = before.shape if before else Shape.ROWS
    if before and before.view == fitting.view and _is_same_round(before.tree, tree):
        found = _WAYS[shape](fitting)
        if before.tree is tree or (shape is not Shape.ROWS and found.is_whole):
            return found
        if not tree.is_verified and not found.layout.folded and found.size >= 1.0:
            return found
    if _is_costly(fitting):
        return _large(fitting, shape)
    found = _WAYS[shape](fitting)
    others = [_WAYS[each](fitting) for each in (Shape.ROWS, Shape.LINES) if each is not shape]
    most = max(len(each.layout.places) for each in (found, *others) if each.is_whole or each is found)
    if tree.drafted <= _MOST_COMPARED and most < _FEW * tree.drafted:
        others.append(in_levels(fitting))
    best = _best([found, *others])
    if not best.is_whole:  # what begins left of the view is told there
        return in_rows(fitting)
    return best if not found.is_whole or best.worth > _WORTH_TURNING * found.worth else found


def _is_same_round(before: Snapshot, tree: Snapshot) -> bool:
    """Whether one is the other, or grew to it; two verified trees are two rounds."""
    return before is tree or (before.number == tree.number and not (before.is_verified and tree.is_verified))


def _large(fitting: Fitting, shape: Shape) -> _Found:
    """As it was, if the path is whole; else the first that shows it: levels show more than lines of so large a tree."""
    path = [fitting.widths[node] + fitting.text.link for node in fitting.tree.accepted]
    fits_rows = sum(path) + fitting.bonus_width <= fitting.extent(1.0, fitting.text.least_row).width
    first = Shape.LEVELS if shape is Shape.LEVELS else Shape.ROWS
    for each in dict.fromkeys((first, Shape.ROWS, Shape.LEVELS, Shape.LINES)):
        if each is not Shape.ROWS or fits_rows:
            found = _WAYS[each](fitting)
            if found.is_whole:
                return found
    return in_rows(fitting)


def _is_costly(fitting: Fitting) -> bool:
    """Whether it would take long to look at other shapes: a large tree in a view where much of it fits."""
    return fitting.tree.drafted > _MOST_COMPARED and fitting.view.width > _WIDE


def _spread(found: _Found, fitting: Fitting, held: Grid | None) -> tuple[Layout, Grid]:
    """Rows over the height, as far as that helps reading; and gaps over the width, where the tree grows to the right.

    No farther than in the grid that is `held`: what grows does not begin large only to shrink.
    """
    layout, size, text = found.layout, found.size, fitting.text
    is_down = layout.is_downward
    least, most = (text.least_line, text.largest_line) if is_down else (text.least_row, text.largest_row)
    row = clamp((fitting.view.height * fitting.zoom / size - 2 * MARGIN) / layout.rows, least, most)
    if held:
        row = clamp(held.row * held.scale / size, least, row)
    gutter = LINE_GUTTER if is_down else ROW_GUTTER
    chip = min(int(row) - gutter, math.ceil(text.line) + 6)
    if is_down:
        return layout, Grid(int(row), chip, size)
    width = fitting.extent(size, least).width
    layout, stretch = stretched(layout, fitting.tree, width, min(_MOST_STRETCHED, held.stretch if held else math.inf))
    return layout, Grid(int(row), chip, size, stretch)


def picture_size(layout: Layout, grid: Grid, gap: float) -> Size:
    """The whole picture with its margins, and with room for a count behind the rightmost chip."""
    width = layout.width + gap + 2 * MARGIN
    height = layout.rows * grid.row + 2 * MARGIN
    return Size(width * grid.scale, height * grid.scale)


def _held(before: ChipsPicture, tree: Snapshot, view: Size) -> Grid | None:
    if before.view != view:
        return None
    if before.tree is tree or (before.tree.number == tree.number and not before.tree.is_verified):
        return before.grid
    return None if tree.is_verified else before.natural
