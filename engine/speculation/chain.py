"""Classic speculative decoding (Leviathan et al. 2023, arXiv 2211.17192): one draft sequence, rejection sampling."""

from collections.abc import Sequence

from torch import Tensor

from engine.speculation.drafting import Drafting
from engine.speculation.method import Ends
from engine.speculation.rejection import from_independent
from engine.speculation.tree import Path, Tree


class Chain:
    """The budget is the length of the chain, as far as the depth allows; one draft pass per node."""

    name = "chain"

    def __init__(self, drafting: Drafting, most_levels: int) -> None:
        """`most_levels`: the longest chain."""
        self._drafting = drafting
        self._most_levels = most_levels

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`."""
        self._drafting.prefill(tokens)

    def grow(self, tokens: Sequence[int], budget: int, depth: int) -> Tree:
        """What the draft would say next, a token at a time."""
        sprout = self._drafting.plant(tokens)
        node = 0
        for _ in range(min(budget, depth, self._most_levels)):
            distribution = self._drafting.read([node])
            [[node]] = sprout.branch([node], distribution, self._drafting.independent(distribution, [1]))
        return sprout.tree()

    def extend(self) -> bool:
        """Nothing: the chain is as long as it was asked to be."""
        return False

    def accept(self, tree: Tree, logits: Tensor, ends: Ends, answer: Sequence[int]) -> Path:
        """As far as every token passes, then one from what the target has left."""
        return self._drafting.accept(tree, logits, ends, answer, from_independent)

    def keep(self, path: Path) -> None:
        """The draft keeps what it has read of the path."""
        self._drafting.keep(path)
