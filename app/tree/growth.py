"""How a tree came to be: the draft finds its nodes in waves, one per pass. Shown one after the other."""

from PySide6.QtCore import QObject, QTimer, Signal

from app.tree.snapshot import Snapshot, partial

STEP_MS = 60
_MOST_STEPS = 12


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
    """Shows a drafted tree wave by wave, until the target has verified it or there is no more."""

    grown = Signal(Snapshot)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tree: Snapshot | None = None
        self._stages: list[int] = []
        self._timer = QTimer(self, interval=STEP_MS)
        self._timer.timeout.connect(self._on_timeout)

    def begin(self, tree: Snapshot) -> None:
        """Show this tree from its root on."""
        self._tree, self._stages = tree, stages(tree.parents.tolist())
        self._on_timeout()
        self._timer.start()

    def end(self) -> None:
        """Show no more of it."""
        self._timer.stop()

    def _on_timeout(self) -> None:
        if self._tree is None or not self._stages:
            self._timer.stop()
            return
        self.grown.emit(partial(self._tree, self._stages.pop(0)))
