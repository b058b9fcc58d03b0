"""Who may look at a round while it happens, without having a say in it."""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from engine.speculation.trees.tree import Path, Tree


class Witness(Protocol):
    """Told of every round in turn. What it does costs time, so it does nothing unless somebody looks."""

    def grown(self, tree: Callable[[], Tree]) -> None:
        """The draft has guessed on. `tree` makes the tree as it is by now, at the cost of whoever calls it."""

    def drafted(self, tree: Tree) -> None:
        """The tree has all its nodes; the target's pass comes next."""

    def verified(self, tree: Tree, logits: Tensor, path: Path) -> None:
        """The target has been asked; logits: float32 [nodes, vocabulary], gone when this returns."""


class Nobody:
    """Nobody looks."""

    def grown(self, tree: Callable[[], Tree]) -> None:
        """Not seen."""

    def drafted(self, tree: Tree) -> None:
        """Not seen."""

    def verified(self, tree: Tree, logits: Tensor, path: Path) -> None:
        """Not seen."""
