"""SpecExec's verification: follow the target's own choices down the tree until one is missing."""

from collections.abc import Callable, Sequence

from torch import Tensor

from engine.speculation.method import Ends
from engine.speculation.trees.tree import Path, Tree

Draw = Callable[[Tensor, Sequence[int]], int]
"""(logits [vocabulary], the answer so far) -> the token that the target says next."""

Choose = Callable[[int, Sequence[int]], int]
"""(node of the tree, the answer up to it) -> the token that the target says next."""


def accept(tree: Tree, logits: Tensor, draw: Draw, ends: Ends, answer: Sequence[int]) -> Path:
    """Draw from the target along the tree while the drawn token is a child; the first miss is the bonus token.

    Every token is drawn from the target itself, so the output has exactly the target's distribution, whatever the tree
    (Svirschevski et al. 2024, arXiv 2406.02532, section 4). logits: float32 [nodes, vocabulary]; `answer`: all tokens
    of the answer up to the root. A token that ends the answer is the bonus token even where the tree has it: nothing
    behind it is wanted.
    """
    return follow(tree, lambda node, said: draw(logits[node], said), ends, answer)


def follow(tree: Tree, choose: Choose, ends: Ends, answer: Sequence[int]) -> Path:
    """Go down the tree by the chosen tokens while they are children; the first that is none, or an end, is bonus."""
    said = list(answer)
    nodes = [0]
    while True:
        token = choose(nodes[-1], said)
        child = None if ends(token) else tree.child(nodes[-1], token)
        if child is None:
            return Path(tuple(nodes), bonus=token)
        nodes.append(child)
        said.append(token)
