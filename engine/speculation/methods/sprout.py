"""A tree while it is drafted: its nodes, and what the children of every node were drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.speculation.trees.tree import Tree
from engine.speculation.witness import Nobody, Witness


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the draft drew behind a node: from float32 [vocabulary], and in this order; a token may be there twice."""

    distribution: Tensor
    tokens: tuple[int, ...]


class Sprout:
    """Grows by the draws behind some of its nodes at a time. Node 0 is the root, the last committed token."""

    def __init__(self, root_token: int, witness: Witness | None = None) -> None:
        """`witness` is told of every growth."""
        self._witness = witness or Nobody()
        self.tokens = [root_token]
        self.parents = [-1]
        self.drawn: dict[int, Drawn] = {}
        self._log_probs = [0.0]

    def branch(self, nodes: Sequence[int], distributions: Tensor, drawn: Sequence[Sequence[int]]) -> list[list[int]]:
        """A child for every different token that was drawn behind each of `nodes`; returns these, by first draw.

        distributions: float32 [len(nodes), vocabulary].
        """
        different = [list(dict.fromkeys(tokens)) for tokens in drawn]
        rows = [row for row, tokens in enumerate(different) for _ in tokens]
        added = [token for tokens in different for token in tokens]
        device = distributions.device
        log_probs = distributions[torch.tensor(rows, device=device), torch.tensor(added, device=device)].log().tolist()
        children: list[list[int]] = [[] for _ in nodes]
        for row, token, log_prob in zip(rows, added, log_probs, strict=True):
            children[row].append(len(self.tokens))
            self.tokens.append(token)
            self.parents.append(nodes[row])
            self._log_probs.append(self._log_probs[nodes[row]] + log_prob)
        for node, distribution, tokens in zip(nodes, distributions, drawn, strict=True):
            self.drawn[node] = Drawn(distribution, tuple(tokens))
        self._witness.grown(self.tree)
        return children

    def path(self, node: int) -> list[int]:
        """The tokens behind the root, down to `node`."""
        tokens: list[int] = []
        while node > 0:
            tokens.append(self.tokens[node])
            node = self.parents[node]
        return tokens[::-1]

    def tree(self) -> Tree:
        """As it is now."""
        return Tree(tuple(self.tokens), tuple(self.parents), tuple(self._log_probs))
