"""Verification: how the target draws its tokens, and which path of a tree is accepted by them or by rejection sampling.

Tokens are drawn after penalties and filters, with one uniform number per position.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.protocol.options import SamplingOptions
from engine.speculation.trees.tree import Path, Tree

COLD = 1e-6  # below it logits are first made relative to the largest one
COLDEST = 1e-30  # lower temperatures mean the same in float32: only the likeliest tokens are left

Draw = Callable[[Tensor, Sequence[int]], int]
"""(logits [vocabulary], the answer so far) -> the token that the target says next."""

Choose = Callable[[int, Sequence[int]], int]
"""(node of the tree, the answer up to it) -> the token that the target says next."""


class UniformSource(Protocol):
    """Where the sampler finds the uniform number of each output position."""

    def __getitem__(self, position: int, /) -> float:
        """A number in [0, 1)."""


class Uniforms:
    """One uniform number in [0, 1) per output position, a function of the seed alone.

    Whatever method finds the token at a position, it is drawn with the same number: a tree changes the speed of an
    answer, not its text.
    """

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._drawn: list[float] = []

    def __getitem__(self, position: int) -> float:
        while len(self._drawn) <= position:
            self._drawn.extend(torch.rand(256, generator=self._generator, dtype=torch.float64).tolist())
        return self._drawn[position]


class Sampler:
    """Draws the tokens of one answer."""

    def __init__(
        self, options: SamplingOptions, prompt: Sequence[int], uniforms: UniformSource, begun: Sequence[int] = ()
    ) -> None:
        """`begun`: the end of the prompt that belongs to the answer, which goes on from there as if never cut off."""
        self._begun = tuple(begun)
        self._options = options
        self._prompt = sorted(set(prompt))
        self._uniforms = uniforms

    def draw(self, logits: Tensor, answer: Sequence[int]) -> int:
        """The token that follows `answer`, all tokens generated so far, the path down the tree included.

        logits: float32 [vocabulary], raw, as the target gave them after the last of these tokens.
        """
        if self._options.temperature == 0:
            return int(self._penalised(logits, answer).argmax())
        return inverse_cdf(self.distribution(logits, answer), self._uniforms[len(self._begun) + len(answer)])

    def distribution(self, logits: Tensor, answer: Sequence[int]) -> Tensor:
        """What the token that follows `answer` is drawn from: float32 [vocabulary]; a single 1 when greedy."""
        penalised = self._penalised(logits, answer)
        if self._options.temperature == 0:
            return torch.zeros_like(penalised).index_fill_(0, penalised.argmax()[None], 1.0)
        return distribution(penalised, self._options)

    def _penalised(self, logits: Tensor, answer: Sequence[int]) -> Tensor:
        whole = (*self._begun, *answer) if self._begun else answer
        return penalise(logits, self._options, self._prompt, whole)


def penalise(logits: Tensor, options: SamplingOptions, prompt: Sequence[int], answer: Sequence[int]) -> Tensor:
    """Repetition penalty (Keskar et al. 2019) over prompt and answer, then presence penalty over the answer.

    logits: float32 [vocabulary]; returns a new tensor where a penalty applies.
    """
    if options.repetition_penalty != 1.0:
        seen = torch.tensor(sorted({*prompt, *answer}), device=logits.device)
        old = logits[seen]
        factor = options.repetition_penalty
        logits = logits.index_copy(0, seen, torch.where(old < 0, old * factor, old / factor))
    if options.presence_penalty != 0.0 and answer:
        present = torch.tensor(sorted(set(answer)), device=logits.device)
        logits = logits.index_add(0, present, logits.new_full((len(present),), -options.presence_penalty))
    return logits


def distribution(logits: Tensor, options: SamplingOptions) -> Tensor:
    """Probabilities after temperature, top-k, top-p and min-p, in this order, as transformers applies them.

    logits: float32 [..., vocabulary], temperature above 0; returns float32 of the same shape, each row summing to 1.
    """
    scores, temperature = logits, options.temperature
    if temperature < COLD:  # logits / temperature would overflow to infinity, and the softmax to no number
        scores, temperature = scores - scores.amax(-1, keepdim=True), max(temperature, COLDEST)
    scores = scores / temperature
    if 0 < options.top_k < scores.shape[-1]:
        kth_best = scores.topk(options.top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < kth_best, -torch.inf)
    if options.top_p < 1.0:
        scores = _keep_nucleus(scores, options.top_p)
    if options.min_p > 0.0:
        probabilities = scores.softmax(-1)
        floor = options.min_p * probabilities.amax(-1, keepdim=True)
        scores = scores.masked_fill(probabilities < floor, -torch.inf)
    return scores.softmax(-1)


def _keep_nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Mask all but the fewest most probable tokens that together reach `top_p` (Holtzman et al. 2020)."""
    probabilities, order = scores.softmax(-1).sort(dim=-1, descending=True, stable=True)
    mass_before = probabilities.cumsum(-1) - probabilities
    outside = (mass_before >= top_p).scatter(-1, order, mass_before >= top_p)
    return scores.masked_fill(outside, -torch.inf)


def inverse_cdf(probabilities: Tensor, uniform: float) -> int:
    """The token whose interval of the cumulative distribution holds `uniform`; never one of probability 0.

    probabilities: float32 [vocabulary]. Summed in double precision: at 128,000 tokens float32 would lose the tail.
    """
    cumulative = probabilities.double().cumsum(0)
    token = int(torch.searchsorted(cumulative, cumulative[-1:] * uniform, right=True))
    if token == len(probabilities):  # only rounding gets here: the product reached the total
        return int(probabilities.nonzero()[-1])
    return token


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


def said_log_probs(tree: Tree, logits: Tensor, path: Path) -> tuple[float, ...]:
    """The target's own log-probability of every token of the path, the bonus token last.

    logits: float32 [nodes, vocabulary]. Only the rows of the path are looked at, one by one: nothing large is copied.
    """
    said = zip(path.nodes, path.tokens(tree), strict=True)
    return tuple(torch.stack([logits[node, token] - logits[node].logsumexp(-1) for node, token in said]).tolist())
