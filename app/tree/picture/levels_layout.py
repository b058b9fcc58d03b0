"""A tree that grows downwards: every level of the tree is a row, and a child stands below its parent where it can.

For views that are taller than a row of text is long: there the accepted path, which is as many tokens long as a pass
gave, would run out at the side. It stands whole at the left, one token below the other; what else was guessed at that
place stands beside it, likeliest first, wherever the row has room left. Edges run between the rows, where no chip is.
Pure arithmetic.
"""

from bisect import insort
from collections.abc import Sequence

import numpy as np

from app.tree.picture.chips_layout import Extent, Layout, Place, folded_into
from app.tree.rounds.snapshot import Snapshot


def fits_downwards(tree: Snapshot, extent: Extent) -> bool:
    """Whether the accepted path is seen whole, with the bonus token behind it."""
    return len(tree.accepted) + tree.has_bonus <= extent.rows


def arrange_downwards(tree: Snapshot, widths: Sequence[float], bonus_width: float, extent: Extent) -> Layout:
    """Lay a tree out; `widths` [nodes] are those of the tokens, `extent.rows` is how many levels there may be.

    The accepted path and the bonus token are always shown; then nodes by path probability, behind a parent that is
    shown, while a level has room. Behind a node whose likelier child found no room, no less likely one is shown.
    """
    levels = _Levels(extent)
    places = {node: levels.take(depth, 0.0, widths[node]) for depth, node in enumerate(tree.accepted)}
    bonus = levels.take(len(tree.accepted), 0.0, bonus_width) if tree.has_bonus else None
    parents, closed = tree.parents.tolist(), set[int]()
    for node in np.argsort(-tree.log_probs, kind="stable").tolist():
        parent = parents[node]
        if node in places or parent not in places or parent in closed:
            continue
        found = levels.find(places[parent].row + 1, places[parent].left, widths[node])
        if found is None:
            closed.add(parent)
        else:
            places[node] = levels.take(*found, widths[node])
    every = [*places.values(), *([bonus] if bonus else [])]
    return Layout(
        places=dict(sorted(places.items())),
        folded=folded_into(tree, places),
        bonus=bonus,
        rows=1 + max(place.row for place in every),
        width=max(place.right for place in every),
        is_downward=True,
    )


class _Levels:
    """What is taken of each level: intervals from left to right, each with the gap behind it."""

    def __init__(self, extent: Extent) -> None:
        self._extent = extent
        self._taken: dict[int, list[tuple[float, float]]] = {}

    def take(self, level: int, left: float, width: float) -> Place:
        """A place that is free."""
        insort(self._taken.setdefault(level, []), (left, left + width + self._extent.gap))
        return Place(level, left, width)

    def find(self, level: int, wanted: float, width: float) -> tuple[int, float] | None:
        """Level and left end of the free place that is nearest to `wanted`, below it or right of it if there is one."""
        if level >= self._extent.rows:
            return None
        taken = self._taken.get(level, [])
        ends = [0.0, *(end for _, end in taken)]
        begins = [begin - self._extent.gap for begin, _ in taken] + [self._extent.width]
        free = [
            (max(end, min(wanted, begin - width)), end)
            for end, begin in zip(ends, begins, strict=True)
            if begin - end >= width
        ]
        if not free:
            return None
        return level, min(free, key=lambda each: (each[0] < wanted, abs(each[0] - wanted)))[0]
