"""Classic speculative decoding (Leviathan et al. 2023, arXiv 2211.17192): one draft sequence, rejection sampling."""

from collections.abc import Sequence

from torch import Tensor

from engine.speculation.method import Ends
from engine.speculation.methods.drawn import Drawn
from engine.speculation.methods.rejection import from_independent
from engine.speculation.price import Price
from engine.speculation.trees.tree import Path, Tree


class Chain(Drawn):
    """The budget is the length of the chain, as far as the depth allows; one draft pass per node."""

    name = "chain"

    def grow(self, tokens: Sequence[int], budget: int, depth: int, price: Price | None = None) -> Tree:
        """What the draft would say next, a token at a time."""
        del price
        sprout = self._drafting.plant(tokens)
        node = 0
        for _ in range(min(budget, depth, self._most_levels)):
            distribution = self._drafting.read([node])
            [[node]] = sprout.branch([node], distribution, self._drafting.independent(distribution, [1]))
        return sprout.tree()

    def accept(self, tree: Tree, logits: Tensor, ends: Ends, answer: Sequence[int]) -> Path:
        """As far as every token passes, then one from what the target has left."""
        return self._drafting.accept(tree, logits, ends, answer, from_independent)
