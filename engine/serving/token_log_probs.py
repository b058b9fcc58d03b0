"""The tokens of an answer one by one, with what the target thought of each."""

import math
from array import array
from collections.abc import Iterator, Set
from dataclasses import dataclass

from engine.protocol.messages import Round

LEAST = -9999.0  # what OpenAI writes for the logarithm of almost nothing: JSON knows no infinity

Likely = tuple[str, float]
"""(piece, log-probability)"""


@dataclass(frozen=True, slots=True)
class SaidToken:
    """One token of the answer. `length`: how many characters of the text came with it; `top`: what was likeliest."""

    token: int
    said: Likely
    length: int
    top: tuple[Likely, ...]


def said_tokens(of: Round, unsaid: Set[int] = frozenset()) -> Iterator[SaidToken]:
    """What the round added, without `unsaid` tokens, such as those that end an answer."""
    tokens = array("i", of.tree.tokens)
    ids = [*(tokens[node] for node in of.accepted[1:]), of.bonus]
    pieces = [*(of.tree.pieces[node] for node in of.accepted[1:]), of.bonus_piece]
    top = of.top or ((),) * len(ids)
    for token, piece, log_prob, length, likeliest in zip(
        ids, pieces, array("f", of.log_probs), array("I", of.lengths), top, strict=True
    ):
        if token not in unsaid:
            said = (piece, _bounded(log_prob))
            yield SaidToken(token, said, length, tuple((other, _bounded(its)) for other, its in likeliest))


def _bounded(log_prob: float) -> float:
    return log_prob if math.isfinite(log_prob) and log_prob > LEAST else LEAST
