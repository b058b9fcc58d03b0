"""Sequoia's dynamic programme (Chen et al., NeurIPS 2024, arXiv 2402.12374): the best tree of every size and depth."""

from functools import lru_cache

import torch
from torch import Tensor

from engine.errors import InputError
from engine.protocol.sentences import say
from engine.speculation.trees.acceptance_vector import AcceptanceVector, checked
from engine.speculation.trees.tree_shape import TreeShape

MOST_NODES, MOST_LEVELS = 4096, 256
USUAL_LEVELS = 33  # with the root's
BLOCK = 64  # rows of one step of a max-plus convolution: small enough for a processor's own cache


class TreeProgramme:
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
                break  # no tree of so many nodes gains by going deeper
            self._best.append(best)
            self._gains.append(gains)

    def gain(self, nodes: int, levels: int) -> float:
        """G: the most tokens that a pass over at most `nodes` nodes in `levels` levels can yield on average."""
        return float(self._gains[self._level(levels)][nodes])

    def gains(self, levels: int) -> list[float]:
        """`gain` for 1, 2, ... nodes."""
        found: list[float] = self._gains[self._level(levels)][1:].tolist()
        return found

    def shape(self, nodes: int, levels: int) -> TreeShape:
        """The smallest tree that reaches `gain`."""
        parents = [-1]
        below = [(nodes, self._level(levels))]  # of every node: what its subtree may take
        for node, (room, level) in enumerate(below):  # which grows meanwhile, level by level
            for size in self._split(room, level):
                parents.append(node)
                below.append((size, level - 1))
        return TreeShape(tuple(parents))

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
def _programme(acceptance: AcceptanceVector, nodes: int, levels: int) -> TreeProgramme:
    return TreeProgramme(acceptance, nodes, levels)


def programme_for(acceptance: AcceptanceVector, nodes: int, levels: int) -> TreeProgramme:
    """A programme that covers `nodes` and `levels`, made once for all that are about as large.

    Raises `InputError` for what is no acceptance vector, and for sizes out of range.
    """
    if not 1 <= nodes <= MOST_NODES:
        raise InputError(
            say("A tree of {count} nodes is out of range.", count=nodes),
            say("Give 1 to {most} nodes, with the root.", most=MOST_NODES),
        )
    if not 1 <= levels <= MOST_LEVELS:
        raise InputError(
            say("A depth of {count} is out of range.", count=levels),
            say("Give 1 to {most} levels, with the root's.", most=MOST_LEVELS),
        )
    # Towards its end an answer allows less depth every round: the same programme serves them all.
    return _programme(acceptance, _power_of_two(nodes), max(levels, USUAL_LEVELS))


@lru_cache(maxsize=256)
def best_shape(acceptance: AcceptanceVector, nodes: int, levels: int) -> TreeShape:
    """The tree of at most `nodes` nodes and `levels` levels, both with the root, that yields the most tokens a pass.

    Raises `InputError` as `programme_for` does.
    """
    return programme_for(acceptance, nodes, levels).shape(nodes, levels)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
