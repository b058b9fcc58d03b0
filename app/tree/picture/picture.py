"""One tree laid out for one view: what stands where, in pixels. Pure arithmetic; chips and icicle are siblings.

Zoom is detail, not magnification: at twice the zoom twice as many rows fit into the picture, at the same legible size.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from app.tree.rounds.snapshot import Snapshot

MARGIN = 6
_LEAST_ROW = 18
_LEAST_SHARE = 0.7  # of letters that a person has set large: a tree of many nodes is no reason to make them tiny
ROW_GUTTER, LINE_GUTTER = 3, 7  # between two rows of chips, or two lines, between which edges run


class Size(NamedTuple):
    """Of a view or a picture, in logical pixels."""

    width: float
    height: float


class Point(NamedTuple):
    """In a picture, in logical pixels from its top left corner."""

    x: float
    y: float


class Box(NamedTuple):
    """A rectangle in a picture, in logical pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Type:
    """Measures before the picture grows, in logical pixels: height of a line of text, gap and link between chips.

    `lead` is what stands before the first shown token of a path that begins farther left; it never grows. `least_size`:
    how small letters may become, times their own size.
    """

    line: float
    gap: float
    link: float
    lead: float
    least_size: float = 1.0

    @property
    def small_size(self) -> float:
        """How small letters become so that more nodes are seen; smaller ones only where the path would not be whole."""
        return max(self.least_size, _LEAST_SHARE)

    @property
    def indent(self) -> float:
        """How far branches are moved in where lines go downwards."""
        return round(self.line * 1.3)

    @property
    def least_row(self) -> int:
        """Below this rows are folded rather than squeezed."""
        return max(_LEAST_ROW, math.ceil(self.line + 3))

    @property
    def largest_row(self) -> int:
        """More distance would not make a row easier to read."""
        return round(self.least_row * 2.5)

    @property
    def least_line(self) -> int:
        """The same where lines go downwards: edges need room between them."""
        return math.ceil(self.line + 2) + LINE_GUTTER

    @property
    def largest_line(self) -> int:
        """More distance would not make a line easier to find."""
        return round(self.least_line * 1.9)


def reveal(origin: Point, box: Box, view: Size, picture: Size) -> Point:
    """The top left corner of the view, moved from `origin` as little as it takes to show `box`."""
    x = clamp(origin.x, box.x + box.width + MARGIN - view.width, box.x - MARGIN)
    y = clamp(origin.y, box.y + box.height + MARGIN - view.height, box.y - MARGIN)
    return confine(Point(x, y), view, picture)


def confine(origin: Point, view: Size, picture: Size) -> Point:
    """The corner nearest to `origin` from which the view shows no more emptiness than it must."""
    x = clamp(origin.x, 0.0, max(0.0, picture.width - view.width))
    y = clamp(origin.y, 0.0, max(0.0, picture.height - view.height))
    return Point(x, y)


def clamp(value: float, least: float, most: float) -> float:
    """The value, or the end of the range that it is beyond."""
    return max(least, min(most, value))


BONUS_NODE = -1
"""Stands for the bonus token where a node is asked for; it is no node of the draft's tree."""

_ASIDE = 3.0  # how much farther away something seems that is not straight above or below


class Way(Enum):
    """Where to go from a node."""

    PARENT = "parent"
    CHILD = "child"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, eq=False)
class Picture(ABC):
    """A snapshot with its measures; `size` is that of the whole picture, in view or not.

    `lead` is the width kept free before the first shown token of a path that begins farther left, `tail` is that
    behind its end, where a count may stand.
    """

    tree: Snapshot
    view: Size
    size: Size
    lead: float
    tail: float

    @property
    @abstractmethod
    def shown(self) -> int:
        """How many drafted nodes are not folded."""

    @property
    @abstractmethod
    def is_exhausted(self) -> bool:
        """Whether more zoom would show nothing more."""

    @abstractmethod
    def chip(self, node: int) -> Box:
        """Where a node stands, or `BONUS_NODE`, or, if it is folded, the nearest shown node before it."""

    @abstractmethod
    def node_at(self, point: Point) -> int | None:
        """The node whose chip covers `point`, `BONUS_NODE`, or None."""

    @abstractmethod
    def nodes(self) -> Iterable[int]:
        """The shown nodes, without the bonus token."""

    @abstractmethod
    def folded(self, node: int) -> int:
        """How many nodes are folded into a shown one."""

    def fold_at(self, _point: Point) -> int | None:
        """The node whose count of folded ones covers a point; None where there is no count."""
        return None

    @property
    def goes_right(self) -> bool:
        """Whether every token of the path stands right of the one before."""
        return True

    @property
    def path(self) -> tuple[int, ...]:
        """The accepted path from the root to the bonus token, or as far as it is verified."""
        return (*self.tree.accepted, BONUS_NODE) if self.tree.has_bonus else self.tree.accepted

    @property
    def has_lead(self) -> bool:
        """Whether a sign fits before the path: not in a view that is hardly wider than the bonus token."""
        return self.lead > MARGIN

    def nearest(self, point: Point) -> int:
        """The shown node, not the bonus token, whose chip's middle is nearest to `point`."""

        def distance(node: int) -> float:
            x, y = _middle(self.chip(node))
            return math.hypot(x - point.x, y - point.y)

        return min(self.nodes(), key=distance)

    def neighbour(self, node: int, way: Way) -> int:
        """The shown node or bonus token that lies that way; the node itself where there is none.

        Where the path does not go right, what stands beside a node comes before its parent and its children.
        """
        tree = self.tree
        if not self.goes_right and way in (Way.PARENT, Way.CHILD):
            beside = self._on_row(node, 1 if way is Way.CHILD else -1)
            if beside != node:
                return beside
        if way is Way.PARENT:
            return tree.tip if node == BONUS_NODE else max(0, int(tree.parents[node]))
        if way is Way.CHILD:
            if node == tree.tip and tree.has_bonus:
                return BONUS_NODE
            children = [child for child in self.nodes() if child and tree.parents[child] == node]
            return min(children, key=lambda child: (self.chip(child).y, child), default=node)
        return self._beside(node, 1 if way is Way.DOWN else -1)

    def home(self) -> Point:
        """Where the view begins when the whole tree is wanted: at the root, or as near as the path's end lets it."""
        return self.followed(Point(0, 0))

    def followed(self, origin: Point) -> Point:
        """Where the view belongs, coming from `origin`, so that the end of the path is in it.

        Where the root does not fit as well, the view begins right before a token of the path, so that none is cut.
        """
        end = self.chip(self.path[-1])
        wanted = reveal(origin, end._replace(width=end.width + self.tail), self.view, self.size)
        if not self.goes_right:
            # Of a chip wider than the view, the beginning.
            return Point(min(wanted.x, max(0.0, end.x - MARGIN)), wanted.y)
        if wanted.x <= self.chip(0).x:
            return wanted
        starts = [max(0, math.floor(self.chip(node).x - self.lead)) for node in self.path]
        return Point(next((start for start in starts if start >= wanted.x), starts[-1]), wanted.y)

    def hidden(self, origin: Point) -> int:
        """How many tokens of the path, from the root on, are not in a view that begins at `origin`.

        One that stands where the sign of the hidden ones belongs counts as hidden.
        """
        if origin.x <= self.chip(0).x or not self.goes_right:
            return 0
        return sum(self.chip(node).x < origin.x + self.lead for node in self.path)

    def _on_row(self, node: int, direction: int) -> int:
        """The next on the same row to the right (1), or to the left (-1)."""
        x, y = _middle(self.chip(node))
        ways = {other: _middle(self.chip(other)) for other in (*self.nodes(), *self.path[-1:]) if other != node}
        on_row = {other: (there - x) * direction for other, (there, height) in ways.items() if abs(height - y) < 1}
        return min((other for other, far in on_row.items() if far > 0), key=on_row.__getitem__, default=node)

    def _beside(self, node: int, direction: int) -> int:
        """The nearest above (-1) or below (1): in the next row, where the path goes down from row to row."""
        here = _middle(self.chip(node))
        best, least = node, (math.inf, math.inf)
        for other in (*self.nodes(), *self.path[-1:]):
            x, y = _middle(self.chip(other))
            down, aside = (y - here[1]) * direction, abs(x - here[0])
            if down > 0.5 and other != node:
                distance = (down + _ASIDE * aside, 0.0) if self.goes_right else (round(down), aside)
                best, least = (other, distance) if distance < least else (best, least)
        return best


def _middle(box: Box) -> tuple[float, float]:
    return box.x + box.width / 2, box.y + box.height / 2
