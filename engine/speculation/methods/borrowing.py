"""SpecExec for a draft that borrows the target's cache: what it guessed is gone as soon as the target has scored."""

from engine.speculation.methods.specexec import SpecExec
from engine.speculation.trees.tree import Path


class BorrowingSpecExec(SpecExec):
    """The draft reads the target's keys and values instead of its own, so every tree begins at its root.

    It needs no prefill and catches up with nothing, whatever was accepted. There is no room for it while the target's
    own tree is in the cache: it does not guess on then. Compare SubSpec (2025), which shares the cache as well.
    """

    def extend(self) -> bool:
        """The slots behind the text belong to the target now."""
        return False

    def keep(self, path: Path) -> None:
        """Learn from the path; its nodes, and what was known below them, are forgotten."""
        super().keep(path)
        self._search = None
