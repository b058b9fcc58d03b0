"""Rejection sampling down a whole tree on the device: the host waits for it once, at the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.accelerator import sent
from engine.speculation.interfaces import Drawing
from engine.speculation.methods.proposals import Proposals
from engine.speculation.methods.rejection import Left, Rule, normalised
from engine.speculation.methods.rng import NOTHING
from engine.speculation.methods.verification import TreeOnDevice, along, cdf_token
from engine.speculation.trees.tree import Path, Tree


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """What one draft pass drew behind `nodes`, all of one level: the tokens by node, in their order, and from what."""

    nodes: tuple[int, ...]
    tokens: tuple[tuple[int, ...], ...]
    proposals: Proposals

    @property
    def most(self) -> int:
        """Tokens behind the node with most of them."""
        return max(map(len, self.tokens))


class Numbers(Protocol):
    """The random numbers of decisions that are made elsewhere; `engine.speculation.methods.rng.Rng` has them."""

    def upcoming(self, count: int) -> list[float]:
        """Those of the next decisions, in [0, 1)."""

    def spend(self, count: int) -> None:
        """So many of them were used."""


def accept_on_device(
    tree: Tree, logits: Tensor, ahead: Drawing, draws: Sequence[Draws], rule: Rule, numbers: Numbers
) -> Path:
    """The path that `rejection.verify` would find node by node, with the same random numbers.

    logits: [nodes, vocabulary]; `ahead` tells the target's distributions; `draws`: of every pass for the tree.
    """
    levels, device = max(tree.depths) + 1, logits.device
    by_level: list[list[Draws]] = [[] for _ in range(levels)]
    for some in draws:
        by_level[tree.depths[some.nodes[0]]].append(some)
    decisions = _Decisions(numbers.upcoming(levels + sum(some.most for some in draws)), device)
    on_device = TreeOnDevice(tree, device)
    tokens: list[Tensor] = []
    used: list[Tensor] = []
    for level in range(levels):
        residual = normalised(ahead.distribution(on_device.row(logits), tokens))
        tokens.append(_verify(residual, by_level[level], on_device.node, rule, decisions))
        used.append(decisions.used)
        on_device.go_on(tokens[-1])
    read = torch.cat(tokens + used).tolist()
    path = along(tree, read[:levels])
    numbers.spend(read[levels + len(path.nodes) - 1])
    return path


class _Decisions:
    """Takes one number after the other on the device, if a decision is made at all."""

    def __init__(self, numbers: Sequence[float], device: torch.device) -> None:
        self._numbers = sent(numbers, device, torch.float64)
        self.used = sent([0], device)

    def take(self, is_made: Tensor) -> Tensor:
        """The next number, float64 [1]; only where `is_made`, bool [1], it is used up."""
        number = self._numbers.index_select(0, self.used)
        self.used = self.used + is_made
        return number


def _verify(residual: Tensor, draws: Sequence[Draws], node: Tensor, rule: Rule, decisions: _Decisions) -> Tensor:
    """The token behind the node, int64 [1]: every child of every node there might be is tried, most of them in vain."""
    chosen = torch.full_like(node, NOTHING)
    for some in draws:
        is_here = sent(some.nodes, node.device) == node
        place, is_inside = is_here.int().argmax(0, keepdim=True), is_here.any(0, keepdim=True)
        tokens = _padded(some, node.device).index_select(0, place)[0]
        left = Left(residual, normalised(some.proposals.row(place)))
        for rank in range(some.most):
            token = tokens[rank : rank + 1]
            is_tried = is_inside & (chosen == NOTHING) & (token != NOTHING)
            at = token.clamp(min=0)
            is_taken = is_tried & (decisions.take(is_tried) < left.acceptance(at))
            is_lost = is_tried & ~is_taken
            chosen = torch.where(is_taken, token, chosen)
            after = rule(left, at)
            left = Left(
                torch.where(is_lost, after.residual, left.residual),
                torch.where(is_lost, after.proposal, left.proposal),
            )
        residual = left.residual
    is_missing = chosen == NOTHING
    return torch.where(is_missing, cdf_token(residual, decisions.take(is_missing)), chosen)


def _padded(draws: Draws, device: torch.device) -> Tensor:
    """int64 [nodes, most]: the tokens by node, `NOTHING` behind the last one."""
    most = draws.most
    listed = [token for tokens in draws.tokens for token in (*tokens, *[NOTHING] * (most - len(tokens)))]
    return sent(listed, device).view(len(draws.tokens), most)
