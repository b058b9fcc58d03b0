"""Sequoia (Chen et al., NeurIPS 2024, arXiv 2402.12374): the best tree for how a pair accepts, drawn distinctly."""

from collections.abc import Sequence

from torch import Tensor

from engine.speculation.method import Ends
from engine.speculation.methods.drafting import Drafting
from engine.speculation.methods.drawn import Drawn
from engine.speculation.methods.rejection import from_distinct
from engine.speculation.methods.shapes import Planned, Shapes
from engine.speculation.price import Price
from engine.speculation.trees.acceptance_vector import PRIOR
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.trees.tree_programme import MOST_LEVELS, MOST_NODES


class Sequoia(Drawn):
    """The shape is known before the round, from the acceptance vector; the draft fills it, one pass per level.

    The children of a node are drawn without replacement, so that no two are the same, and verified one by one. A larger
    tree than the dynamic programme covers is never grown.
    """

    name = "sequoia"

    def __init__(self, drafting: Drafting, most_levels: int, shapes: Shapes | None = None) -> None:
        """`most_levels`: drafted levels at most. `shapes`: of every size, as planned for this pair, or from a file."""
        super().__init__(drafting, most_levels)
        self._shapes = shapes or Planned(PRIOR)

    def grow(self, tokens: Sequence[int], budget: int, depth: int, price: Price | None = None) -> Tree:
        """The best shape of this size; without a node and what is below it where the draft has too few tokens."""
        del price  # the shape is planned
        levels = min(min(depth, self._most_levels) + 1, MOST_LEVELS)  # with the root's
        shape = self._shapes(min(budget + 1, MOST_NODES), levels)
        sprout = self._drafting.plant(tokens)
        level = {0: 0}  # node of the tree -> its place in the shape
        while level := {node: place for node, place in level.items() if shape.children[place]}:
            nodes, places = list(level), list(level.values())
            distributions = self._drafting.read(nodes)
            drawn = self._drafting.distinct(distributions, [len(shape.children[place]) for place in places])
            level = {}
            for place, children in zip(places, sprout.branch(nodes, distributions, drawn), strict=True):
                level |= zip(children, shape.children[place], strict=False)
        return sprout.tree()

    def accept(self, tree: Tree, logits: Tensor, ends: Ends, answer: Sequence[int]) -> Path:
        """At every node the first child that passes, else a token from what the target has left."""
        return self._drafting.accept(tree, logits, ends, answer, from_distinct)
