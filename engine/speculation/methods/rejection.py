"""Rejection sampling: whether a drafted child is accepted, and what is left of the target where none is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.accelerator import sent


@dataclass(frozen=True, slots=True, eq=False)
class Left:
    """What a token is still drawn from after some rejections: float64 [vocabulary], both summing to 1.

    `residual` of the target, `proposal` of the draft.
    """

    residual: Tensor
    proposal: Tensor

    def acceptance(self, token: Tensor) -> Tensor:
        """Of the token, int64 [1], to be accepted, float64 [1]; 1 and more always is."""
        return self.residual.index_select(0, token) / self.proposal.index_select(0, token)


Rule = Callable[[Left, Tensor], Left]
"""(what was left, the token that was rejected, int64 [1]) -> what is left now; one of those below."""


class Decisions(Protocol):
    """The random decisions of verification; `engine.speculation.methods.rng.Rng` makes them."""

    def happens(self, probability: float) -> bool:
        """True with this probability; always, if it is 1 or more."""

    def pick(self, weights: Tensor) -> int:
        """A token drawn from float [vocabulary]."""


def without_replacement(left: Left, token: Tensor) -> Left:
    """Sequoia's verification (arXiv 2402.12374, algorithm 2), for tokens drawn one by one, all different.

    A token is rejected only where the draft gives it more than is left, and then nothing of it is left. Published, the
    draft goes on with any token once it has none left; here no such token is drawn.
    """
    proposal = left.proposal.index_fill(0, token, 0.0)
    return Left(_rest(left), proposal.div_(proposal.sum()))


def with_replacement(left: Left, token: Tensor) -> Left:
    """Multi-round rejection (SpecInfer, Miao et al. 2024, arXiv 2305.09781), for independent draws that may repeat.

    With a single draw this is classic speculative sampling (Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023,
    arXiv 2302.01318).
    """
    del token
    return Left(_rest(left), left.proposal)


def verify(target: Tensor, draft: Tensor, draft_tokens: Sequence[int], rng: Decisions, rule: Rule) -> int:
    """The first of the tokens that passes, else one of what the target has left.

    target, draft: probabilities [vocabulary]; `draft_tokens`: in the order in which they were drawn, each of a
    positive probability. Reads from the device for every token: for a host that computes itself.
    """
    left = Left(normalised(target), normalised(draft))
    for token in draft_tokens:
        at = sent([token], target.device)
        if rng.happens(float(left.acceptance(at))):
            return token
        left = rule(left, at)
    return rng.pick(left.residual)


def normalised(weights: Tensor) -> Tensor:
    """In double precision: float32 sums to 1 only within 1e-7, and residuals can be smaller than that."""
    precise = weights.double()
    return precise / precise.sum()


def _rest(left: Left) -> Tensor:
    """What a rejection leaves of the target: norm(max(R - D, 0))."""
    rest = (left.residual - left.proposal).clamp_min_(0)
    total = rest.sum()
    return torch.where(total > 0, rest.div_(total), left.residual)  # only rounding rejects where both are the same
