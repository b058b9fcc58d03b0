"""How a tree came to be: the draft finds its nodes in waves, one per pass. Shown one after the other."""

from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from app.tree.rounds.snapshot import Snapshot, partial

STEP_MS = 60
_MOST_STEPS = 12

Key = tuple[int, int]
"""A node: the number of its parent's key, and its token."""


def waves(parents: list[int]) -> list[int]:
    """How many nodes the tree had after each wave; the last entry is all of them.

    Nodes stand in the order in which they were found, and those of one pass in the order of their parents: a new wave
    begins with a node whose parent is of the wave before or stands before the last node's parent.
    """
    ends, begin = [1], 1
    for node in range(2, len(parents)):
        if parents[node] >= begin or parents[node] < parents[node - 1]:
            ends.append(node)
            begin = node
    return [*ends, len(parents)] if len(parents) > 1 else ends


def stages(parents: list[int]) -> list[int]:
    """Waves to be shown: neighbours are merged until they are few."""
    ends = waves(parents)
    stride = -(-len(ends) // _MOST_STEPS)
    return sorted({*ends[::stride], len(parents)})


class Growth(QObject):
    """Shows a drafted tree wave by wave, until the target has verified it or there is no more.

    A tree that comes while the one before is shown, and has its nodes, begins where that one was.
    """

    grown = Signal(Snapshot)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_stepwise = True
        """Whether waves are seen one after the other, rather than all that have come."""
        self._tree: Snapshot | None = None
        self._stages: list[int] = []
        self._known: dict[Key, int] = {}  # the nodes that were shown of this round's trees
        self._timer = QTimer(self, interval=STEP_MS)
        self._timer.timeout.connect(self._on_timeout)

    def begin(self, tree: Snapshot) -> None:
        """Show this tree, from what was shown of its round before; from its root on if nothing was."""
        if self._tree is None or self._tree.number != tree.number:
            self._known = {}
        seen = self._seen(tree)
        self._tree = tree
        ends = stages(tree.parents.tolist()) if self.is_stepwise else []
        self._stages = [end for end in ends if end > seen] or [len(tree.pieces)]
        if not self._timer.isActive():
            self._on_timeout()
            self._timer.start()

    def end(self) -> None:
        """Show no more of it."""
        self._timer.stop()
        self._tree = None

    def _on_timeout(self) -> None:
        if self._tree is None or not self._stages:
            self._timer.stop()
            return
        nodes = self._stages.pop(0)
        shown = partial(self._tree, nodes)
        self._learn(shown)
        self.grown.emit(replace(shown, checking=min(nodes, self._tree.checking)))

    def _seen(self, tree: Snapshot) -> int:
        """How many nodes, from the first on, were shown before."""
        keys: list[int] = []
        for parent, token in zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True):
            key = self._known.get((keys[parent] if keys else -1, token))
            if key is None:
                break
            keys.append(key)
        return len(keys)

    def _learn(self, shown: Snapshot) -> None:
        keys: list[int] = []
        for parent, token in zip(shown.parents.tolist(), shown.tokens.tolist(), strict=True):
            keys.append(self._known.setdefault((keys[parent] if keys else -1, token), len(self._known)))
