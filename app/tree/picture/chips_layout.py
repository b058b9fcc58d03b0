"""A tree as rows of chips: which nodes are shown, in which row, how far right, and how large. Pure arithmetic.

Text flows from left to right: a child stands behind its parent, one gap away, or one link where it is the only child,
so that phrases without an alternative stay together. A row belongs to one chain of tokens: the best child stands on its
parent's row, so that the top row reads as the draft's most likely continuation, and every further child opens a row
below what its elder siblings take. Unlikely nodes are folded into their nearest shown ancestor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

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
    reaches to the rightmost end. `is_downward`: rows are levels, see `levels_layout`.
    """

    places: Mapping[int, Place]
    folded: Mapping[int, int]
    bonus: Place | None
    rows: int
    width: float
    is_downward: bool = False


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
        folded=folded_into(tree, children),
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


def folded_into(tree: Snapshot, shown: Mapping[int, object]) -> dict[int, int]:
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
