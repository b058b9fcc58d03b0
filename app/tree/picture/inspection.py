"""What is known of the nodes of the tree that is shown, and what has yet to be asked of the target."""

from app.tree.picture.picture import BONUS_NODE, Picture
from app.tree.rounds.explanation import explain_bonus, explain_node
from app.tree.rounds.snapshot import Snapshot
from engine.protocol.watching import Inspected


class Inspection:
    """Of one tree: texts about its nodes, with the target's alternatives once they were told."""

    def __init__(self, tree: Snapshot | None = None) -> None:
        self._tree = tree
        self._asked: set[int] = set()
        self._told: dict[int, Inspected] = {}

    def explain(self, picture: Picture, node: int) -> str:
        """Rich text about a node or the bonus token."""
        tree = picture.tree
        alternatives = self._told.get(_before(tree, node)) if tree.has_bonus else None
        if node == BONUS_NODE:
            return explain_bonus(tree, alternatives)
        return explain_node(tree, node, picture.folded(node), alternatives)

    def question(self, node: int) -> int | None:
        """The node behind which the target's alternatives to this one are; None if that cannot be asked, or was."""
        tree = self._tree
        if tree is None or not tree.has_bonus or tree.ranks is None or node == 0:
            return None
        before = _before(tree, node)
        if before in self._asked:
            return None
        self._asked.add(before)
        return before

    def tell(self, alternatives: Inspected) -> None:
        """The target's answer."""
        self._told[alternatives.node] = alternatives


def _before(tree: Snapshot, node: int) -> int:
    return tree.tip if node == BONUS_NODE else int(tree.parents[node])
