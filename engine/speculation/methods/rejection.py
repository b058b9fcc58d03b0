"""Rejection sampling: from tokens that a draft drew, one that is distributed exactly as the target's would be."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Decisions(Protocol):
    """Chance, as far as verification needs it; `engine.speculation.methods.chance.Chance` is one."""

    def happens(self, probability: float) -> bool:
        """True with this probability; always, if it is 1 or more."""

    def pick(self, weights: Tensor) -> int:
        """A token drawn from float [vocabulary]."""


def from_distinct(target: Tensor, draft: Tensor, drawn: Sequence[int], chance: Decisions) -> int:
    """Sequoia's verification (arXiv 2402.12374, algorithm 2), for tokens drawn one by one without replacement.

    target, draft: probabilities [vocabulary]; `drawn`: all different, in their order; once the draft's support is
    exhausted, drawn uniformly from the others. Returns one of them, or a token from what the target has left. A token
    is rejected only where the draft gives it more than is left, and then nothing of it is left.
    """
    residual, proposal = _normalised(target), _normalised(draft)
    untried = torch.ones_like(residual, dtype=torch.bool)
    for token in drawn:
        assert proposal[token] > 0, "a token that cannot have been drawn"
        if chance.happens(float(residual[token] / proposal[token])):
            return token
        residual = _left(residual, proposal)
        untried[token] = False
        proposal = proposal * untried
        proposal = _normalised(proposal if proposal.any() else untried)
    return chance.pick(residual)


def from_independent(target: Tensor, draft: Tensor, drawn: Sequence[int], chance: Decisions) -> int:
    """Multi-round rejection (SpecInfer, Miao et al. 2024, arXiv 2305.09781), for independent draws that may repeat.

    With a single draw this is classic speculative sampling (Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023,
    arXiv 2302.01318). target, draft: probabilities [vocabulary]. Returns as `from_distinct` does.
    """
    residual, proposal = _normalised(target), _normalised(draft)
    for token in drawn:
        assert proposal[token] > 0, "a token that cannot have been drawn"
        if chance.happens(float(residual[token] / proposal[token])):
            return token
        residual = _left(residual, proposal)
    return chance.pick(residual)


def _normalised(weights: Tensor) -> Tensor:
    """In double precision: float32 sums to 1 only within 1e-7, and residuals can be smaller than that."""
    precise = weights.double()
    return precise / precise.sum()


def _left(residual: Tensor, proposal: Tensor) -> Tensor:
    """What a rejection leaves of the target: norm(max(R - D, 0))."""
    rest = (residual - proposal).clamp_min(0)
    total = rest.sum()
    return rest / total if total > 0 else residual  # only rounding rejects where both are the same
