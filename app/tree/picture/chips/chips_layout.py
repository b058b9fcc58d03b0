"""A tree as rows of chips: which nodes are shown, in which row, how far right, and how large. Pure arithmetic.

Text flows from left to right: a child stands behind its parent, one gap away, or one link where it is the only child,
so that phrases without an alternative stay together. A row belongs to one chain of tokens: the best child stands on its
parent's row, so that the top row reads as the draft's most likely continuation, and every further child opens a row
below what its elder siblings take. Unlikely nodes are folded into their nearest shown ancestor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    """What a picture has room for; the gap behind a fork, and the link between a node and its only child.

    `indent`: how far branches are moved in, where lines go downwards.
    """

    rows: int
    width: float
    gap: float
    link: float
    indent: float = 16.0


class Shape(Enum):
    """Rows grow to the right, see `arrange`; downwards grow levels (`levels_layout`) and lines (`lines_layout`)."""

    ROWS = "rows"
    LEVELS = "levels"
    LINES = "lines"


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
    shape: Shape = Shape.ROWS

    @property
    def is_downward(self) -> bool:
        """Whether the path goes down from row to row."""
        return self.shape is not Shape.ROWS


def likeliest_first(tree: Snapshot, opened: Sequence[int] = ()) -> list[int]:
    """All nodes in the order in which they are unfolded, no node before its parent: by path probability.

    Behind a node that a person `opened` they count as if the way to it were certain, and the unlikely nearly as much as
    the likely; the more so, the more often it stands there.
    """
    scores = tree.log_probs
    for node in dict.fromkeys(opened):
        scores = _lifted(tree, scores, node, opened.count(node))
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return order


def _lifted(tree: Snapshot, scores: NDArray[np.float32], node: int, times: int) -> NDArray[np.float32]:
    """Scores where the ways to a node and behind it count for more."""
    is_behind = [False] * len(scores)
    is_behind[node] = True
    for child, parent in enumerate(tree.parents.tolist()):
        is_behind[child] = is_behind[child] or (parent >= 0 and is_behind[parent])
    base = float(tree.log_probs[node])
    within = tree.log_probs - (base if np.isfinite(base) else 0.0)
    lifted = np.where(is_behind, np.maximum(scores, within * _OPENED**times), scores).astype(np.float32)
    while node > 0:
        lifted[node], node = 0.0, int(tree.parents[node])
    return lifted


_OPENED = 0.25  # of a log-probability counts behind a node that was opened


def arrange(
    tree: Snapshot, widths: Sequence[float], bonus_width: float, extent: Extent, opened: Sequence[int] = ()
) -> Layout:
    """Lay a tree out; `widths` [nodes] are those of the tokens.

    The accepted path and the bonus token are always shown; where they need more width, so much is used.
    """
    starts = _Starts(tree, widths, extent)
    bonus_left = starts.behind(tree.tip)
    path_end = bonus_left + bonus_width if tree.has_bonus else starts.lefts[tree.tip] + widths[tree.tip]
    children = _keep(tree, starts, extent.rows, max(extent.width, path_end), likeliest_first(tree, opened))
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


def stretched(layout: Layout, tree: Snapshot, width: float, most: float) -> tuple[Layout, float]:
    """The same with wider gaps, so that it takes the width given; and how many times as wide they are: up to `most`."""
    parents, places = tree.parents.tolist(), layout.places
    gaps = {0: 0.0}  # of every node: how much of its left end is gaps
    for node, place in places.items():
        if node:
            gaps[node] = gaps[parents[node]] + place.left - places[parents[node]].right
    ends = [(place.right, gaps[node]) for node, place in places.items()]
    bonus_gaps = 0.0
    if layout.bonus:
        bonus_gaps = gaps[tree.tip] + layout.bonus.left - places[tree.tip].right
        ends.append((layout.bonus.right, bonus_gaps))
    times = min((1 + (width - right) / gap for right, gap in ends if gap), default=1.0)
    times = max(1.0, min(times, most))
    more = times - 1
    return (
        replace(
            layout,
            places={node: place._replace(left=place.left + more * gaps[node]) for node, place in places.items()},
            bonus=layout.bonus and layout.bonus._replace(left=layout.bonus.left + more * bonus_gaps),
            width=max(right + more * gap for right, gap in ends),
        ),
        times,
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


def _keep(tree: Snapshot, starts: _Starts, max_rows: int, max_width: float, order: list[int]) -> dict[int, list[int]]:
    """Place nodes until the extent is used up; the shown nodes with their shown children, most likely first.

    The accepted path comes first, then nodes as they are ordered. A node's first child continues its row; each further
    one opens a row and is left out when no row is free. Where the bonus token continues the row, every child opens one.
    Behind a node whose likelier child found no room, no less likely one is shown.
    """
    parents = tree.parents.tolist()
    tip = tree.tip if tree.has_bonus else None
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
    sort_siblings(tree, children)
    return children


def sort_siblings(tree: Snapshot, children: Mapping[int, list[int]]) -> None:
    """Likeliest first, whatever a person has opened."""
    costs: list[float] = (-tree.log_probs).tolist()
    for siblings in children.values():
        if len(siblings) > 1:
            siblings.sort(key=lambda node: (costs[node], node))


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
    parents = tree.parents.tolist()
    nearest = list(range(len(parents)))
    counts: dict[int, int] = {}
    for node in nearest if len(shown) < len(nearest) else ():
        if node not in shown:
            into = nearest[node] = nearest[parents[node]]
            counts[into] = counts.get(into, 0) + 1
    return counts
