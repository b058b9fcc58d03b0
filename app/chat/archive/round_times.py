"""When the tokens of a kept answer were there: read from its rounds, in the thread that reads them."""

from collections.abc import Sequence

from app.chat.history.records import RoundPlace
from app.engine.round_packing import DamagedRoundError, unpack
from app.engine.token_times import TokenClock, TokenTimes


def times_of(rounds: Sequence[tuple[RoundPlace, bytes | None]], length: int) -> TokenTimes | None:
    """Of an answer of so many characters; None where some of its rounds are missing.

    `rounds`: all that are kept of it, oldest first, packed; None for one that cannot be read.
    """
    if not rounds:
        return None
    begin = rounds[0][0].begin
    clock, end, number = TokenClock(begin), begin, 0
    for place, packed in rounds:
        is_next = place.number in (number, 0) and place.begin <= end  # numbers begin anew where it was continued
        if packed is None or not is_next:
            return None
        try:
            clock.add(unpack(packed, 0), place.begin, place.end)
        except DamagedRoundError:
            return None
        end, number = max(end, place.end), place.number + 1
    return clock.times(length)
