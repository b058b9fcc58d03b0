"""What the rounds need of whoever drafts and whoever verifies: two small doors."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from engine.speculation.tree import Tree, root_only


class Scorer(Protocol):
    """A model with what it has read; `engine.model.context.Context` is one."""

    @property
    def length(self) -> int:
        """Committed tokens."""

    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens equal `tokens`; returns how many were there already."""

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """Append nodes to the pending tree, run one pass, return logits [n or last, vocabulary]."""

    def keep(self, nodes: Sequence[int]) -> None:
        """Commit a path of pending nodes and forget the others."""


class Drafter(Protocol):
    """Grows a tree for every round."""

    def prefill(self, tokens: Sequence[int]) -> None:
        """Read the prompt, all but its last token."""

    def grow(self, tokens: Sequence[int], budget: int, depth: int) -> Tree:
        """A tree of at most `budget` drafted nodes and `depth` levels behind `tokens`, whose last one is the root."""

    def keep(self, nodes: Sequence[int]) -> None:
        """The target accepted these nodes of the last tree, root first."""


class NoDrafter:
    """Plain autoregression: every tree is just its root."""

    def prefill(self, tokens: Sequence[int]) -> None:
        """Nothing to read for."""

    def grow(self, tokens: Sequence[int], budget: int, depth: int) -> Tree:
        """The root alone, whatever the budget."""
        del budget, depth
        return root_only(tokens[-1])

    def keep(self, nodes: Sequence[int]) -> None:
        """Nothing to keep."""
