"""How many tokens one pass of the target gives: SpecExec's tree, computed exactly and node by node.

The engine's own implementation expands the frontier in batches; this one is the plain measure (SpecExec, Svirschevski
et al. 2024): the `budget` most likely continuations under the draft, with their ancestors, up to a depth.
"""

from typing import Any

import torch
from transformers.cache_utils import DynamicCache

DEPTH = 32
WIDTH = 16  # children of a node


class Tree:
    """The most likely continuations of a prefix under the draft."""

    def __init__(self, draft: Any, prefix: list[int], budget: int) -> None:
        self._draft, self._prefix, self._budget = draft, prefix, budget
        self._cache = DynamicCache()
        self._log_p: list[float] = []
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._paths: dict[int, list[int]] = {-1: []}  # node -> cache slots of its ancestors and itself
        self._slots = 0

    @torch.no_grad()
    def grow(self) -> dict[tuple[int, int], int]:
        """Children by (parent, token); the parent of the first tokens is -1."""
        out = self._draft(torch.tensor([self._prefix]), past_key_values=self._cache, use_cache=True)
        frontier = self._add([-1], out.logits[:, -1])
        for depth in range(1, DEPTH):
            frontier = [node for node in frontier if self._log_p[node] >= self._threshold()]
            if not frontier:
                break
            frontier = self._add(frontier, self._logits(frontier, depth))
        best = sorted(range(len(self._tokens)), key=lambda node: -self._log_p[node])[: self._budget]
        return {(self._parents[node], self._tokens[node]): node for node in best}

    def _threshold(self) -> float:
        """Nothing below the budget-th best log-probability can enter the tree any more."""
        if len(self._log_p) < self._budget:
            return float("-inf")
        return sorted(self._log_p, reverse=True)[self._budget - 1]

    def _add(self, parents: list[int], logits: torch.Tensor) -> list[int]:
        """Append the likeliest children of each parent; logits are [parents, V]. Returns the new nodes."""
        values, tokens = torch.log_softmax(logits.float(), -1).topk(min(WIDTH, self._budget), -1)
        first, threshold = len(self._tokens), self._threshold()
        for parent, row, children in zip(parents, values.tolist(), tokens.tolist(), strict=True):
            above = self._log_p[parent] if parent >= 0 else 0.0
            for log_p, token in zip(row, children, strict=True):
                if above + log_p >= threshold:
                    self._log_p.append(above + log_p)
                    self._tokens.append(token)
                    self._parents.append(parent)
        return list(range(first, len(self._tokens)))

    def _logits(self, nodes: list[int], depth: int) -> torch.Tensor:
        """Draft logits [nodes, V] after each node; a node sees the prefix and its own ancestors only."""
        base, count = len(self._prefix), len(nodes)
        mask = torch.full((count, base + self._slots + count), torch.finfo(torch.float32).min)
        mask[:, :base] = 0
        for row, node in enumerate(nodes):
            self._paths[node] = [*self._paths[self._parents[node]], base + self._slots + row]
            mask[row, self._paths[node]] = 0
        out = self._draft(
            torch.tensor([[self._tokens[node] for node in nodes]]),
            attention_mask=mask[None, None],
            position_ids=torch.full((1, count), base + depth - 1),
            past_key_values=self._cache,
            use_cache=True,
        )
        self._slots += count
        logits: torch.Tensor = out.logits[0]
        return logits


def accepted(draft: Any, prefix: list[int], rest: list[int], budget: int) -> int:
    """How many of the target's next tokens the tree contains as one path."""
    children, node = Tree(draft, prefix, budget).grow(), -1
    for count, token in enumerate(rest):
        if (node, token) not in children:
            return count
        node = children[node, token]
    return len(rest)


def tokens_per_pass(draft: Any, answers: list[tuple[list[int], list[int]]], budget: int) -> float:
    """Mean over (prompt, answer) pairs of ids that the target has written; each pass adds one bonus token."""
    passes = tokens = 0
    for prompt, said in answers:
        place = 0
        while place < len(said):
            place += accepted(draft, prompt + said[:place], said[place:], budget) + 1
            passes += 1
        tokens += len(said)
    return round(tokens / passes, 2)
