"""A tree that grows downwards: every level of the tree is a row, and a child stands below its parent where it can.

For large trees in views that are taller than a row of text is long: there the accepted path, which is as many tokens
long as a pass gave, would run out at the side. It stands whole at the left, one token below the other; what else was
guessed at that place stands beside it, likeliest first, wherever the row has room left. Edges run between the rows,
where no chip is. Pure arithmetic.
"""

from bisect import bisect_left
from collections.abc import Sequence

from app.tree.picture.chips.chips_layout import Extent, Layout, Place, Shape, folded_into, likeliest_first
from app.tree.rounds.snapshot import Snapshot


def arrange_in_levels(
    tree: Snapshot, widths: Sequence[float], bonus_width: float, extent: Extent, opened: Sequence[int] = ()
) -> Layout:
    """Lay a tree out; `widths` [nodes] are those of the tokens, `extent.rows` is how many levels there may be.

    The accepted path and the bonus token are always shown; then nodes as `likeliest_first` orders them, behind a parent
    that is shown, while a level has room. Behind a node of which a child found no room, none that comes later is shown.
    """
    levels = _Levels(extent, min(widths))
    places = {node: levels.take(depth, 0.0, widths[node]) for depth, node in enumerate(tree.accepted)}
    bonus = levels.take(len(tree.accepted), 0.0, bonus_width) if tree.has_bonus else None
    parents, closed = tree.parents.tolist(), set[int]()
    for node in likeliest_first(tree, opened):
        parent = parents[node]
        if node in places or parent not in places or parent in closed:
            continue
        level, wanted, _ = places[parent]
        found = levels.find(level + 1, wanted, widths[node])
        if found is None:
            closed.add(parent)
        else:
            places[node] = levels.take(level + 1, found, widths[node])
    every = [*places.values(), *([bonus] if bonus else [])]
    return Layout(
        places=dict(sorted(places.items())),
        folded=folded_into(tree, places),
        bonus=bonus,
        rows=1 + max(place.row for place in every),
        width=max(place.right for place in every),
        shape=Shape.LEVELS,
    )


class _Levels:
    """What is free of each level: intervals from left to right, those left out that no chip fits into."""

    def __init__(self, extent: Extent, narrowest: float) -> None:
        self._extent = extent
        self._narrowest = narrowest
        self._free: dict[int, list[tuple[float, float]]] = {}

    def take(self, level: int, left: float, width: float) -> Place:
        """A place that is free, or, on an empty level, wider than there is room."""
        free = self._free.setdefault(level, [(0.0, self._extent.width)])
        at = max(0, bisect_left(free, (left, float("inf"))) - 1)
        begin, end = free[at]
        rest = ((begin, left - self._extent.gap), (left + width + self._extent.gap, end))
        free[at : at + 1] = [part for part in rest if part[1] - part[0] >= self._narrowest]
        return Place(level, left, width)

    def find(self, level: int, wanted: float, width: float) -> float | None:
        """The left end of the free place of a level nearest to `wanted`, below it or right of it if there is one."""
        if level >= self._extent.rows:
            return None
        free = self._free.get(level)
        if free is None:
            return max(0.0, min(wanted, self._extent.width - width)) if width <= self._extent.width else None
        at = max(0, bisect_left(free, (wanted, float("inf"))) - 1)
        for begin, end in free[at:]:
            if end - width >= max(begin, wanted):
                return max(begin, wanted)
        for begin, end in reversed(free):
            if begin < wanted and end - begin >= width:
                return min(wanted, end - width)
        return None
