"""Who may look at a round while it happens, without having a say in it."""

from typing import Protocol

from torch import Tensor

from engine.speculation.tree import Path, Tree


class Witness(Protocol):
    """Told of every round in turn. What it does costs time, so it does nothing unless somebody looks."""

    def drafted(self, tree: Tree) -> None:
        """The tree has grown; the target's pass comes next."""

    def verified(self, tree: Tree, logits: Tensor, path: Path) -> None:
        """The target has been asked; logits: float32 [nodes, vocabulary], gone when this returns."""


class Nobody:
    """Nobody looks."""

    def drafted(self, tree: Tree) -> None:
        """Not seen."""

    def verified(self, tree: Tree, logits: Tensor, path: Path) -> None:
        """Not seen."""
