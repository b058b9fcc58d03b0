"""Verification: which path of a tree is accepted, by the target's own choices or by rejection sampling."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.speculation.trees.tree import Path, Tree

Draw = Callable[[Tensor, Sequence[int]], int]
"""(logits [vocabulary], the answer so far) -> the token that the target says next."""

Choose = Callable[[int, Sequence[int]], int]
"""(node of the tree, the answer up to it) -> the token that the target says next."""


def accept(tree: Tree, logits: Tensor, draw: Draw, answer: Sequence[int]) -> Path:
    """Draw from the target along the tree while the drawn token is a child; the first miss is the bonus token.

    Every token is drawn from the target itself, so the output has exactly the target's distribution, whatever the tree
    (Svirschevski et al. 2024, arXiv 2406.02532, section 4). logits: float32 [nodes, vocabulary]; `answer`: all tokens
    of the answer up to the root.
    """
    return follow(tree, lambda node, said: draw(logits[node], said), answer)


def follow(tree: Tree, choose: Choose, answer: Sequence[int]) -> Path:
    """Go down the tree by the chosen tokens while they are children; the first that is none is the bonus token."""
    said = list(answer)
    nodes = [0]
    while True:
        token = choose(nodes[-1], said)
        child = tree.child(nodes[-1], token)
        if child is None:
            return Path(tuple(nodes), bonus=token)
        nodes.append(child)
        said.append(token)


class Decisions(Protocol):
    """The random decisions of verification; `engine.speculation.methods.rng.Rng` makes them."""

    def happens(self, probability: float) -> bool:
        """True with this probability; always, if it is 1 or more."""

    def pick(self, weights: Tensor) -> int:
        """A token drawn from float [vocabulary]."""


def from_distinct(target: Tensor, draft: Tensor, draft_tokens: Sequence[int], rng: Decisions) -> int:
    """Sequoia's verification (arXiv 2402.12374, algorithm 2), for tokens drawn one by one without replacement.

    target, draft: probabilities [vocabulary]; `draft_tokens`: all different, in their order; once the draft's support
    is exhausted, drawn uniformly from the others. Returns one of them, or a token from what the target has left. A
    token is rejected only where the draft gives it more than is left, and then nothing of it is left.
    """
    residual, proposal = _normalised(target), _normalised(draft)
    untried = torch.ones_like(residual, dtype=torch.bool)
    for token in draft_tokens:
        assert proposal[token] > 0, "a token that cannot have been drawn"
        if rng.happens(float(residual[token] / proposal[token])):
            return token
        residual = _left(residual, proposal)
        untried[token] = False
        proposal = proposal * untried
        proposal = _normalised(proposal if proposal.any() else untried)
    return rng.pick(residual)


def from_independent(target: Tensor, draft: Tensor, draft_tokens: Sequence[int], rng: Decisions) -> int:
    """Multi-round rejection (SpecInfer, Miao et al. 2024, arXiv 2305.09781), for independent draws that may repeat.

    With a single draw this is classic speculative sampling (Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023,
    arXiv 2302.01318). target, draft: probabilities [vocabulary]. Returns as `from_distinct` does.
    """
    residual, proposal = _normalised(target), _normalised(draft)
    for token in draft_tokens:
        assert proposal[token] > 0, "a token that cannot have been drawn"
        if rng.happens(float(residual[token] / proposal[token])):
            return token
        residual = _left(residual, proposal)
    return rng.pick(residual)


def _normalised(weights: Tensor) -> Tensor:
    """In double precision: float32 sums to 1 only within 1e-7, and residuals can be smaller than that."""
    precise = weights.double()
    return precise / precise.sum()


def _left(residual: Tensor, proposal: Tensor) -> Tensor:
    """What a rejection leaves of the target: norm(max(R - D, 0))."""
    rest = (residual - proposal).clamp_min(0)
    total = rest.sum()
    return rest / total if total > 0 else residual  # only rounding rejects where both are the same
