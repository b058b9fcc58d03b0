"""What the engine's events make of an answer: its text, how it ended, its figures, and what it thought before."""

from collections.abc import Sequence
from dataclasses import replace

from app.chat.history.chances import Chances, with_round
from app.chat.history.conversation import Ending, Message
from app.chat.history.reasoning import LONGEST_MARK, split
from app.chat.history.sums import added
from engine.protocol.messages import Event, Finished, Prefilled, Round, Statistics

_ENDINGS = {"stop": Ending.COMPLETE, "length": Ending.LENGTH, "cancelled": Ending.STOPPED}


def grown(answer: Message, events: Sequence[Event], before: Statistics | None) -> Message:
    """The answer after these events; until it has finished the figures are a running count.

    `before` are the figures of the answer that is continued.
    """
    for event in events:
        match event:
            case Prefilled() if before is None:
                count = answer.statistics or Statistics()
                answer = replace(answer, statistics=replace(count, prompt_tokens=event.prompt_tokens))
            case Round():
                answer = _after_round(answer, event)
            case Finished():
                statistics = added(before, event.statistics)
                text = answer.text + event.text
                answer = replace(answer, text=text, ending=_ENDINGS[event.reason], statistics=statistics)
    return answer


def _after_round(answer: Message, event: Round) -> Message:
    count = answer.statistics or Statistics()
    count = replace(
        count,
        new_tokens=count.new_tokens + event.new_tokens,
        passes=count.passes + 1,
        seconds=replace(count.seconds, decode=count.seconds.decode + event.seconds.decode),
    )
    text = answer.text + event.text
    chances = (answer.chances or Chances()).fit(len(answer.text)) if event.index == 0 else answer.chances or Chances()
    return replace(
        answer,
        text=text,
        statistics=count,
        thought_seconds=answer.thought_seconds + _thinking_seconds(answer, text, event),
        chances=with_round(chances, event),
    )


def _thinking_seconds(answer: Message, text: str, event: Round) -> float:
    """How much of a round's time was thinking: all of it up to the round with which the answer begins."""
    if not answer.thought_seconds and len(answer.text) > LONGEST_MARK:
        return 0.0  # who thinks begins with it
    if split(answer.text).answer.strip():
        return 0.0
    parts = split(text)
    return event.seconds.decode if parts.thought or parts.is_thinking else 0.0
