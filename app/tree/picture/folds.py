"""Which folds of a tree a person has opened, by click or by key."""

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.tree.rounds.snapshot import Snapshot, same_node


class Folds:
    """Of one tree, and of what it grows to; every other round begins with none."""

    def __init__(self) -> None:
        self._tree: Snapshot | None = None
        self._opened: tuple[int, ...] = ()

    @property
    def opened(self) -> tuple[int, ...]:
        """The nodes behind which more is wanted, one as often as it was opened."""
        return self._opened

    def follow(self, tree: Snapshot | None) -> None:
        """Go on with this tree."""
        if self._opened and tree is not self._tree:
            found = [same_node(self._tree, node, tree) for node in self._opened]
            self._opened = tuple(node for node in found if node is not None and node >= 0)
        self._tree = tree

    def open(self, node: int) -> None:
        """Want more of what is behind a node; again: still more."""
        self._opened = (*self._opened, node)

    def close(self) -> bool:
        """Want what is likeliest, as at first; returns whether anything was opened."""
        was_open, self._opened = bool(self._opened), ()
        return was_open


def definition(folded: int) -> str:
    """What a count says, and what can be done with it."""
    one, more = (
        tr("1 guess is folded here: click, or press O, to unfold it"),
        tr("{count} guesses are folded here: click, or press O, to unfold them"),
    )
    return (one if folded == 1 else more).format(count=f"{Number(folded):,}")
