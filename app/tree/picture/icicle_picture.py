"""A tree as nested bands, a column per level: the overview of very large trees. Pure arithmetic."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.tree.picture.bands import Bands, stack
from app.tree.picture.grid import MARGIN, Box, Point, Size, Type
from app.tree.picture.picture import BONUS_NODE, Picture
from app.tree.rounds.snapshot import Snapshot

_NARROWEST = 7.0  # logical pixels of a column that the path does not reach
_WIDEST_LINES = 7.0  # no column is wider than so many lines are high
_READABLE_LINES = 2.2  # so much a column of the path has


@dataclass(frozen=True, eq=False)
class IciclePicture(Picture):
    """`bands` are heights within the margins; `columns` [levels + 1] the left ends of the levels, and the right end."""

    bands: Bands
    columns: NDArray[np.float64]
    line: float

    @property
    def shown(self) -> int:
        """All bands that are not too thin, but for the root's."""
        return int(self.bands.shown.sum()) - 1

    @property
    def is_exhausted(self) -> bool:
        """Every band is as high as a line of text."""
        return not self.bands.folded and bool(self.bands.heights.min() > self.line)

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
            (top, height), depth = self.bands.bonus, int(self.tree.depths[self.tree.tip]) + 1
        else:
            node = int(self.bands.nearest[node])
            top, height = float(self.bands.tops[node]), float(self.bands.heights[node])
            depth = int(self.tree.depths[node])
        left, right = self.columns[depth : depth + 2].tolist()
        return Box(left, MARGIN + top, right - left, height)

    def node_at(self, point: Point) -> int | None:
        """Only the bands of one column are looked at."""
        if not self.columns[0] <= point.x < self.columns[-1]:
            return None
        depth = int(np.searchsorted(self.columns, point.x, "right")) - 1
        y = point.y - MARGIN
        bonus = self.bands.bonus
        if bonus and depth == self.tree.depths[self.tree.tip] + 1 and bonus[0] <= y < bonus[0] + bonus[1]:
            return BONUS_NODE
        bands = self.bands
        covering = (self.tree.depths == depth) & bands.shown & (bands.tops <= y) & (y < bands.tops + bands.heights)
        found = np.flatnonzero(covering)
        return int(found[0]) if len(found) else None


def compose_icicle(tree: Snapshot, widths: list[float], *, view: Size, zoom: float, text: Type) -> IciclePicture:
    """Lay a tree out for a view, `zoom` times as high; `widths` are those of the path's tokens, root to bonus."""
    height = max(1.0, view.height * zoom - 2 * MARGIN)
    bands = stack(tree, height, text.line + 6)
    columns = _columns(_weights(tree, bands, text.line), widths, (view.width - 2 * MARGIN) * min(zoom, 4.0), text.line)
    size = Size(float(columns[-1]) + MARGIN, height + 2 * MARGIN)
    return IciclePicture(tree, view, size, float(MARGIN), 0.0, bands, columns, text.line)


def _weights(tree: Snapshot, bands: Bands, line: float) -> NDArray[np.float64]:
    """Per level that is to be seen: how many of its bands a text would fit into, and a little for the others."""
    depths = tree.depths[bands.shown]
    readable = (bands.heights[bands.shown] >= line).astype(np.float64)
    return np.bincount(depths, readable).astype(np.float64) + 0.05


def _columns(weights: NDArray[np.float64], widths: list[float], room: float, line: float) -> NDArray[np.float64]:
    """Left ends, and the last right end. Columns of the path are readable; the others share what is left by weight."""
    levels = max(len(weights), len(widths))
    shares = np.full(levels, 0.05)
    shares[: len(weights)] = weights
    needed: NDArray[np.float64] = np.full(levels, _NARROWEST)
    needed[: len(widths)] = np.clip(widths, _READABLE_LINES * line, _WIDEST_LINES * line)
    most = np.maximum(needed, _WIDEST_LINES * line)
    spare = max(0.0, room - float(needed.sum()))
    for _ in range(4):  # what one column cannot take goes to the others
        open_shares = np.where(needed < most, shares, 0.0)
        if not open_shares.any() or spare < 1:
            break
        before = float(needed.sum())
        np.minimum(most, needed + spare * open_shares / open_shares.sum(), out=needed)
        spare -= float(needed.sum()) - before
    ends: NDArray[np.float64] = MARGIN + np.concatenate([[0.0], np.cumsum(np.floor(needed))])
    return ends
