"""Methods that need no draft model: plain decoding, and prompt lookup, alone or on top of another method."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from torch import Tensor

from engine.speculation.interfaces import Method, Sampling, TreeBounds
from engine.speculation.methods.verification import accept
from engine.speculation.trees.arrays import Numbers
from engine.speculation.trees.ngram_index import NgramIndex
from engine.speculation.trees.tree import Merged, Path, Tree, merge, root_only


class Autoregression:
    """Plain decoding, as a method like the others."""

    name = "none"

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling

    def prefill(self, tokens: Sequence[int]) -> None:
        """Nothing to read for."""

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        """The root alone, whatever the bounds."""
        del bounds
        return root_only(tokens[-1])

    def keep_drafting(self) -> bool:
        """Nothing to guess."""
        return False

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int]) -> Path:
        """The token that the target draws is the bonus token."""
        return accept(tree, logits, self._sampling, answer)

    def keep(self, path: Path) -> None:
        """Nothing to keep."""


LEAST = math.log(0.02)  # branches less likely than this are not worth a row of the target's pass


class Lookup:
    """Another method's trees, with the text's own continuations among their nodes.

    They compete for the budget with the drafted nodes. The other method must accept paths of any tree, as SpecExec and
    plain decoding do; with plain decoding the text alone drafts (prompt lookup decoding).
    """

    def __init__(self, method: Method, name: str) -> None:
        """`name`: what the two together are called."""
        self.name = name
        self._method = method
        self._index = NgramIndex()
        self._merged: Merged | None = None

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`."""
        self._index.read(tokens)
        self._method.prefill(tokens)

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        """The likeliest nodes of what is drafted and what was said before."""
        self._index.read(tokens)
        drafted = self._method.grow(tokens, bounds)
        is_full = drafted.drafted == bounds.budget
        least = min(drafted.scores or drafted.log_probs) if is_full else LEAST
        branches = self._index.branches(bounds.budget, bounds.depth, least)
        self._merged = merge(drafted, branches, bounds.budget)
        if bounds.price:
            chosen = bounds.worthwhile(partial(getattr, self._merged, "tree"))
            if chosen is None:
                self._merged = merge(drafted, branches, bounds.size(partial(_probabilities, self._merged.tree)))
            else:
                self._merged = self._merged.cut(chosen)
        return self._merged.tree

    def keep_drafting(self) -> bool:
        """Let the method draft."""
        return self._method.keep_drafting()

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int]) -> Path:
        """As the method accepts."""
        return self._method.accept(tree, logits, answer)

    def keep(self, path: Path) -> None:
        """Give the method the part of the path that is in its own tree; the token behind it is the bonus token."""
        assert self._merged, "a tree is grown before a path of it is kept"
        own: list[int] = []
        for node in path.nodes:
            origin = self._merged.origins[node]
            if origin is None:
                self._method.keep(Path(tuple(own), bonus=self._merged.tree.tokens[node]))
                return
            own.append(origin)
        self._method.keep(Path(tuple(own), path.bonus))


def _probabilities(tree: Tree) -> Numbers:
    """float64 [drafted]: of its nodes, the likeliest first."""
    probabilities: Numbers = np.exp(-np.sort(-np.array((tree.scores or tree.log_probs)[1:], dtype=np.float64)))
    return probabilities
