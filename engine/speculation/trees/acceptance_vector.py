"""The acceptance vector: how likely the target accepts the k-th child of a node that it has accepted."""

import math
from collections.abc import Sequence

from engine.errors import InputError
from engine.protocol.sentences import Amount, say

AcceptanceVector = tuple[float, ...]
"""p[k - 1] is the probability that of a node's children the k-th is the one accepted; at most one is, so the sum is
at most 1."""

MOST_CHILDREN = 64
ROUNDING = 1e-6

PRIOR: AcceptanceVector = tuple(0.6 / rank**2 for rank in range(1, 33))
"""For a pair that was never measured: a power law, as Chen et al. 2024 (arXiv 2402.12374) find for their pairs."""


def checked(acceptance: Sequence[float]) -> AcceptanceVector:
    """The same numbers; raises `InputError` if they cannot be an acceptance vector."""
    hint = say("Give probabilities like 0.6,0.2,0.1: of the first child, the second, and so on.")
    if not acceptance:
        raise InputError(say("The acceptance vector is empty."), hint)
    if len(acceptance) > MOST_CHILDREN:
        words = say("The acceptance vector has {count} numbers.", count=len(acceptance))
        raise InputError(words, say("Give at most {most}.", most=MOST_CHILDREN))
    for number in acceptance:
        if not 0.0 <= number <= 1.0:  # nor is it when it is not a number
            words = say("The acceptance vector holds {number}, which is no probability.", number=Amount(f"{number:g}"))
            raise InputError(words, hint)
    if (total := math.fsum(acceptance)) > 1.0 + ROUNDING:
        raise InputError(
            say(
                "The acceptance vector sums to {number}, but of a node's children at most one is accepted.",
                number=Amount(f"{total:.6g}"),
            ),
            say("Give probabilities that sum to at most 1."),
        )
    return tuple(float(number) for number in acceptance)
