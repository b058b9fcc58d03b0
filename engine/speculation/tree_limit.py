"""How big trees may be as far as memory goes: they shrink when it runs out, and never grow again by themselves."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.errors import OutOfMemory
from engine.speculation.strategy import Choice, RoundResult

PLAIN_DEPTH = 0  # whatever the budget: the root alone, and no pass of the draft


class TreeLimit:
    """The most nodes a tree may have; None as long as memory has set no limit, 0 for plain decoding."""

    def __init__(self, nodes: int | None = None) -> None:
        self.nodes = nodes
        self.shortage: OutOfMemory | None = None  # the last one that was survived
        self._is_plain = False
        self._choice: Choice | None = None

    def cut(self, choice: Choice) -> Choice:
        """The choice, with no bigger a tree than memory allows."""
        if self.nodes is not None and choice.budget > self.nodes:
            choice = replace(choice, budget=max(1, self.nodes))
        if self._is_plain or self.nodes == 0:
            choice = replace(choice, depth=PLAIN_DEPTH)
        self._choice = choice
        return choice

    def rescue(self, attempt: Callable[[], RoundResult], tokens: Sequence[int], room: Callable[[], int]) -> RoundResult:
        """A round that may run out of memory: as it was chosen, then with half the tree, then with none.

        Not a fourth time: `OutOfMemory` then. `tokens`: prompt and answer, up to the root. A round that has
        written to the answer, so that `room` is another, is not begun again.
        """
        before = room()
        for is_plain in (False, True):
            self._choice = None
            try:
                return attempt()
            except OutOfMemory as error:
                if room() != before or not self._has_tree():
                    raise
                self.shortage = error.with_traceback(None)  # its frames hold what the round had built up
            self._shrink(tokens)
            self._is_plain = is_plain
        try:
            return attempt()
        finally:
            self._is_plain = False

    @property
    def words(self) -> str:
        """What memory has done to the trees, for the person; empty if nothing."""
        if self.nodes is None:
            return ""
        size = f"have at most {self.nodes} nodes" if self.nodes else "are no longer grown"
        why = self.shortage.message if self.shortage else "Memory ran out with bigger trees before."
        return f"{why} Trees {size}."

    def _has_tree(self) -> bool:
        return self._choice is not None and self._choice.budget > 0 and self._choice.depth > PLAIN_DEPTH

    def _shrink(self, tokens: Sequence[int]) -> None:
        """Half of the tree that failed, from now on; and its method as if that had never been grown."""
        assert self._choice
        self.nodes = self._choice.budget // 2
        try:
            self._choice.method.prefill(tokens[:-1])
        except OutOfMemory:  # there is no memory even for the draft's way back
            self.nodes = 0
