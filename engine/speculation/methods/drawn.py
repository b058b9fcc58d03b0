"""What the methods share whose trees are drawn from the draft, to be verified by rejection."""

from collections.abc import Sequence

from engine.speculation.methods.drafting import Drafting
from engine.speculation.trees.tree import Path


class Drawn:
    """The part of a `Method` that is the same whatever the shape of the tree."""

    def __init__(self, drafting: Drafting, most_levels: int) -> None:
        """`most_levels`: drafted levels at most."""
        self._drafting = drafting
        self._most_levels = most_levels

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`."""
        self._drafting.prefill(tokens)

    def extend(self) -> bool:
        """Nothing: what is drawn is drawn, and more of it would change the distribution of the answer."""
        return False

    def keep(self, path: Path) -> None:
        """The draft keeps what it has read of the path."""
        self._drafting.keep(path)
