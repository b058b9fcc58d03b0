"""Sequoia's dynamic program (Chen et al., NeurIPS 2024, arXiv 2402.12374): the best tree of every size and depth."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from engine.errors import InputError
from engine.protocol.sentences import Amount, say

AcceptanceVector = tuple[float, ...]
"""p[k - 1] is the probability that of a node's children the k-th is the one accepted; at most one is, so the sum is
at most 1."""

Seconds = Callable[[float], float]
"""Of a pass, by its rows."""

MOST_CHILDREN = 64
ROUNDING = 1e-6

PRIOR: AcceptanceVector = tuple(0.6 / rank**2 for rank in range(1, 33))
"""For a pair that was never measured: a power law, as Chen et al. 2024 (arXiv 2402.12374) find for their pairs."""


def checked(acceptance: Sequence[float]) -> AcceptanceVector:
    """The same numbers; raises `InputError` if they cannot be an acceptance vector."""
    hint = say("Give probabilities like 0.6,0.2,0.1: of the first child, the second, and so on.")
    if not acceptance:
        raise InputError(say("The acceptance vector is empty."), hint)
    if len(acceptance) > MOST_CHILDREN:
        words = say("The acceptance vector has {count} numbers.", count=len(acceptance))
        raise InputError(words, say("Give at most {most}.", most=MOST_CHILDREN))
    for number in acceptance:
        if not 0.0 <= number <= 1.0:  # nor is it when it is not a number
            words = say("The acceptance vector holds {number}, which is no probability.", number=Amount(f"{number:g}"))
            raise InputError(words, hint)
    if (total := math.fsum(acceptance)) > 1.0 + ROUNDING:
        raise InputError(
            say(
                "The acceptance vector sums to {number}, but of a node's children at most one is accepted.",
                number=Amount(f"{total:.6g}"),
            ),
            say("Give probabilities that sum to at most 1."),
        )
    return tuple(float(number) for number in acceptance)


@dataclass(frozen=True)
class TreeShape:
    """Nodes level by level, the root first; `parents[0]` is -1. Of a node's children the k-th listed has rank k."""

    parents: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Of every node its children, by rank."""
        found: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents[1:], start=1):
            found[parent].append(node)
        return tuple(tuple(nodes) for nodes in found)

    @cached_property
    def levels(self) -> int:
        """Levels, that of the root counted."""
        depths = [1]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return max(depths)

    def expected_tokens(self, acceptance: Sequence[float]) -> float:
        """Tokens that a pass yields on average, the bonus token counted: the sum over all nodes, the root being 1, of
        the product of `acceptance` along the path."""
        reached = [1.0] + [0.0] * (len(self) - 1)
        for node, children in enumerate(self.children):
            for rank, child in enumerate(children):
                reached[child] = reached[node] * acceptance[rank]
        return sum(reached)


MOST_NODES, MOST_LEVELS = 4096, 256
USUAL_LEVELS = 33  # with the root's
BLOCK = 64  # rows of one step of a max-plus convolution: small enough for a processor's own cache


class TreeProgram:
    """T[d, b, n] is the largest number of expected tokens of a tree of at most n nodes and d levels, both with the
    root, whose root has exactly b children:

        T[d, 0, n] = 1,  T[d, b, n] = max_m T[d, b - 1, n - m] + p[b] G[d - 1, m],  G[d, n] = max_b T[d, b, n].

    The b-th child is the root of a tree of m nodes and one level less. All sizes are found at once, by a max-plus
    convolution. "At most" and not "exactly", so that sizes that width and depth do not allow have an answer, too.
    """

    def __init__(self, acceptance: AcceptanceVector, nodes: int, levels: int) -> None:
        """For up to `nodes` nodes and `levels` levels. Raises `InputError` for what is no acceptance vector."""
        self.acceptance = checked(acceptance)
        self.nodes, self.levels = nodes, levels
        children = min(len(acceptance), nodes - 1)
        lone = torch.full((children + 1, nodes + 1), -torch.inf, dtype=torch.float64)  # no tree has 0 nodes
        lone[0, 1:] = 1.0
        self._best = [lone]  # per level: T[b, n]
        self._gains = [lone[0]]  # per level: G[n]
        for _ in range(2, min(levels, nodes) + 1):
            best = lone.clone()
            for rank in range(1, children + 1):
                best[rank] = _max_plus(best[rank - 1], self.acceptance[rank - 1] * self._gains[-1])
            gains = best.amax(0)
            if torch.equal(gains, self._gains[-1]):
                break  # no tree of this size gains from more levels
            self._best.append(best)
            self._gains.append(gains)

    def gain(self, nodes: int, levels: int) -> float:
        """G: the most tokens that a pass over at most `nodes` nodes in `levels` levels can yield on average."""
        return float(self._gains[self._level(levels)][nodes])

    def shape(self, nodes: int, levels: int) -> TreeShape:
        """The smallest tree that reaches `gain`."""
        parents = [-1]
        below = [(nodes, self._level(levels))]  # of every node: what its subtree may take
        for node, (room, level) in enumerate(below):  # which grows meanwhile, level by level
            for size in self._split(room, level):
                parents.append(node)
                below.append((size, level - 1))
        return TreeShape(tuple(parents))

    def best_size(
        self, draft: Seconds, target: Seconds, most_levels: int | None = None, most_nodes: int | None = None
    ) -> tuple[int, int]:
        """Sequoia's hardware-aware optimiser (section 3.3): the nodes and levels that cost the least time per token.

        They minimise (d t_draft + t_target(n)) / G(n, d); of equals the first, and before all (0, 0), no tree. Both
        count drafted ones alone, of which a pass of `draft` reads a level's average, and one of `target` the root too.
        """
        best, least = (0, 0), target(1)
        for budget in sizes_up_to(most_nodes or self.nodes - 1):
            for depth in range(1, min(budget, self.levels - 1, most_levels or budget) + 1):
                drafting = depth * draft(budget / depth)
                seconds = (drafting + target(budget + 1)) / self.gain(budget + 1, depth + 1)
                if seconds < least:
                    best, least = (budget, depth), seconds
        return best

    def _split(self, room: int, level: int) -> list[int]:
        """The sizes of the subtrees, by rank, of the root of the best tree of at most `room` nodes."""
        best = self._best[level]
        sizes = []
        for rank in range(int(best[:, room].argmax()), 0, -1):
            below = self.acceptance[rank - 1] * self._gains[level - 1][1:room]
            size = int((best[rank - 1, 1:room].flip(0) + below).argmax()) + 1
            sizes.append(size)
            room -= size
        return sizes[::-1]

    def _level(self, levels: int) -> int:
        return min(levels, len(self._best)) - 1


def sizes_up_to(most: int) -> list[int]:
    """Budgets worth trying: every one at first, then in steps of about an eighth."""
    sizes = [1]
    while sizes[-1] < most:
        sizes.append(min(most, sizes[-1] + max(1, sizes[-1] // 8)))
    return sizes


def _max_plus(left: Tensor, right: Tensor) -> Tensor:
    """out[n] = max over 0 < m < n of left[n - m] + right[m]; -inf where there is no such m. All float64 [size]."""
    size = len(left)
    out = torch.full_like(left, -torch.inf)
    backwards = torch.cat([left.flip(0), left.new_full((BLOCK,), -torch.inf)])  # left[n - m] at size - 1 - n + m
    for low in range(2, size, BLOCK):
        high = min(low + BLOCK, size)
        rows = backwards[size - high + 1 :].unfold(0, high - 1, 1)[: high - low]  # row i: n = high - 1 - i, m from 1 on
        out[low:high] = (rows + right[1:high]).amax(1).flip(0)
    return out


@lru_cache(maxsize=8)
def _program(acceptance: AcceptanceVector, nodes: int, levels: int) -> TreeProgram:
    return TreeProgram(acceptance, nodes, levels)


def program_for(acceptance: AcceptanceVector, nodes: int, levels: int) -> TreeProgram:
    """A program that covers `nodes` and `levels`, made once for all that are about as large.

    Raises `InputError` for what is no acceptance vector, and for sizes out of range.
    """
    if not 1 <= nodes <= MOST_NODES:
        words = say("A tree of {count} nodes is out of range.", count=nodes)
        raise InputError(words, say("Give 1 to {most} nodes, with the root.", most=MOST_NODES))
    if not 1 <= levels <= MOST_LEVELS:
        words = say("A depth of {count} is out of range.", count=levels)
        raise InputError(words, say("Give 1 to {most} levels, with the root's.", most=MOST_LEVELS))
    # Towards its end an answer allows less depth every round: the same program serves them all.
    return _program(acceptance, _power_of_two(nodes), max(levels, USUAL_LEVELS))


@lru_cache(maxsize=256)
def best_shape(acceptance: AcceptanceVector, nodes: int, levels: int) -> TreeShape:
    """The tree of at most `nodes` nodes and `levels` levels, both with the root, that yields the most tokens a pass.

    Raises `InputError` as `program_for` does.
    """
    return program_for(acceptance, nodes, levels).shape(nodes, levels)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
