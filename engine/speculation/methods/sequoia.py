"""Sequoia (Chen et al., NeurIPS 2024, arXiv 2402.12374): the best tree for how a pair accepts, drawn distinctly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from engine.speculation.interfaces import TreeBounds
from engine.speculation.methods.acceptance_rates import AcceptanceCounts, has_moved
from engine.speculation.methods.rejection import without_replacement
from engine.speculation.methods.sampled_trees import Drafting, SampledTreeMethod
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.trees.tree_program import (
    MOST_LEVELS,
    MOST_NODES,
    PRIOR,
    AcceptanceVector,
    TreeShape,
    best_shape,
)


class Shapes(Protocol):
    """The shape of the next tree. It may depend on the rounds before, but on nothing that is drawn in this one."""

    def __call__(self, nodes: int, levels: int) -> TreeShape:
        """Of at most `nodes` nodes and `levels` levels, both with the root."""


@dataclass(frozen=True, slots=True)
class PlannedShapes:
    """The best shapes for one acceptance vector."""

    acceptance: AcceptanceVector

    def __call__(self, nodes: int, levels: int) -> TreeShape:
        """The shape that yields the most tokens a pass."""
        return best_shape(self.acceptance, nodes, levels)


class LearnedShapes:
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
class PrescribedShape:
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


class Sequoia(SampledTreeMethod):
    """The shape is known before the round, from the acceptance vector; the draft fills it, one pass per level.

    The children of a node are drawn without replacement, so that no two are the same, and verified one by one. A larger
    tree than the dynamic program covers is never grown.
    """

    name = "sequoia"

    def __init__(self, drafting: Drafting, shapes: Shapes | None = None) -> None:
        """`shapes`: of every size, as planned for this pair, or from a file."""
        super().__init__(drafting)
        self._shapes = shapes or PlannedShapes(PRIOR)

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        """The best shape of this size; without what is below an end, and where the draft has too few tokens."""
        levels = min(bounds.depth + 1, MOST_LEVELS)  # with the root's
        shape = self._shapes(min(bounds.budget + 1, MOST_NODES), levels)
        builder = self._drafting.new_tree(tokens)
        level = {0: 0}  # node of the tree -> its place in the shape
        while level := {node: place for node, place in level.items() if shape.children[place]}:
            nodes, places = list(level), list(level.values())
            sampled = self._drafting.distinct(nodes, [len(shape.children[place]) for place in places])
            level = {}
            for place, children in zip(places, builder.branch(nodes, sampled), strict=True):
                level |= zip(children, shape.children[place], strict=False)
            level = {node: place for node, place in level.items() if builder.goes_on(node)}
        return builder.tree()

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int]) -> Path:
        """At every node the first child that passes, else a token from what the target has left."""
        return self._drafting.accept(tree, logits, answer, without_replacement)
