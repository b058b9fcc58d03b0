"""Every random decision of the methods that sample their trees, reproducible from a seed."""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.speculation.methods.verification import inverse_cdf

ROWS = 32  # drawn from at a time: bounds what double precision takes at large vocabularies


class Rng:
    """Two streams of random numbers: what the draft draws, and what the target makes of it.

    Neither is the stream of `sampling.Uniforms`, whose numbers belong to positions: a method may follow another within
    an answer, and no number may count twice.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        """`device`: where the draft's distributions are."""
        self._decisions = torch.Generator().manual_seed(_derived(seed, "verification"))
        self._draws = torch.Generator(device).manual_seed(_derived(seed, "drafting"))

    def happens(self, probability: float) -> bool:
        """True with this probability; always, if it is 1 or more."""
        return float(torch.rand((), generator=self._decisions, dtype=torch.float64)) < probability

    def pick(self, weights: Tensor) -> int:
        """A token drawn from float [vocabulary], not all 0."""
        return inverse_cdf(weights, float(torch.rand((), generator=self._decisions, dtype=torch.float64)))

    def distinct(self, distributions: Tensor, counts: Sequence[int]) -> list[list[int]]:
        """Per row of float [n, vocabulary] up to `counts` tokens, drawn one after the other without replacement.

        Fewer where fewer have a positive probability. In an exponential race each token's time is exponential with its
        probability as the rate; the order of arrival is that of drawing without replacement (the Gumbel-top-k trick).
        """
        drawn: list[list[int]] = []
        for begin in range(0, len(counts), ROWS):
            rows, wanted = distributions[begin : begin + ROWS].double(), counts[begin : begin + ROWS]
            pace = torch.empty_like(rows).exponential_(generator=self._draws).clamp_min(torch.finfo(rows.dtype).tiny)
            drawn.extend(_largest(rows / pace, wanted))
        return drawn

    def independent(self, distributions: Tensor, counts: Sequence[int]) -> list[list[int]]:
        """Per row of float [n, vocabulary] `counts` tokens, each drawn from the whole row."""
        drawn: list[list[int]] = []
        for begin in range(0, len(counts), ROWS):
            cumulative = distributions[begin : begin + ROWS].double().cumsum(-1)
            shape = (len(cumulative), max(counts))
            uniforms = torch.rand(shape, generator=self._draws, dtype=torch.float64, device=cumulative.device)
            # Only rounding can make the product reach the total: the largest number below it leads to a likely token.
            points = (uniforms * cumulative[:, -1:]).minimum(cumulative[:, -1:] * (1 - 1e-15))
            found = torch.searchsorted(cumulative, points, right=True).tolist()
            drawn.extend(row[:count] for row, count in zip(found, counts[begin : begin + ROWS], strict=True))
        return drawn


def likeliest(distributions: Tensor, counts: Sequence[int]) -> list[list[int]]:
    """Per row of float [n, vocabulary] up to `counts` most probable tokens, fewer where fewer have a probability."""
    return _largest(distributions, counts)


def _largest(weights: Tensor, counts: Sequence[int]) -> list[list[int]]:
    top = weights.topk(min(max(counts), weights.shape[-1]))
    known = (top.values > 0).sum(-1).tolist()
    rows: list[list[int]] = top.indices.tolist()
    return [row[: min(count, positive)] for row, count, positive in zip(rows, counts, known, strict=True)]


def _derived(seed: int, purpose: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{purpose} {seed}".encode(), digest_size=7).digest())
