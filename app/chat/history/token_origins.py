"""Which round a character of an answer came from, which of the models wrote it, and which round is marked."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.chat.history.message import Message
from engine.protocol.messages import Round

NOTHING = (-1, -1)


@dataclass(frozen=True, slots=True)
class TokenOrigin:
    """A round's request and number, and whether the target added the token itself, or accepted the draft's."""

    request: int
    round: int
    is_bonus: bool


class TokenOrigins:
    """Four numbers a round: where its text ends, where the bonus token begins in it, the request, the round's number.

    Text can lag behind the tokens (half a character, a held back stop string). Rounds say what each token wrote; in
    those of older versions the pieces tell where the text will be.
    """

    def __init__(self, begin: int = 0) -> None:
        """`begin`: characters that were there before the first round."""
        self._begin = begin
        self._ends = array("L")
        self._bonuses = array("L")
        self._rounds = array("L")
        self._requests = array("l")  # below 0 for those of other days
        self._shown = begin

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def end(self) -> int:
        """Where the text of the newest round ends."""
        return self._ends[-1] if self._ends else self._begin

    @property
    def bonus(self) -> int:
        """Where the bonus token of the newest round begins."""
        return self._bonuses[-1] if self._bonuses else self._begin

    def copy(self) -> "TokenOrigins":
        """One that grows on its own."""
        other = TokenOrigins(self._begin)
        other._requests, other._rounds = self._requests[:], self._rounds[:]
        other._bonuses, other._ends = self._bonuses[:], self._ends[:]
        other._shown = self.end
        return other

    def extend(self, request: int, number: int, bonus: int, end: int) -> None:
        """Take a round of which it is known what it gave; damaged numbers are brought into order."""
        begin = self.end
        self._shown = max(begin, end)
        self._ends.append(self._shown)
        self._bonuses.append(min(max(begin, bonus), self._shown))
        self._rounds.append(number)
        self._requests.append(request)

    def stretch(self, request: int, number: int) -> tuple[int, int] | None:
        """The characters that a round gave, from and to; None if it is none of these."""
        for index in range(len(self._ends) - 1, -1, -1):
            if (self._requests[index], self._rounds[index]) == (request, number):
                return (self._ends[index - 1] if index else self._begin), self._ends[index]
        return None

    def add(self, event: Round) -> None:
        """Take a round, in the order they come."""
        begin = self.end
        self._shown += len(event.text)
        lengths = array("I", event.lengths)
        end, bonus = begin + sum(lengths), lengths[-1] if lengths else 0
        if not lengths:
            end, bonus = self._guessed(event, begin), len(event.bonus_piece)
        self._ends.append(end)
        self._bonuses.append(max(begin, end - bonus))
        self._rounds.append(event.index)
        self._requests.append(event.id)

    def _guessed(self, event: Round, begin: int) -> int:
        """Where a round's text ends that does not say itself what each token wrote."""
        if event.text and event.text.endswith(event.bonus_piece):
            return max(begin, self._shown)  # nothing is held back: what counting pieces got wrong is right again
        drafted = sum(len(event.tree.pieces[node]) for node in event.accepted[1:])
        return begin + drafted + len(event.bonus_piece)

    def at(self, place: int) -> TokenOrigin | None:
        """Where the character at this place of the answer comes from; None behind the end."""
        index = bisect_right(self._ends, place)
        if place < self._begin or index >= len(self._ends):
            return None
        return TokenOrigin(self._requests[index], self._rounds[index], place >= self._bonuses[index])

    def between(self, begin: int, end: int) -> Iterable[tuple[int, int, bool]]:
        """The stretches of one kind that cover these characters: begin, end, whether the target added them."""
        begin = max(begin, self._begin)
        index = bisect_right(self._ends, begin)
        while begin < end and index < len(self._ends):
            for stop, is_bonus in ((self._bonuses[index], False), (self._ends[index], True)):
                if begin < min(stop, end):
                    yield begin, min(stop, end), is_bonus
                    begin = min(stop, end)
            index += 1


class MarkedAnswer(Protocol):
    """A view of an answer that shows where its text comes from."""

    @property
    def message(self) -> Message:
        """The answer."""

    def set_origins(self, origins: TokenOrigins) -> None:
        """Know where the text comes from."""

    def mark(self, stretch: tuple[int, int] | None) -> None:
        """Mark these characters of what the model wrote; None for none."""


class RoundMarks:
    """The origins of all answers of a conversation, and the marked round: views come and go as a person scrolls."""

    def __init__(self) -> None:
        self._origins: dict[int, TokenOrigins] = {}
        self._marked = NOTHING

    def clear(self) -> None:
        """Another conversation is shown."""
        self._origins.clear()
        self._marked = NOTHING

    def take(self, view: MarkedAnswer, rounds: Sequence[Round], length: int) -> None:
        """Rounds have come for an answer that had so many characters before them."""
        message = view.message.id
        is_new = message not in self._origins
        origins = self._origins.setdefault(message, TokenOrigins(length))
        for each in rounds:
            origins.add(each)
        if is_new:
            view.set_origins(origins)

    def restore(self, found: Mapping[int, TokenOrigins], views: Sequence[MarkedAnswer]) -> None:
        """What was kept of the rounds before; answers that have grown since know better."""
        self._origins = {**found, **self._origins}
        for view in views:
            self.attach(view)

    def attach(self, view: MarkedAnswer) -> None:
        """Tell an answer where its text comes from, and what of it is marked."""
        origins = self._origins.get(view.message.id)
        if origins is not None:
            view.set_origins(origins)
            view.mark(origins.stretch(*self._marked))

    def mark(self, request: int, number: int, views: Sequence[MarkedAnswer]) -> None:
        """Mark what a round gave, and nothing else; `NOTHING` for no round."""
        self._marked = (request, number)
        for view in views:
            origins = self._origins.get(view.message.id)
            view.mark(origins.stretch(request, number) if origins is not None else None)

    def message_of(self, request: int, number: int) -> int | None:
        """The answer that a round wrote on."""
        return next((each for each, origins in self._origins.items() if origins.stretch(request, number)), None)

    def beginning_of(self, request: int, number: int) -> tuple[int, int] | None:
        """The answer that a round wrote on, and where in it; None if it is not known."""
        message = self.message_of(request, number)
        stretch = self._origins[message].stretch(request, number) if message is not None else None
        return (message, stretch[0]) if message is not None and stretch else None
