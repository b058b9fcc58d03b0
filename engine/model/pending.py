"""The speculative tail of a context: which pending slot is whose child, and who may see whom."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


class PendingTree:
    """Ancestry of the slots behind the committed ones, numbered from 0 in the order they were appended."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._depths: list[int] = []
        self._visible = np.zeros((0, 0), dtype=np.bool_)  # [capacity, capacity]: row may see column

    def __len__(self) -> int:
        return len(self.tokens)

    def clear(self) -> None:
        """Forget all nodes."""
        self.truncate(0)

    def truncate(self, count: int) -> None:
        """Forget every node from `count` on."""
        del self.tokens[count:], self._depths[count:]

    def append(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor:
        """Add nodes whose parents stand before them (-1: the last committed token); returns bool [n, len(self)].

        Row i tells which pending slots the i-th new node may see: its ancestors and itself.
        """
        begin, end = len(self.tokens), len(self.tokens) + len(tokens)
        self._reserve(end)
        self._visible[begin:end] = False
        generations: list[list[int]] = [[]]  # of the new nodes: those below old ones, then their children, and so on
        generation_of: dict[int, int] = {}
        for node, parent in enumerate(parents, start=begin):
            assert parent < node, "a parent must be appended before its children"
            self._depths.append(0 if parent < 0 else self._depths[parent] + 1)
            generation = generation_of[node] = generation_of.get(parent, -1) + 1
            if generation == len(generations):
                generations.append([])
            generations[generation].append(node)
        self.tokens.extend(tokens)
        for nodes in generations:  # one at a time: every parent's row is complete before it is copied
            below = [node for node in nodes if parents[node - begin] >= 0]
            self._visible[below] = self._visible[[parents[node - begin] for node in below]]
            self._visible[nodes, nodes] = True
        return torch.from_numpy(self._visible[begin:end, :end])

    def visible(self) -> Tensor:
        """bool [len(self), len(self)]: which of all nodes each may see."""
        return torch.from_numpy(self._visible[: len(self), : len(self)])

    def retain(self, nodes: Sequence[int], above: int) -> None:
        """Keep only these nodes, ascending, with their ancestors but for the `above` levels that are committed now."""
        index = np.array(nodes, dtype=np.int64)
        self._visible[: len(nodes), : len(nodes)] = self._visible[index][:, index]
        self.tokens = [self.tokens[node] for node in nodes]
        self._depths = [self._depths[node] - above for node in nodes]

    def positions(self, base: int) -> Tensor:
        """int64 [len(self)]: the position of every pending node, `base` being the first one behind the prefix."""
        return torch.tensor(self._depths, dtype=torch.int64) + base

    def is_path(self, nodes: Sequence[int]) -> bool:
        """Whether `nodes` go down the tree, each the parent of the next, from a child of the last committed token."""
        return all(
            self._depths[node] == depth and bool(self._visible[node, list(nodes[: depth + 1])].all())
            for depth, node in enumerate(nodes)
        )

    def _reserve(self, count: int) -> None:
        capacity = len(self._visible)
        if count <= capacity:
            return
        grown = np.zeros(2 * (max(count, 2 * capacity, 256),), dtype=np.bool_)
        grown[:capacity, :capacity] = self._visible
        self._visible = grown
