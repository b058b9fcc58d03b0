"""The K best draft prefixes, found by a batched best-first search; plain arithmetic on the host.

In numpy, whose calls cost less than torch's: there are dozens for every pass of a draft that may take a millisecond.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.speculation.tree import Tree

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]


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
        self._tokens: Integers = np.array([root_token], dtype=np.int64)
        self._parents: Integers = np.array([-1], dtype=np.int64)
        self._depths: Integers = np.array([0], dtype=np.int64)
        self._log_probs: Numbers = np.zeros(1)  # cumulative, like the scores
        self._scores: Numbers = np.zeros(1)
        self._expanded = np.zeros(1, dtype=np.bool_)
        # Children too low for the budget of the moment: parent, token, cumulative log-probability, cumulative score.
        self._spare: list[tuple[Integers, Integers, Numbers, Numbers]] = []

    def __len__(self) -> int:
        return len(self._tokens)

    def frontier(self, batch: int, budget: int, depth: int) -> Tensor:
        """int64 [n <= batch]: the best nodes worth expanding, in the order of their numbers; empty when done."""
        worthwhile = ~self._expanded & (self._depths < depth) & (self._scores >= self._threshold(budget))
        candidates = worthwhile.nonzero()[0]
        if len(candidates) > batch:
            priority = self._scores[candidates] + self._depths[candidates] * self._log_decay
            candidates = np.sort(candidates[np.argsort(-priority, kind="stable")[:batch]])
        return torch.from_numpy(candidates)

    def chances(self, depth: int) -> Tensor:
        """float64 [n]: how likely each node at most `depth` deep is to be accepted, the likeliest first; no root."""
        return torch.from_numpy(np.exp(-np.sort(-self._scores[1:][self._depths[1:] <= depth])))

    def chances_of(self, nodes: Tensor) -> Tensor:
        """float64 [len(nodes)]: how likely each of these nodes is to be accepted."""
        return torch.from_numpy(np.exp(self._scores[nodes.numpy()]))

    def tokens_of(self, nodes: Tensor | Sequence[int]) -> list[int]:
        """The tokens of these nodes."""
        return _listed(self._tokens[np.asarray(nodes, dtype=np.int64)])

    def parents_of(self, nodes: Tensor) -> list[int]:
        """The parents of these nodes; -1 for the root."""
        return _listed(self._parents[nodes.numpy()])

    def child(self, node: int, token: int) -> int | None:
        """The child of `node` that carries `token` and is expanded, or None."""
        found = ((self._parents == node) & (self._tokens == token) & self._expanded).nonzero()[0]
        return int(found[0]) if len(found) else None

    def expand(
        self, nodes: Tensor, log_probs: Tensor, tokens: Tensor, budget: int, scores: Tensor | None = None
    ) -> None:
        """Take in the children of `nodes`: conditional log-probabilities, tokens and scores, all [len(nodes), width].

        Scores are at most 0; None: the log-probabilities are the scores.
        """
        above = nodes.numpy()
        self._expanded[above] = True
        parents = above.repeat(log_probs.shape[1])
        cumulative = (self._log_probs[above, None] + log_probs.double().numpy()).ravel()
        best = (self._scores[above, None] + (log_probs if scores is None else scores).double().numpy()).ravel()
        said = tokens.numpy().ravel()
        # No child below the K-th best of all nodes known with it can be among the K best in the end.
        hopeful = best >= self._threshold(budget, best)
        low = ~hopeful
        self._append(parents[hopeful], said[hopeful], cumulative[hopeful], best[hopeful])
        self._spare.append((parents[low], said[low], cumulative[low], best[low]))

    def best(self, budget: int, depth: int) -> Tensor:
        """int64: the root and the `budget` best nodes at most `depth` deep, in the order of their numbers.

        A child never scores more than its parent and stands behind it, so a stable sort keeps ancestors in.
        """
        reached = ((self._depths[1:] <= depth) & np.isfinite(self._scores[1:])).nonzero()[0] + 1
        order = reached[np.argsort(-self._scores[reached], kind="stable")[:budget]]
        return torch.from_numpy(np.concatenate([np.zeros(1, dtype=np.int64), np.sort(order)]))

    def tree(self, nodes: Tensor) -> Tree:
        """The `Tree` of these nodes, an ancestor-closed set that begins with the root."""
        kept = nodes.numpy()
        parents = (-1, *_listed(self._places(kept)[self._parents[kept[1:]]]))
        log_probs, scores = (tuple(values[kept].tolist()) for values in (self._log_probs, self._scores))
        return Tree(tuple(_listed(self._tokens[kept])), parents, log_probs, scores)

    def reconsider(self) -> None:
        """Take back every child that was too low: the budget is about to grow."""
        for parents, tokens, log_probs, scores in self._spare:
            self._append(parents, tokens, log_probs, scores)
        self._spare.clear()

    def reroot(self, root: int) -> Tensor:
        """Forget all but `root` and what is below it; returns the old numbers of the nodes that stay, ascending."""
        self.reconsider()
        below = np.zeros(len(self), dtype=np.bool_)
        below[root] = True
        for _ in range(int(self._depths.max()) - int(self._depths[root])):  # a level deeper each time
            below[1:] |= below[self._parents[1:]]
        stay = below.nonzero()[0]
        self._parents = np.concatenate([self._parents[:1], self._places(stay)[self._parents[stay[1:]]]])
        self._tokens, self._expanded = self._tokens[stay], self._expanded[stay]
        self._depths = self._depths[stay] - self._depths[root]
        self._log_probs = self._log_probs[stay] - self._log_probs[root]
        self._scores = self._scores[stay] - self._scores[root]
        return torch.from_numpy(stay)

    def _append(self, parents: Integers, tokens: Integers, log_probs: Numbers, scores: Numbers) -> None:
        self._tokens = np.concatenate([self._tokens, tokens])
        self._parents = np.concatenate([self._parents, parents])
        self._depths = np.concatenate([self._depths, self._depths[parents] + 1])
        self._log_probs = np.concatenate([self._log_probs, log_probs])
        self._scores = np.concatenate([self._scores, scores])
        self._expanded = np.concatenate([self._expanded, np.zeros(len(parents), dtype=np.bool_)])

    def _places(self, nodes: Integers) -> Integers:
        place = np.full(len(self), -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        return place

    def _threshold(self, budget: int, joining: Numbers | None = None) -> float:
        known = self._scores[1:] if joining is None else np.concatenate([self._scores[1:], joining])
        if len(known) < budget:
            return -math.inf
        return float(np.partition(known, len(known) - budget)[len(known) - budget])


def _listed(values: Integers) -> list[int]:
    found: list[int] = values.tolist()
    return found
