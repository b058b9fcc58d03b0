"""Where the shapes of Sequoia's trees come from: planned for an acceptance vector, learnt online, or fixed."""

from dataclasses import dataclass
from typing import Protocol

from engine.speculation.methods.acceptance_counts import AcceptanceCounts, has_moved
from engine.speculation.trees.acceptance_vector import AcceptanceVector
from engine.speculation.trees.tree_programme import best_shape
from engine.speculation.trees.tree_shape import TreeShape


class Shapes(Protocol):
    """The shape of the next tree. It may depend on the rounds before, but on nothing that is drawn in this one."""

    def __call__(self, nodes: int, levels: int) -> TreeShape:
        """Of at most `nodes` nodes and `levels` levels, both with the root."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The best shapes for one acceptance vector."""

    acceptance: AcceptanceVector

    def __call__(self, nodes: int, levels: int) -> TreeShape:
        """The shape that yields the most tokens a pass."""
        return best_shape(self.acceptance, nodes, levels)


class Learnt:
    """The best shapes for the vector counted so far, planned anew whenever it has moved enough to matter."""

    def __init__(self, counts: AcceptanceCounts) -> None:
        """`counts` grow with every round."""
        self._counts = counts
        self._acceptance = counts.vector()

    def __call__(self, nodes: int, levels: int) -> TreeShape:
        """The shape that yields the most tokens a pass, as far as is known by now."""
        now = self._counts.vector()
        if has_moved(now, self._acceptance):
            self._acceptance = now
        return best_shape(self._acceptance, nodes, levels)


@dataclass(frozen=True, slots=True)
class Prescribed:
    """One shape for every round, such as the output of `tree-shape`; cut where a round allows less."""

    shape: TreeShape

    def __call__(self, nodes: int, levels: int) -> TreeShape:
        """Its first nodes, level by level, within the limits."""
        number, parents, depths = {0: 0}, [-1], [1]
        for node, parent in enumerate(self.shape.parents[1:], start=1):
            if len(parents) < nodes and parent in number and depths[number[parent]] < levels:
                number[node] = len(parents)
                depths.append(depths[number[parent]] + 1)
                parents.append(number[parent])
        return TreeShape(tuple(parents))
