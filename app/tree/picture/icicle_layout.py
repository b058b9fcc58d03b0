"""A tree as nested bands, a column per level, or a row where a view is not wide: the overview of large trees.

A child's band lies within its parent's, beside its siblings', likeliest first. The extent of a band, a column's height
or a row's width, follows the square root of the path probability, so that the unlikely can be seen beside the likely;
children that would be too many together share what their parent has. The accepted path and the bonus token have a least
extent: what was chosen is always readable.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from app.tree.picture.picture import BONUS_NODE, MARGIN, Box, Picture, Point, Size, Type
from app.tree.rounds.snapshot import Snapshot

THINNEST = 1.0
"""Bands below this height are folded into their nearest shown ancestor."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """`tops`, `heights`: float64 [nodes], from the top of the picture, or its left side; `bonus`: of the bonus token.

    `shown` tells which nodes are not folded; `nearest` [nodes] is a node itself, or the shown one it is folded into;
    `folded` how many are folded into a node.
    """

    tops: _Floats
    heights: _Floats
    bonus: tuple[float, float] | None
    shown: NDArray[np.bool_]
    nearest: NDArray[np.intp]
    folded: Mapping[int, int]


def stack(tree: Snapshot, height: float, least: float) -> Bands:
    """Lay a tree out in a picture of this height; `least` is what a token needs to be readable.

    A node of the path gets twice that, so that there is room beside its child; where the picture is lower, less.
    """
    families = _Families(tree)
    tops, heights = np.zeros(len(tree.parents)), np.zeros(len(tree.parents))
    heights[0] = height
    bonus = None
    path = tree.accepted
    for depth, nodes in enumerate(families.levels, start=1):
        parents = tree.parents[nodes]
        heights[nodes] = heights[parents] * families.shares[nodes]
        tops[nodes] = tops[parents] + heights[parents] * families.offsets[nodes]
        if depth < len(path):
            _make_room(families.children(path[depth - 1]), path[depth], tops, heights, path[depth - 1], 2 * least)
        elif depth == len(path) and tree.has_bonus:
            bonus = _put_first(families.children(tree.tip), tops, heights, tree.tip, least)
    if tree.has_bonus and bonus is None:
        bonus = (float(tops[tree.tip]), min(least, float(heights[tree.tip])))
    return Bands(tops, heights, bonus, *_folding(tree, families.levels, heights))


class _Families:
    """Siblings side by side, likeliest first: their shares of the parent's height, and where in it they begin."""

    def __init__(self, tree: Snapshot) -> None:
        count = len(tree.parents)
        parents = tree.parents[1:]
        with np.errstate(invalid="ignore"):
            steps = tree.log_probs[1:].astype(np.float64) - tree.log_probs[parents]
        weights = np.sqrt(np.exp(np.minimum(np.where(np.isnan(steps), -np.inf, steps), 0.0)))
        totals = np.bincount(parents, weights, count)
        self.shares, self.offsets = np.ones(count), np.zeros(count)
        self.shares[1:] = weights / np.maximum(1.0, totals[parents])
        self._order = 1 + np.lexsort((np.arange(count - 1), -weights, parents))
        in_order = parents[self._order - 1]
        self._begins = np.searchsorted(in_order, np.arange(count + 1))
        ends = np.concatenate([[0.0], np.cumsum(self.shares[self._order])])
        self.offsets[self._order] = ends[:-1] - ends[self._begins[in_order]]
        by_depth = np.argsort(tree.depths, kind="stable")
        edges = np.searchsorted(tree.depths[by_depth], np.arange(1, tree.depth + 2))
        self.levels = [by_depth[begin:end] for begin, end in pairwise(edges.tolist())]

    def children(self, node: int) -> NDArray[np.intp]:
        """Likeliest first."""
        found: NDArray[np.intp] = self._order[self._begins[node] : self._begins[node + 1]]
        return found


def _make_room(
    children: NDArray[np.intp], chosen: int, tops: _Floats, heights: _Floats, parent: int, least: float
) -> None:
    """Give one child at least so much; the others share what is left, in the same order."""
    whole = float(heights[parent])
    wanted = min(whole, max(float(heights[chosen]), least))
    others = children[children != chosen]
    taken = float(heights[others].sum())
    if wanted + taken > whole:
        heights[others] *= max(0.0, whole - wanted) / taken
    heights[chosen] = wanted
    tops[children] = tops[parent] + np.concatenate([[0.0], np.cumsum(heights[children])[:-1]])


def _put_first(
    children: NDArray[np.intp], tops: _Floats, heights: _Floats, parent: int, least: float
) -> tuple[float, float]:
    """Keep the upper end of the parent for the bonus token; its place and height."""
    whole = float(heights[parent])
    kept = min(whole, least)
    taken = float(heights[children].sum())
    if kept + taken > whole:
        heights[children] *= (whole - kept) / taken
    tops[children] = tops[parent] + kept + np.concatenate([[0.0], np.cumsum(heights[children])[:-1]])
    return float(tops[parent]), kept


def _folding(
    tree: Snapshot, levels: list[NDArray[np.intp]], heights: _Floats
) -> tuple[NDArray[np.bool_], NDArray[np.intp], Mapping[int, int]]:
    shown = heights >= THINNEST
    shown[list(tree.accepted)] = True
    nearest = np.arange(len(heights))
    for nodes in levels:
        shown[nodes] &= shown[tree.parents[nodes]]
        nearest[nodes] = np.where(shown[nodes], nodes, nearest[tree.parents[nodes]])
    hidden = np.bincount(nearest[~shown], minlength=1)
    return shown, nearest, {node: int(hidden[node]) for node in np.flatnonzero(hidden).tolist()}


_NARROWEST = 7.0  # logical pixels of a level that the path does not reach
_WIDEST_LINES = 7.0  # no column is wider than so many lines are high
_READABLE_LINES = 2.2  # so much a column of the path has
_LEAST_LINES = 1.6  # or so much, where it would be out of view otherwise
_HIGHEST_LINES = 3.0  # no row is higher
_TOKEN_LINES = 4.5  # so wide a short token is
_TALL = 0.85  # times as high as wide: in such a view levels are rows, which hold words where columns are narrow


@dataclass(frozen=True, eq=False)
class IciclePicture(Picture):
    """`bands` are extents across within the margins; `levels` [levels + 1] where levels begin, and where the last ends.

    Levels are columns from left to right, or, if `is_downward`, rows from top to bottom.
    """

    bands: Bands
    levels: NDArray[np.float64]
    line: float
    is_downward: bool = False

    @property
    def goes_right(self) -> bool:
        """Where levels are columns."""
        return not self.is_downward

    @property
    def shown(self) -> int:
        """All bands that are not too thin, but for the root's."""
        return int(self.bands.shown.sum()) - 1

    @property
    def is_exhausted(self) -> bool:
        """Every band is as high as a line of text, or as wide as a short token."""
        least = self.line * (_TOKEN_LINES if self.is_downward else 1.0)
        return not self.bands.folded and bool(self.bands.heights.min() > least)

    def readable(self, widths: NDArray[np.float64], bonus_width: float) -> int:
        """How many bands have room for their texts, which are so wide; the bonus token's, too."""
        shown = self.bands.shown  # there are levels for these alone
        depths = self.tree.depths[shown]
        along, across = self.levels[depths + 1] - self.levels[depths], self.bands.heights[shown]
        wide, high = (across, along) if self.is_downward else (along, across)
        count = int(((wide >= widths[shown]) & (high >= self.line)).sum())
        if self.bands.bonus is None:
            return count
        bonus = self.chip(BONUS_NODE)
        return count + (bonus.width >= bonus_width and bonus.height >= self.line)

    def nodes(self) -> Iterable[int]:
        """Those whose band is not too thin."""
        found: list[int] = np.flatnonzero(self.bands.shown).tolist()
        return found

    def folded(self, node: int) -> int:
        """Bands too thin to be seen."""
        return self.bands.folded.get(node, 0)

    def chip(self, node: int) -> Box:
        """The whole band."""
        if node == BONUS_NODE:
            assert self.bands.bonus, "a bonus token stands in verified trees only"
            (begin, extent), depth = self.bands.bonus, int(self.tree.depths[self.tree.tip]) + 1
        else:
            node = int(self.bands.nearest[node])
            begin, extent = float(self.bands.tops[node]), float(self.bands.heights[node])
            depth = int(self.tree.depths[node])
        low, high = self.levels[depth : depth + 2].tolist()
        if self.is_downward:
            return Box(MARGIN + begin, low, extent, high - low)
        return Box(low, MARGIN + begin, high - low, extent)

    def node_at(self, point: Point) -> int | None:
        """Only the bands of one level are looked at."""
        along, across = (point.y, point.x) if self.is_downward else point
        if not self.levels[0] <= along < self.levels[-1]:
            return None
        depth, across = int(np.searchsorted(self.levels, along, "right")) - 1, across - MARGIN
        bonus = self.bands.bonus
        if bonus and depth == self.tree.depths[self.tree.tip] + 1 and bonus[0] <= across < bonus[0] + bonus[1]:
            return BONUS_NODE
        bands = self.bands
        ends = bands.tops + bands.heights
        found = np.flatnonzero((self.tree.depths == depth) & bands.shown & (bands.tops <= across) & (across < ends))
        return int(found[0]) if len(found) else None


def compose_icicle(tree: Snapshot, widths: list[float], *, view: Size, zoom: float, text: Type) -> IciclePicture:
    """Lay a tree out for a view, `zoom` times as detailed; `widths` are those of the path's tokens, root to bonus.

    The shape of the view alone decides whether levels are rows, so that the picture never turns by itself.
    """
    line, is_downward = text.line, view.height > _TALL * view.width
    along, across = (view.height, view.width) if is_downward else (view.width, view.height)
    across, along = max(1.0, across * zoom - 2 * MARGIN), (along - 2 * MARGIN) * min(zoom, 4.0)
    bands = stack(tree, across, _TOKEN_LINES * line if is_downward else line + 6)
    weights = _weights(tree, bands, _TOKEN_LINES * line if is_downward else line)
    levels = _rows(weights, len(widths), along, line) if is_downward else _columns(weights, widths, along, line)
    end, breadth = float(levels[-1]) + MARGIN, across + 2 * MARGIN
    size = Size(breadth, end) if is_downward else Size(end, breadth)
    return IciclePicture(tree, view, size, float(MARGIN), 0.0, bands, levels, line, is_downward)


def _weights(tree: Snapshot, bands: Bands, readable: float) -> NDArray[np.float64]:
    """Per level that is to be seen: how many of its bands a text would fit into, and a little for the others."""
    depths = tree.depths[bands.shown]
    fitting = (bands.heights[bands.shown] >= readable).astype(np.float64)
    return np.bincount(depths, fitting).astype(np.float64) + 0.05


def _columns(weights: NDArray[np.float64], widths: list[float], room: float, line: float) -> NDArray[np.float64]:
    """Left ends, and the last right end. Columns of the path are readable; the others share what is left by weight."""
    needed: NDArray[np.float64] = np.full(max(len(weights), len(widths)), _NARROWEST)
    least, wanted = _LEAST_LINES * line, np.clip(widths, _READABLE_LINES * line, _WIDEST_LINES * line)
    spare = room - float(needed[len(widths) :].sum()) - least * len(widths)
    share = max(0.0, min(1.0, spare / max(1.0, float((wanted - least).sum()))))
    needed[: len(widths)] = least + share * (wanted - least)
    return _shared(needed, np.maximum(needed, _WIDEST_LINES * line), weights, room)


def _rows(weights: NDArray[np.float64], path: int, room: float, line: float) -> NDArray[np.float64]:
    """Upper ends, and the last lower end. Rows of the path have room for a text, and all have if there is room."""
    levels = max(len(weights), path)
    needed: NDArray[np.float64] = np.full(levels, min(max(_NARROWEST, room / levels), line + 4))
    needed[:path] = line + 4
    return _shared(needed, np.maximum(needed, _HIGHEST_LINES * line), weights, room)


def _shared(
    needed: NDArray[np.float64], most: NDArray[np.float64], weights: NDArray[np.float64], room: float
) -> NDArray[np.float64]:
    """Where levels begin, and the last one's end, once those that may grow share by weight what room is left."""
    shares = np.full(len(needed), 0.05)
    shares[: len(weights)] = weights
    spare = max(0.0, room - float(needed.sum()))
    for _ in range(4):  # what one level cannot take goes to the others
        open_shares = np.where(needed < most, shares, 0.0)
        if not open_shares.any() or spare < 1:
            break
        before = float(needed.sum())
        needed = np.minimum(most, needed + spare * open_shares / open_shares.sum())
        spare -= float(needed.sum()) - before
    ends: NDArray[np.float64] = MARGIN + np.concatenate([[0.0], np.cumsum(np.floor(needed))])
    return ends
