"""The K most probable draft prefixes, found by a batched best-first search; plain arithmetic on the host."""

import math

import torch
from torch import Tensor

from engine.speculation.tree import Tree


class BestFirst:
    """Single-source shortest paths with edge cost -log q, a batch of frontier nodes at a time.

    The search asks for a `frontier`, the caller asks the draft for these nodes' most probable children, and `expand`
    takes them in. Once the frontier is empty the `budget` most probable nodes are known exactly, as far as `width` and
    `depth` let them be seen. `decay` per level orders the frontier only: a draft is the less to be trusted the deeper
    it guesses. What is kept is ranked by cumulative probability alone.
    """

    def __init__(self, root_token: int, budget: int, depth: int, decay: float) -> None:
        self._budget, self._depth, self._log_decay = budget, depth, math.log(decay)
        self._tokens = torch.tensor([root_token])
        self._parents = torch.tensor([-1])
        self._depths = torch.tensor([0])
        self._log_probs = torch.zeros(1, dtype=torch.float64)
        self._expanded = torch.zeros(1, dtype=torch.bool)

    def frontier(self, batch: int) -> Tensor:
        """int64 [n <= batch]: the best nodes worth expanding, in the order of their numbers; empty when done."""
        worthwhile = ~self._expanded & (self._depths < self._depth) & (self._log_probs >= self._threshold())
        candidates = worthwhile.nonzero()[:, 0]
        priority = self._log_probs[candidates] + self._depths[candidates] * self._log_decay
        chosen = priority.topk(min(batch, len(candidates))).indices
        return candidates[chosen].sort().values

    def tokens_of(self, nodes: Tensor) -> list[int]:
        """The tokens of these nodes."""
        return [int(token) for token in self._tokens[nodes]]

    def parents_of(self, nodes: Tensor) -> list[int]:
        """The parents of these nodes; -1 for the root."""
        return [int(parent) for parent in self._parents[nodes]]

    def expand(self, nodes: Tensor, log_probs: Tensor, tokens: Tensor) -> None:
        """Take in the children of `nodes`: their conditional log-probabilities and tokens, both [len(nodes), width]."""
        self._expanded[nodes] = True
        cumulative = (self._log_probs[nodes, None] + log_probs.double()).flatten()
        # No child below the K-th best of all nodes known with it can be among the K best in the end.
        hopeful = cumulative >= self._threshold(cumulative)
        parents = nodes.repeat_interleave(log_probs.shape[1])[hopeful]
        self._tokens = torch.cat([self._tokens, tokens.flatten()[hopeful]])
        self._parents = torch.cat([self._parents, parents])
        self._depths = torch.cat([self._depths, self._depths[parents] + 1])
        self._log_probs = torch.cat([self._log_probs, cumulative[hopeful]])
        self._expanded = torch.cat([self._expanded, torch.zeros(len(parents), dtype=torch.bool)])

    def best(self) -> Tensor:
        """int64: the root and the `budget` most probable nodes, in the order of their numbers.

        A child is never more probable than its parent and stands behind it, so a stable sort keeps ancestors in.
        """
        order = self._log_probs[1:].sort(descending=True, stable=True).indices[: self._budget] + 1
        return torch.cat([torch.tensor([0]), order.sort().values])

    def tree(self, nodes: Tensor) -> Tree:
        """The `Tree` of these nodes, an ancestor-closed set that begins with the root."""
        place = torch.full((len(self._tokens),), -1)
        place[nodes] = torch.arange(len(nodes))
        parents = [-1, *place[self._parents[nodes[1:]]].tolist()]
        return Tree(tuple(self._tokens[nodes].tolist()), tuple(parents), tuple(self._log_probs[nodes].tolist()))

    def _threshold(self, joining: Tensor | None = None) -> float:
        known = self._log_probs[1:] if joining is None else torch.cat([self._log_probs[1:], joining])
        if len(known) < self._budget:
            return -math.inf
        return float(known.kthvalue(len(known) - self._budget + 1).values)
