"""The target's probability of every piece of an answer, packed into two bytes a piece."""

import base64
import binascii
import math
import zlib
from array import array
from dataclasses import dataclass, replace
from typing import Any

from engine.protocol.messages import Round

_STEPS = 16  # a level is a sixteenth of a halving: 4 percent of the probability
_LONGEST = 255  # characters of a piece; a longer token becomes several
UNKNOWN = 255
_LARGEST = 8 << 20  # bytes that a kept one may unfold to


@dataclass(frozen=True, slots=True)
class TokenProbabilities:
    """Pieces of an answer in turn, from its character `begin` on: `lengths` in characters, and `levels`.

    A level n stands for the probability 2^(-n / 16), 255 for one that is not known.
    """

    begin: int = 0
    lengths: bytes = b""
    levels: bytes = b""

    @property
    def end(self) -> int:
        """The character behind the last piece."""
        return self.begin + sum(self.lengths)

    def put(self, length: int, level: int) -> "TokenProbabilities":
        """With one more piece; one without text leaves no trace."""
        whole, rest = divmod(length, _LONGEST)
        lengths = bytes([_LONGEST] * whole + ([rest] if rest else []))
        return replace(self, lengths=self.lengths + lengths, levels=self.levels + bytes([level] * len(lengths)))

    def fit(self, length: int) -> "TokenProbabilities":
        """So that it ends where the text does that is `length` characters long: more of it came from elsewhere."""
        if not self.lengths:
            return TokenProbabilities(length)
        missing = length - self.end
        if missing >= 0:
            return self.put(missing, UNKNOWN)
        kept = self.lengths[:-1]
        shorter = TokenProbabilities(self.begin, kept, self.levels[: len(kept)])
        return shorter.put(length - shorter.end, self.levels[-1]) if shorter.end <= length else shorter.fit(length)


def with_round(probabilities: TokenProbabilities, event: Round) -> TokenProbabilities:
    """With the tokens of one more round; one of an older engine says nothing of them."""
    lengths, log_probs = array("I", event.lengths), array("f", event.log_probs)
    if len(lengths) != len(log_probs) or sum(lengths) != len(event.text):
        return probabilities.put(len(event.text), UNKNOWN)
    new = TokenProbabilities()
    for length, log_prob in zip(lengths, log_probs, strict=True):
        new = new.put(length, level_of(log_prob))
    return replace(probabilities, lengths=probabilities.lengths + new.lengths, levels=probabilities.levels + new.levels)


def level_of(log_prob: float) -> int:
    """The level of a natural logarithm of a probability."""
    if math.isnan(log_prob):
        return UNKNOWN
    return min(max(0, round(min(-log_prob / math.log(2), UNKNOWN) * _STEPS)), UNKNOWN - 1)


def probability_of(level: int) -> float | None:
    """What a level stands for; None where nothing is known."""
    return None if level == UNKNOWN else 2.0 ** (-level / _STEPS)


def probability_details(probabilities: TokenProbabilities) -> dict[str, Any]:
    """What is kept with a message, as JSON can hold it."""
    packed = base64.b64encode(zlib.compress(probabilities.lengths + probabilities.levels)).decode()
    return {"begin": probabilities.begin, "pieces": packed}


def probabilities_of_details(kept: Any, largest: int = _LARGEST) -> TokenProbabilities | None:
    """What was kept, None where there is nothing of use, or more than `largest` bytes."""
    try:
        reader = zlib.decompressobj()
        pieces = reader.decompress(base64.b64decode(kept["pieces"], validate=True), largest)
        begin = kept["begin"]
    except (TypeError, KeyError, ValueError, binascii.Error, zlib.error):
        return None
    half, odd = divmod(len(pieces), 2)
    if odd or type(begin) is not int or begin < 0 or not pieces or not reader.eof:
        return None
    return TokenProbabilities(begin, pieces[:half], pieces[half:])
