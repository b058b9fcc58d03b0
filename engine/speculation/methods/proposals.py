"""What a draft drew from behind some nodes: all of it that verification needs, in as little memory as holds it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from engine.accelerator import sent

SPARSE = 1 / 16  # of a vocabulary: rows with fewer tokens are kept as these


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """Distributions [n, vocabulary], exactly as drawn from.

    `values`: float32 [n, vocabulary], or [n, most] with `tokens` int64 [n, most] where filters leave few tokens; behind
    the last one of such a row stand zeros, of token 0.
    """

    vocabulary: int
    values: Tensor
    tokens: Tensor | None = None

    def row(self, place: int | Tensor) -> Tensor:
        """One of them, float32 [vocabulary]; place: a number, or int64 [1] that the host has not seen."""
        values, tokens = self._at(self.values, place), self.tokens
        if tokens is None:
            return values
        return values.new_zeros(self.vocabulary).index_add_(0, self._at(tokens, place), values)

    @staticmethod
    def _at(rows: Tensor, place: int | Tensor) -> Tensor:
        return rows[place] if isinstance(place, int) else rows.index_select(0, place)[0]


def kept(distributions: Tensor, supports: Sequence[int]) -> Proposals:
    """float32 [n, vocabulary], of whose rows so many tokens have a probability; a copy of these if that is smaller."""
    count, vocabulary = distributions.shape
    most = max(supports)
    if most > vocabulary * SPARSE:
        return Proposals(vocabulary, distributions)
    rows, tokens = torch.nonzero_static(distributions, size=sum(supports)).unbind(1)
    begins = sent([*accumulate(supports, initial=0)][:-1], rows.device)
    columns = torch.arange(len(rows), device=rows.device) - begins[rows]
    values = distributions.new_zeros(count, most).index_put_((rows, columns), distributions[rows, tokens])
    return Proposals(vocabulary, values, tokens.new_zeros(count, most).index_put_((rows, columns), tokens))
