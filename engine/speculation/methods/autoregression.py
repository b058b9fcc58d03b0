"""No speculation: every tree is just its root, and a pass of the target yields one token."""

from collections.abc import Sequence

from torch import Tensor

from engine.speculation.method import Ends, Sampling
from engine.speculation.methods.acceptance import accept
from engine.speculation.price import Price
from engine.speculation.trees.tree import Path, Tree, root_only


class Autoregression:
    """Plain decoding, as a method like the others."""

    name = "none"

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling

    def prefill(self, tokens: Sequence[int]) -> None:
        """Nothing to read for."""

    def grow(self, tokens: Sequence[int], budget: int, depth: int, price: Price | None = None) -> Tree:
        """The root alone, whatever the budget."""
        del budget, depth, price
        return root_only(tokens[-1])

    def extend(self) -> bool:
        """Nothing to guess."""
        return False

    def accept(self, tree: Tree, logits: Tensor, ends: Ends, answer: Sequence[int]) -> Path:
        """The token that the target draws is the bonus token."""
        return accept(tree, logits, self._sampling.draw, ends, answer)

    def keep(self, path: Path) -> None:
        """Nothing to keep."""
