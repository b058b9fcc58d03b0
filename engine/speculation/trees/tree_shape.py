"""The shape of a tree before any token is known: who is whose child, and of which rank."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class TreeShape:
    """Nodes level by level, the root first; `parents[0]` is -1. Of a node's children the k-th listed has rank k."""

    parents: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Of every node its children, by rank."""
        found: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents[1:], start=1):
            found[parent].append(node)
        return tuple(tuple(nodes) for nodes in found)

    @cached_property
    def levels(self) -> int:
        """Levels, that of the root counted."""
        depths = [1]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return max(depths)

    def expected_tokens(self, acceptance: Sequence[float]) -> float:
        """Tokens that a pass yields on average, the bonus token counted: the sum over all nodes, the root being 1, of
        the product of `acceptance` along the path."""
        reached = [1.0] + [0.0] * (len(self) - 1)
        for node, children in enumerate(self.children):
            for rank, child in enumerate(children):
                reached[child] = reached[node] * acceptance[rank]
        return sum(reached)
