"""Every random decision of the methods that sample their trees, reproducible from a seed."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.speculation.methods.verification import inverse_cdf, seed_of

ROWS = 8  # drawn from at a time: bounds what double precision takes at large vocabularies
NUMBERS = 256  # random numbers that are made at a time
NOTHING = -1  # in place of a token, behind the last one of a row


class Rng:
    """Two streams of random numbers: what the draft draws, and what the target makes of it.

    Neither is the stream of `verification.Uniforms`, whose numbers belong to positions: a method may follow another
    within an answer, and no number may count twice.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        """`device`: where the draft's distributions are."""
        self._decisions = torch.Generator().manual_seed(seed_of(seed, "verification"))
        self._draws = torch.Generator(device).manual_seed(seed_of(seed, "drafting"))
        self._numbers: list[float] = []  # for the next decisions

    def happens(self, probability: float) -> bool:
        """True with this probability; always, if it is 1 or more."""
        return self._decide() < probability

    def pick(self, weights: Tensor) -> int:
        """A token drawn from float [vocabulary], not all 0."""
        return inverse_cdf(weights, self._decide())

    def upcoming(self, count: int) -> list[float]:
        """The numbers of the next decisions, in [0, 1); `spend` tells how many of them were used."""
        while len(self._numbers) < count:
            self._numbers += torch.rand(NUMBERS, generator=self._decisions, dtype=torch.float64).tolist()
        return self._numbers[:count]

    def spend(self, count: int) -> None:
        """So many decisions were made."""
        del self._numbers[:count]

    def distinct(self, distributions: Tensor, counts: Sequence[int]) -> Tensor:
        """Per row of float [n, vocabulary] up to `counts` tokens, drawn one after the other without replacement.

        Returns int64 [n, most], `NOTHING` where fewer have a positive probability. In an exponential race each token's
        time is exponential with its probability as the rate; the order of arrival is that of drawing without
        replacement (the Gumbel-top-k trick).
        """
        drawn: list[Tensor] = []
        for rows in torch.split(distributions, ROWS):
            weights = rows.double()
            pace = torch.empty_like(weights).exponential_(generator=self._draws)
            pace.clamp_min_(torch.finfo(weights.dtype).tiny)
            drawn.append(likeliest(torch.div(weights, pace, out=pace), counts))
        return torch.cat(drawn)

    def independent(self, distributions: Tensor, counts: Sequence[int]) -> Tensor:
        """Per row of float [n, vocabulary] `counts` tokens, each drawn from the whole row: int64 [n, most].

        `NOTHING` in rows without a positive probability.
        """
        drawn: list[Tensor] = []
        for rows in torch.split(distributions, ROWS):
            cumulative = rows.double().cumsum(-1)
            shape = (len(cumulative), max(counts))
            uniforms = torch.rand(shape, generator=self._draws, dtype=torch.float64, device=cumulative.device)
            # Only rounding can make the product reach the total: the largest number below it leads to a likely token.
            points = (uniforms * cumulative[:, -1:]).minimum(cumulative[:, -1:] * (1 - 1e-15))
            found = torch.searchsorted(cumulative, points, right=True)
            drawn.append(found.masked_fill_(cumulative[:, -1:] <= 0, NOTHING))
        return torch.cat(drawn)

    def _decide(self) -> float:
        [number] = self.upcoming(1)
        self.spend(1)
        return number


def likeliest(distributions: Tensor, counts: Sequence[int]) -> Tensor:
    """Per row of float [n, vocabulary] up to `counts` most probable tokens; `NOTHING` for those without a probability.

    int64 [n, most]; on the device, as everything drawn here: the host cuts each row to its count when it reads them.
    """
    top = distributions.topk(min(max(counts), distributions.shape[-1]))
    return top.indices.masked_fill_(top.values <= 0, NOTHING)
