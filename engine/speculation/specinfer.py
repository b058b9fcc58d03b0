"""SpecInfer (Miao et al., ASPLOS 2024, arXiv 2305.09781): draft sequences that share their beginnings in a tree."""

from collections.abc import Sequence

from torch import Tensor

from engine.speculation.drafting import Drafting
from engine.speculation.method import Ends
from engine.speculation.rejection import from_independent
from engine.speculation.tree import Path, Tree


class SpecInfer:
    """A number of sequences, drawn from the draft independently of each other; equal beginnings are one node.

    The static expansion is <k,1,1,...>: sequences are independent from the root on. They are as long as the depth
    allows, and k = budget / depth; less depth gives more of them (the paper's expansions are 8 deep). When greedy, they
    begin with the k likeliest tokens.
    """

    name = "specinfer"

    def __init__(self, drafting: Drafting, most_levels: int) -> None:
        """`most_levels`: drafted levels at most."""
        self._drafting = drafting
        self._most_levels = most_levels

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`."""
        self._drafting.prefill(tokens)

    def grow(self, tokens: Sequence[int], budget: int, depth: int) -> Tree:
        """All sequences, a level at a time."""
        sprout = self._drafting.plant(tokens)
        depth = min(budget, depth, self._most_levels)
        sequences = {0: budget // depth} if depth else {}  # node of the tree -> how many sequences go through it
        for _ in range(depth):
            nodes = list(sequences)
            distributions = self._drafting.read(nodes)
            drawn = self._drafting.independent(distributions, list(sequences.values()))
            sequences = {
                child: said.count(sprout.tokens[child])
                for said, children in zip(drawn, sprout.branch(nodes, distributions, drawn), strict=True)
                for child in children
            }
        return sprout.tree()

    def extend(self) -> bool:
        """Nothing: what is drawn is drawn, and more of it would change the distribution of the answer."""
        return False

    def accept(self, tree: Tree, logits: Tensor, ends: Ends, answer: Sequence[int]) -> Path:
        """At every node the first of its draws that passes, else a token from what the target has left."""
        return self._drafting.accept(tree, logits, ends, answer, from_independent)

    def keep(self, path: Path) -> None:
        """The draft keeps what it has read of the path."""
        self._drafting.keep(path)
