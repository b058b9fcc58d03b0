"""Trees as they travel: arrays as bytes, and the tokens' texts."""

from array import array
from collections.abc import Callable

from engine.protocol.messages import Tree
from engine.speculation.trees.tree import Tree as SpeculationTree


def pack_tree(tree: SpeculationTree, piece: Callable[[int], str]) -> Tree:
    """`piece` gives the text of one token for display."""
    return Tree(
        tokens=array("i", tree.tokens).tobytes(),
        parents=array("i", tree.parents).tobytes(),
        log_probs=array("f", tree.log_probs).tobytes(),
        pieces=tuple(piece(token) for token in tree.tokens),
    )
