"""Sequoia (Chen et al., NeurIPS 2024, arXiv 2402.12374): the best tree for how a pair accepts, drawn distinctly."""

from collections.abc import Sequence

from torch import Tensor

from engine.speculation.acceptance_vector import PRIOR, AcceptanceVector
from engine.speculation.drafting import Drafting
from engine.speculation.method import Ends
from engine.speculation.rejection import from_distinct
from engine.speculation.tree import Path, Tree
from engine.speculation.tree_programme import MOST_LEVELS, MOST_NODES, best_shape


class Sequoia:
    """The shape is known before the round, from the acceptance vector; the draft fills it, one pass per level.

    The children of a node are drawn without replacement, so that no two are the same, and verified one by one. A larger
    tree than the dynamic programme covers is never grown.
    """

    name = "sequoia"

    def __init__(self, drafting: Drafting, most_levels: int, acceptance: AcceptanceVector = PRIOR) -> None:
        """`most_levels`: drafted levels at most. `acceptance`: as measured for this pair, or the prior."""
        self._drafting = drafting
        self._most_levels = most_levels
        self._acceptance = acceptance

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`."""
        self._drafting.prefill(tokens)

    def grow(self, tokens: Sequence[int], budget: int, depth: int) -> Tree:
        """The best shape of this size; without a node and what is below it where the draft has too few tokens."""
        levels = min(min(depth, self._most_levels) + 1, MOST_LEVELS)  # with the root's
        shape = best_shape(self._acceptance, min(budget + 1, MOST_NODES), levels)
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

    def extend(self) -> bool:
        """Nothing: what is drawn is drawn, and more of it would change the distribution of the answer."""
        return False

    def accept(self, tree: Tree, logits: Tensor, ends: Ends, answer: Sequence[int]) -> Path:
        """At every node the first child that passes, else a token from what the target has left."""
        return self._drafting.accept(tree, logits, ends, answer, from_distinct)

    def keep(self, path: Path) -> None:
        """The draft keeps what it has read of the path."""
        self._drafting.keep(path)
