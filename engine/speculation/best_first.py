"""The K best draft prefixes, found by a batched best-first search; plain arithmetic on the host."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.speculation.tree import Tree


class BestFirst:
    """Single-source shortest paths with edge cost -log q, a batch of frontier nodes at a time.

    The search asks for a `frontier`, the caller asks the draft for these nodes' most probable children, and `expand`
    takes them in with their scores: how probable they are, or how often what is so probable is accepted. Once the
    frontier is empty the `budget` nodes with the best cumulative scores are known exactly, as far as `width` and
    `depth` let them be seen. `decay` per level orders the frontier only: a draft is the less to be trusted the deeper
    it guesses. What is kept is ranked by cumulative score alone.

    The search may go on past the budget, and begin again at one of its nodes with all that is known below it.
    """

    def __init__(self, root_token: int, decay: float) -> None:
        self._log_decay = math.log(decay)
        self._tokens = torch.tensor([root_token])
        self._parents = torch.tensor([-1])
        self._depths = torch.tensor([0])
        self._log_probs = torch.zeros(1, dtype=torch.float64)  # cumulative, like the scores
        self._scores = torch.zeros(1, dtype=torch.float64)
        self._expanded = torch.zeros(1, dtype=torch.bool)
        # Children too low for the budget of the moment: parent, token, cumulative log-probability, cumulative score.
        self._spare: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def __len__(self) -> int:
        return len(self._tokens)

    def frontier(self, batch: int, budget: int, depth: int) -> Tensor:
        """int64 [n <= batch]: the best nodes worth expanding, in the order of their numbers; empty when done."""
        worthwhile = ~self._expanded & (self._depths < depth) & (self._scores >= self._threshold(budget))
        candidates = worthwhile.nonzero()[:, 0]
        priority = self._scores[candidates] + self._depths[candidates] * self._log_decay
        chosen = priority.topk(min(batch, len(candidates))).indices
        return candidates[chosen].sort().values

    def chances(self, depth: int) -> Tensor:
        """float64 [n]: how likely each node at most `depth` deep is to be accepted, the likeliest first; no root."""
        return self._scores[1:][self._depths[1:] <= depth].exp().sort(descending=True).values

    def chances_of(self, nodes: Tensor) -> Tensor:
        """float64 [len(nodes)]: how likely each of these nodes is to be accepted."""
        return self._scores[nodes].exp()

    def tokens_of(self, nodes: Tensor | Sequence[int]) -> list[int]:
        """The tokens of these nodes."""
        return [int(token) for token in self._tokens[nodes]]

    def parents_of(self, nodes: Tensor) -> list[int]:
        """The parents of these nodes; -1 for the root."""
        return [int(parent) for parent in self._parents[nodes]]

    def child(self, node: int, token: int) -> int | None:
        """The child of `node` that carries `token` and is expanded, or None."""
        found = ((self._parents == node) & (self._tokens == token) & self._expanded).nonzero()
        return int(found[0, 0]) if len(found) else None

    def expand(
        self, nodes: Tensor, log_probs: Tensor, tokens: Tensor, budget: int, scores: Tensor | None = None
    ) -> None:
        """Take in the children of `nodes`: conditional log-probabilities, tokens and scores, all [len(nodes), width].

        Scores are at most 0; None: the log-probabilities are the scores.
        """
        self._expanded[nodes] = True
        parents = nodes.repeat_interleave(log_probs.shape[1])
        cumulative = (self._log_probs[nodes, None] + log_probs.double()).flatten()
        best = (self._scores[nodes, None] + (log_probs if scores is None else scores).double()).flatten()
        # No child below the K-th best of all nodes known with it can be among the K best in the end.
        hopeful = best >= self._threshold(budget, best)
        low = ~hopeful
        self._append(parents[hopeful], tokens.flatten()[hopeful], cumulative[hopeful], best[hopeful])
        self._spare.append((parents[low], tokens.flatten()[low], cumulative[low], best[low]))

    def best(self, budget: int, depth: int) -> Tensor:
        """int64: the root and the `budget` best nodes at most `depth` deep, in the order of their numbers.

        A child never scores more than its parent and stands behind it, so a stable sort keeps ancestors in.
        """
        ranked = self._scores[1:].masked_fill(self._depths[1:] > depth, -torch.inf)
        order = ranked.sort(descending=True, stable=True).indices[: min(budget, int(ranked.isfinite().sum()))] + 1
        return torch.cat([torch.tensor([0]), order.sort().values])

    def tree(self, nodes: Tensor) -> Tree:
        """The `Tree` of these nodes, an ancestor-closed set that begins with the root."""
        place = self._places(nodes)
        parents = [-1, *place[self._parents[nodes[1:]]].tolist()]
        tokens, log_probs, scores = (
            tuple(values[nodes].tolist()) for values in (self._tokens, self._log_probs, self._scores)
        )
        return Tree(tokens, tuple(parents), log_probs, scores)

    def reconsider(self) -> None:
        """Take back every child that was too low: the budget is about to grow."""
        for parents, tokens, log_probs, scores in self._spare:
            self._append(parents, tokens, log_probs, scores)
        self._spare.clear()

    def reroot(self, root: int) -> Tensor:
        """Forget all but `root` and what is below it; returns the old numbers of the nodes that stay, ascending."""
        self.reconsider()
        below = torch.zeros(len(self), dtype=torch.bool)
        below[root] = True
        for _ in range(int(self._depths.max()) - int(self._depths[root])):  # a level deeper each time
            below[1:] |= below[self._parents[1:]]
        stay = below.nonzero()[:, 0]
        place = self._places(stay)
        self._parents = torch.cat([torch.tensor([-1]), place[self._parents[stay[1:]]]])
        self._tokens, self._expanded = self._tokens[stay], self._expanded[stay]
        self._depths = self._depths[stay] - self._depths[root]
        self._log_probs = self._log_probs[stay] - self._log_probs[root]
        self._scores = self._scores[stay] - self._scores[root]
        return stay

    def _append(self, parents: Tensor, tokens: Tensor, log_probs: Tensor, scores: Tensor) -> None:
        self._tokens = torch.cat([self._tokens, tokens])
        self._parents = torch.cat([self._parents, parents])
        self._depths = torch.cat([self._depths, self._depths[parents] + 1])
        self._log_probs = torch.cat([self._log_probs, log_probs])
        self._scores = torch.cat([self._scores, scores])
        self._expanded = torch.cat([self._expanded, torch.zeros(len(parents), dtype=torch.bool)])

    def _places(self, nodes: Tensor) -> Tensor:
        place = torch.full((len(self),), -1)
        place[nodes] = torch.arange(len(nodes))
        return place

    def _threshold(self, budget: int, joining: Tensor | None = None) -> float:
        known = self._scores[1:] if joining is None else torch.cat([self._scores[1:], joining])
        if len(known) < budget:
            return -math.inf
        return float(known.kthvalue(len(known) - budget + 1).values)
