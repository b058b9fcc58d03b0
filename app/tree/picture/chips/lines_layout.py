"""A tree set in lines that go downwards, as text is: for long paths, and for views that are narrow or very wide.

The accepted path stands at the left and is read from top to bottom; a run of tokens that have one child each shares a
line, and goes on in the next where it is longer. What else was guessed in a token's place stands beside it, as far as
its line has room, and above it, indented: whatever is between two tokens of a column are alternatives to the lower one.
The same holds within each of these, but that all lines behind their first are indented once more. Edges run between the
lines and left of what is indented, so that none runs over a chip: between two lines there are only those of one token.
Pure arithmetic.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from app.tree.picture.chips.chips_layout import (
    Extent,
    Layout,
    Place,
    Shape,
    folded_into,
    likeliest_first,
    sort_siblings,
)
from app.tree.rounds.snapshot import Snapshot

_CLOSE = 0.93  # of the lines are taken: looking on for some node more is not worth its time
_LOOKS = 6  # at how many nodes fit
_DENSE = 0.75  # of the area of all lines chips take at first sight


class _Set(NamedTuple):
    """What was placed, and how many lines it takes."""

    places: dict[int, Place]
    rows: int


class Lines:
    """Sets more or fewer nodes of a tree in lines; `widths` [nodes] are those of the tokens.

    The accepted path and the bonus token are always shown, even where that takes more lines than there are.
    """

    def __init__(self, tree: Snapshot, widths: Sequence[float], bonus_width: float, opened: Sequence[int] = ()) -> None:
        self._tree = tree
        self._is_opened = bool(opened)
        self._widths = [*widths, bonus_width]
        self._parents: list[int] = tree.parents.tolist()
        self._bonus = len(widths)  # it has the number behind the nodes', and is a child of the tip
        self._path = (*tree.accepted, self._bonus) if tree.has_bonus else tree.accepted
        self._heirs = dict(pairwise(self._path))
        path = set(self._path)
        self._others = [node for node in likeliest_first(tree, opened) if node not in path]
        self._families = [0] * (self._bonus + 1)  # children of each node, shown or not
        for parent in [*self._parents[1:], *([tree.tip] if tree.has_bonus else [])]:
            self._families[parent] += 1

    @property
    def area(self) -> float:
        """Of all chips, per unit of a line's height."""
        return float(sum(self._widths))

    def whole(self, extent: Extent) -> Layout:
        """With every node, even where that takes more lines than there are; too narrow lines leave out some."""
        return self._layout(self._set(len(self._others), extent))

    def fill(self, extent: Extent) -> Layout:
        """With as many nodes as fit: those of the path, then the likeliest."""
        best = self._set(0, extent)
        few, many = 0, self._most(extent)
        count = round(_DENSE * many)
        for _ in range(_LOOKS):
            if few >= many or best.rows >= extent.rows:
                break
            found = self._set(count, extent)
            if found.rows <= extent.rows:
                best, few = found, count
                if found.rows >= _CLOSE * extent.rows:
                    break
            else:
                many = count - 1
            count = max(few + 1, min(many, int(count * extent.rows / found.rows)))
        return self._layout(best)

    def _most(self, extent: Extent) -> int:
        """How many nodes could fit beside the path, if no line had any room left."""
        room = extent.rows * extent.width - sum(self._widths[node] for node in self._path)
        for count, node in enumerate(self._others):
            room -= self._widths[node]
            if room < 0:
                return count
        return len(self._others)

    def _set(self, count: int, extent: Extent) -> _Set:
        children: dict[int, list[int]] = {node: [] for node in self._path}
        for parent, node in pairwise(self._path):
            children[parent].append(node)
        parents = self._parents
        for node in self._others[:count]:
            children[node] = []
            children[parents[node]].append(node)
        if self._is_opened:
            sort_siblings(self._tree, {node: below for node, below in children.items() if self._bonus not in below})
        return _Setting(children, self._widths, self._heirs, self._families, extent).set()

    def _layout(self, found: _Set) -> Layout:
        places = dict(sorted(found.places.items()))
        bonus = places.pop(self._bonus, None)
        return Layout(
            places=places,
            folded=folded_into(self._tree, places),
            bonus=bonus,
            rows=found.rows,
            width=max(place.right for place in found.places.values()),
            shape=Shape.LINES,
        )


class _Setting:
    """Sets one choice of nodes, line by line; `heirs` stay in the column of the path, however unlikely they are."""

    def __init__(
        self,
        children: dict[int, list[int]],
        widths: Sequence[float],
        heirs: Mapping[int, int],
        families: Sequence[int],
        extent: Extent,
    ) -> None:
        self._children = children
        self._widths = widths
        self._heirs = heirs
        self._families = families
        self._extent = extent
        self._most_left = (
            extent.width - extent.indent - max(widths)
        )  # no token that is indented farther would fit for sure
        self._runs: dict[int, tuple[float, bool]] = {}
        self._places: dict[int, Place] = {}

    def set(self) -> _Set:
        """All of them, but for those that are indented too far."""
        self._measure()
        rows = self._set_column(0, 0, 0.0, 0.0)
        return _Set(self._places, rows)

    def _measure(self) -> None:
        """Of every node: how wide the run is that begins with it, and whether that is all there is behind it."""
        runs, children, widths, families = self._runs, self._children, self._widths, self._families
        gap, link = self._extent.gap, self._extent.link
        for node in reversed(children):  # parents were chosen before their children
            below, width = children[node], widths[node]
            if len(below) == 1:
                further, is_all = runs[below[0]]
                runs[node] = (width + (gap if families[node] > 1 else link) + further, is_all)
            else:
                runs[node] = (width + (gap if families[node] > len(below) else 0.0), not below)  # with room for a count

    def _set_column(self, node: int, row: int, left: float, hanging: float) -> int:
        """Set a node, and all that is behind it, from this line and left end on; returns the next free line.

        `hanging`: how far lines behind the first are moved in.
        """
        at = left
        left += hanging
        while True:
            node, row = self._set_run(node, row, at, left)
            at = left
            below = self._children[node]
            if not below:
                return row + 1
            heir = self._heirs.get(node, below[0])
            others = [child for child in below if child != heir]
            beside = self._beside(heir, others, left)
            above = [child for child in others if child not in beside]
            row = self._set_above(above, row + 1, left + self._extent.indent)
            begin = left + self._runs[heir][0] + self._extent.gap
            for run in beside:
                self._set_run(run, row, begin, begin)
                begin += self._runs[run][0] + self._extent.gap
            node = heir

    def _beside(self, heir: int, others: list[int], left: float) -> list[int]:
        """The runs that have room behind the heir's own, on its line."""
        room = self._extent.width - left - self._runs[heir][0]
        found = []
        for child in others:
            width, is_all = self._runs[child]
            if is_all and width + self._extent.gap <= room:
                room -= width + self._extent.gap
                found.append(child)
        return found

    def _set_above(self, others: list[int], row: int, left: float) -> int:
        """Set what stands indented above the heir: what branches, then runs, several on a line."""
        if left > self._most_left:
            return row
        room, at = self._extent.width - left, 0.0
        short = [child for child in others if self._runs[child][1] and self._runs[child][0] <= room]
        for child in others:
            if child not in short:
                row = self._set_column(child, row, left, self._extent.indent)
        for child in short:
            width = self._runs[child][0]
            if at + width > room:
                row, at = row + 1, 0.0
            self._set_run(child, row, left + at, left + at)
            at += width + self._extent.gap
        return row + (at > 0)

    def _set_run(self, node: int, row: int, at: float, left: float) -> tuple[int, int]:
        """Set a run on one line, or on more that begin at `left`; returns its last node and its last line."""
        begin = at
        while True:
            width, below = self._widths[node], self._children[node]
            if at > begin and at + width > self._extent.width:
                row, at, begin = row + 1, left, left
            self._places[node] = Place(row, at, width)
            if len(below) != 1:
                return node, row
            at += width + (self._extent.gap if self._families[node] > 1 else self._extent.link)
            node = below[0]
