"""When each token of an answer was there, and which characters it wrote: read from its rounds, live or kept."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.protocol.messages import Round


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """The tokens of an answer in turn.

    `ends`: the character of the text behind each one; `passes`: tokens that were there behind each pass; `seconds`: of
    decoding, when each pass was through, from the first on. `is_measured` False: nobody told, and they are spread
    evenly. `begin`: the character that the first token begins with; `given`: so many of the tokens were there before
    the first pass.
    """

    begin: int = 0
    ends: tuple[int, ...] = ()
    passes: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()
    is_measured: bool = True
    given: int = 0

    @property
    def count(self) -> int:
        """How many tokens there are."""
        return len(self.ends)

    @property
    def duration(self) -> float:
        """Seconds until the last token was there."""
        return self.seconds[-1] if self.seconds else 0.0

    def token_at(self, character: int) -> int:
        """The number of the token that wrote this character, from 0; the last one behind the end."""
        return min(bisect_right(self.ends, character), max(0, self.count - 1))

    def span(self, token: int) -> tuple[int, int]:
        """The characters of a token, from and to; behind the last one, the end twice."""
        if token >= self.count:
            end = self.ends[-1] if self.ends else self.begin
            return end, end
        return (self.ends[token - 1] if token else self.begin), self.ends[token]

    def passes_by(self, seconds: float) -> int:
        """How many passes were through at this time."""
        return bisect_right(self.seconds, seconds)

    def tokens_by(self, seconds: float) -> int:
        """How many tokens were there at this time."""
        done = self.passes_by(seconds)
        return self.passes[done - 1] if done else self.given

    def seconds_of(self, token: int) -> float:
        """When this token was there; the end for those behind the last."""
        if token < self.given:
            return 0.0
        number = bisect_left(self.passes, token + 1)
        return self.seconds[number] if number < len(self.seconds) else self.duration

    def behind(self, length: int) -> "TokenTimes":
        """The same tokens behind a text of so many characters."""
        return replace(self, begin=self.begin + length, ends=tuple(end + length for end in self.ends))

    def with_given(self, begin: int, ends: tuple[int, ...]) -> "TokenTimes":
        """The same behind tokens that were there before: where the first one begins, and where each of them ends."""
        passes = tuple(len(ends) + tokens for tokens in self.passes)
        given = len(ends) + self.given
        return replace(self, begin=begin, ends=(*ends, *self.ends), passes=passes, given=given)


class TokenClock:
    """Collects the rounds of one answer."""

    def __init__(self, begin: int = 0) -> None:
        """`begin`: characters that were there before the first round."""
        self._begin = begin
        self._ends = array("L")
        self._passes = array("L")
        self._seconds = array("d")

    def add(self, event: Round, begin: int | None = None, end: int | None = None) -> None:
        """Take a round, in the order they come; `begin` and `end`: its characters, where the text is kept apart."""
        here = max(self._end, begin or 0)
        for length in lengths_of(event):
            here += length
            self._ends.append(here if end is None else min(here, max(end, self._end)))
        self._passes.append(len(self._ends))
        self._seconds.append((self._seconds[-1] if self._seconds else 0.0) + max(0.0, event.seconds.decode))

    @property
    def _end(self) -> int:
        return self._ends[-1] if self._ends else self._begin

    def times(self, length: int) -> TokenTimes:
        """All of it, of a text of so many characters: what was held back at last is the last token's."""
        ends = [min(each, length) for each in self._ends]
        if ends:
            ends[-1] = length
        return TokenTimes(self._begin, tuple(ends), tuple(self._passes), tuple(self._seconds))


def lengths_of(event: Round) -> Sequence[int]:
    """How many characters each new token of a round wrote; recordings of older versions have only the pieces."""
    if event.lengths:
        return array("I", event.lengths)
    pieces = [event.tree.pieces[node] for node in event.accepted[1:] if node < len(event.tree.pieces)]
    told = [len(each) for each in (*pieces, event.bonus_piece)][: event.new_tokens]
    return told + [0] * (event.new_tokens - len(told))


def spread_evenly(length: int, tokens: int, passes: int, seconds: float) -> TokenTimes:
    """So many tokens over a text of so many characters and over this time, for answers that kept no rounds."""
    count = max(0, min(tokens, length))
    if not count:
        return TokenTimes(0, is_measured=False)
    through = min(max(1, passes), count)
    return TokenTimes(
        0,
        tuple(length * (each + 1) // count for each in range(count)),
        tuple(count * (each + 1) // through for each in range(through)),
        tuple(seconds * ((each + 1) / through) for each in range(through)),
        is_measured=False,
    )
