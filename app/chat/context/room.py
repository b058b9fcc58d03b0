"""Which turns of a conversation still have room in the context."""

from collections.abc import Sequence
from itertools import accumulate

_SHARE_OF_ANSWER = 4  # at most this part of the context is kept free for an answer


def room_for_answer(max_new_tokens: int, context_tokens: int) -> int:
    """How many tokens are kept free for an answer that may have up to `max_new_tokens`."""
    return min(max_new_tokens, context_tokens // _SHARE_OF_ANSWER)


def first_turn_that_fits(prompt: int, turns: Sequence[int], context_tokens: int, room: int, now: int) -> int:
    """The turn to read from on, so that the prompt leaves `room` in the context; the last turn is always read.

    `prompt` has the tokens of all turns, `turns` those of each turn's text alone: what a template writes around a turn
    goes with it, so the estimate is on the safe side. `now` is where reading begins so far. It stays there as long as
    that will do, and moves a good step when it must: what is cached of a conversation is lost with its beginning.
    """
    spare = context_tokens - room
    left = [prompt - dropped for dropped in accumulate(turns[:-1], initial=0)]
    if prompt <= spare or not turns:
        return 0
    now = min(now, len(left) - 1)
    if left[now] <= spare:
        return now
    enough = spare * 3 // 4
    return next((turn for turn in range(now + 1, len(left)) if left[turn] <= enough), len(left) - 1)
