"""The K best draft prefixes, found by a batched best-first search; plain arithmetic on the host.

There are dozens of calls for every pass of a draft that may take a millisecond, so each of them counts.
"""

import math
import sys
from collections.abc import Sequence, Set

import numpy as np

from engine.speculation.trees.arrays import Flags, Integers, Numbers
from engine.speculation.trees.tree import MOST_LEFT_OUT, Tree

LEAST = -sys.float_info.max  # a score: what is impossible scores less, and is not worth expanding


class BestFirst:
    """Single-source shortest paths with edge cost -log q, a batch of frontier nodes at a time.

    The search asks for a `frontier`, the caller asks the draft for these nodes' most probable children, and `expand`
    takes them in with their scores: how probable they are, or how often what is so probable is accepted. Once the
    frontier is empty the `budget` nodes with the best cumulative scores are known exactly, as far as `width` and
    `depth` let them be seen. `decay` per level orders the frontier only: a draft is the less to be trusted the deeper
    it guesses. What is kept is ranked by cumulative score alone.

    The search may go on past the budget, and begin again at one of its nodes with all that is known below it.
    """

    def __init__(self, root_token: int, decay: float, end_tokens: Set[int] = frozenset()) -> None:
        """`end_tokens`: nothing follows them, so they are never in a frontier; the root's token may be one."""
        self._log_decay = math.log(decay)
        self._end_tokens: Integers = np.array(sorted(end_tokens), dtype=np.int64)
        self._tokens: Integers = np.array([root_token], dtype=np.int64)
        self._parents: Integers = np.array([-1], dtype=np.int64)
        self._depths: Integers = np.array([0], dtype=np.int64)
        self._log_probs: Numbers = np.zeros(1)  # cumulative, like the scores
        self._scores: Numbers = np.zeros(1)
        self._expanded = np.zeros(1, dtype=np.bool_)  # or with nothing to be expanded
        # Children too low for the budget of the moment: of each expansion the parents, and [parents, width] their
        # cumulative log-probabilities, tokens, cumulative scores, and which of them are too low.
        self._spare: list[tuple[Integers, Numbers, Integers, Numbers, Flags]] = []

    def __len__(self) -> int:
        return len(self._tokens)

    def frontier(self, batch: int, budget: int, depth: int) -> Integers:
        """int64 [n <= batch]: the best nodes worth expanding, in the order of their numbers; empty when done."""
        worthwhile = ~self._expanded & (self._depths < depth) & (self._scores >= self._threshold(budget))
        candidates = worthwhile.nonzero()[0]
        if len(candidates) > batch:
            priority = self._scores[candidates] + self._depths[candidates] * self._log_decay
            candidates = np.sort(candidates[np.argsort(-priority, kind="stable")[:batch]])
        return candidates

    def probabilities(self, depth: int) -> Numbers:
        """float64 [n]: how likely each node at most `depth` deep is to be accepted, the likeliest first; no root."""
        probabilities: Numbers = np.exp(-np.sort(-self._scores[1:][self._depths[1:] <= depth]))
        return probabilities

    def probabilities_of(self, nodes: Integers) -> Numbers:
        """float64 [len(nodes)]: how likely each of these nodes is to be accepted."""
        probabilities: Numbers = np.exp(self._scores[nodes])
        return probabilities

    def tokens_of(self, nodes: Integers | Sequence[int]) -> list[int]:
        """The tokens of these nodes."""
        return _listed(self._tokens[np.asarray(nodes, dtype=np.int64)])

    def parents_of(self, nodes: Integers) -> list[int]:
        """The parents of these nodes; -1 for the root."""
        return _listed(self._parents[nodes])

    def child(self, node: int, token: int) -> int | None:
        """The child of `node` that carries `token` and is expanded, or None."""
        if token in self._end_tokens:
            return None
        found = ((self._parents == node) & (self._tokens == token) & self._expanded).nonzero()[0]
        return int(found[0]) if len(found) else None

    def expand(
        self, nodes: Integers, log_probs: Numbers, tokens: Integers, budget: int, scores: Numbers | None = None
    ) -> None:
        """Take in the children of `nodes`: conditional log-probabilities, tokens and scores, all [len(nodes), width].

        Scores are at most 0; None: the log-probabilities are the scores.
        """
        self._expanded[nodes] = True
        cumulative = self._log_probs[nodes, None] + log_probs
        best = self._scores[nodes, None] + (log_probs if scores is None else scores)
        # No child below the K-th best of all nodes known with it can be among the K best in the end.
        hopeful = best >= self._threshold(budget, best)
        self._append(nodes, cumulative, tokens, best, hopeful)
        self._spare.append((nodes, cumulative, tokens, best, ~hopeful))

    def best(self, budget: int, depth: int) -> Integers:
        """int64: the root and the `budget` best nodes at most `depth` deep, in the order of their numbers.

        A child never scores more than its parent and stands behind it, so a stable sort keeps ancestors in.
        """
        reached = ((self._depths[1:] <= depth) & np.isfinite(self._scores[1:])).nonzero()[0] + 1
        order = reached[np.argsort(-self._scores[reached], kind="stable")[:budget]]
        return np.concatenate([np.zeros(1, dtype=np.int64), np.sort(order)])

    def tree(self, nodes: Integers) -> Tree:
        """The `Tree` of these nodes, an ancestor-closed set that begins with the root."""
        parents = (-1, *_listed(self._places(nodes)[self._parents[nodes[1:]]]))
        log_probs, scores = (tuple(values[nodes].tolist()) for values in (self._log_probs, self._scores))
        return Tree(tuple(_listed(self._tokens[nodes])), parents, log_probs, scores)

    def left_out(self, nodes: Integers, depth: int) -> tuple[tuple[float, int], ...]:
        """Scores and depths of the best other nodes at most `depth` deep, the best first."""
        others = np.isfinite(self._scores) & (self._depths <= depth)
        others[nodes] = False
        left = others.nonzero()[0]
        left = left[np.argsort(-self._scores[left], kind="stable")[:MOST_LEFT_OUT]]
        return tuple(zip(self._scores[left].tolist(), self._depths[left].tolist(), strict=True))

    def reconsider(self) -> None:
        """Take back every child that was too low: the budget is about to grow."""
        for low in self._spare:
            self._append(*low)
        self._spare.clear()

    def reroot(self, root: int) -> Integers:
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
        return stay

    def _append(self, nodes: Integers, log_probs: Numbers, tokens: Integers, scores: Numbers, chosen: Flags) -> None:
        """The chosen children of `nodes`; all but these are [len(nodes), width]."""
        parents, tokens = nodes[chosen.nonzero()[0]], tokens[chosen]
        self._tokens = np.concatenate([self._tokens, tokens])
        self._parents = np.concatenate([self._parents, parents])
        self._depths = np.concatenate([self._depths, self._depths[parents] + 1])
        self._log_probs = np.concatenate([self._log_probs, log_probs[chosen]])
        self._scores = np.concatenate([self._scores, scores[chosen]])
        self._expanded = np.concatenate([self._expanded, (tokens[:, None] == self._end_tokens).any(axis=1)])

    def _places(self, nodes: Integers) -> Integers:
        place = np.full(len(self), -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        return place

    def _threshold(self, budget: int, joining: Numbers | None = None) -> float:
        known = self._scores[1:] if joining is None else np.concatenate([self._scores[1:], joining.ravel()])
        if len(known) < budget:
            return LEAST
        return max(LEAST, float(np.partition(known, len(known) - budget)[len(known) - budget]))


def _listed(values: Integers) -> list[int]:
    found: list[int] = values.tolist()
    return found
