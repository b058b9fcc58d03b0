"""What the rounds need of whoever drafts and whoever verifies: two small doors."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from engine.speculation.tree import Path, Tree, root_only


class Scorer(Protocol):
    """A model with what it has read; `engine.model.context.Context` is one."""

    @property
    def length(self) -> int:
        """Committed tokens."""

    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens equal `tokens`; returns how many were there already."""

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """Append nodes to the pending tree, run one pass, return logits [n or last, vocabulary]."""

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit a path of pending nodes and forget the others, but for `rest`, which are numbered anew from 0."""


class Drafter(Protocol):
    """Grows a tree for every round."""

    def prefill(self, tokens: Sequence[int]) -> None:
        """Read the prompt, all but its last token."""

    def grow(self, tokens: Sequence[int], budget: int, depth: int) -> Tree:
        """A tree of at most `budget` drafted nodes and `depth` levels behind `tokens`, whose last one is the root."""

    def extend(self) -> bool:
        """While the target is waited for: guess on beyond the tree, one small step; False if there is nothing to do."""

    def keep(self, path: Path) -> None:
        """What the target made of the last tree."""


class NoDrafter:
    """Plain autoregression: every tree is just its root."""

    def prefill(self, tokens: Sequence[int]) -> None:
        """Nothing to read for."""

    def grow(self, tokens: Sequence[int], budget: int, depth: int) -> Tree:
        """The root alone, whatever the budget."""
        del budget, depth
        return root_only(tokens[-1])

    def extend(self) -> bool:
        """Nothing to guess."""
        return False

    def keep(self, path: Path) -> None:
        """Nothing to keep."""
