"""Applies the engine's events to an answer: its text, ending, figures, thinking time and probabilities."""

from collections.abc import Sequence
from dataclasses import fields, replace

from app.chat.history.calls import CallState, last_step, placed
from app.chat.history.message import AnswerEnding, Message
from app.chat.history.reasoning import LONGEST_MARK, split
from app.chat.history.token_probabilities import TokenProbabilities, with_round
from app.engine.steps import MOST, plausible
from app.i18n.number_text import share_text
from app.i18n.translation import tr
from app.i18n.units import time_text
from engine.protocol.messages import (
    Calling,
    Event,
    Failed,
    Finished,
    Prefilled,
    Queued,
    Reading,
    Round,
    Seconds,
    Statistics,
    Wrote,
)

_ENDINGS = {"stop": AnswerEnding.COMPLETE, "length": AnswerEnding.LENGTH, "cancelled": AnswerEnding.STOPPED}


def grown(answer: Message, events: Sequence[Event], before: Statistics | None) -> Message:
    """The answer after these events; until it has finished the figures are a running count.

    One that calls tools has not ended. `before` are the figures of the answer that is continued.
    """
    for event in events:
        ahead = event.ahead if isinstance(event, Queued) else 0
        answer = answer if answer.ahead == ahead else replace(answer, ahead=ahead)
        if answer.reading is not None and isinstance(event, Prefilled | Round | Wrote | Finished | Failed):
            answer = replace(answer, reading=None)
        match event:
            case Reading():
                answer = replace(answer, reading=event)
            case Prefilled() if before is None:
                count = answer.statistics or Statistics()
                answer = replace(answer, statistics=replace(count, prompt_tokens=event.prompt_tokens))
            case Calling():
                begin = last_step(answer.calls) + event.begin
                answer = replace(answer, opening=(begin, event.name) if event.begin >= 0 else None)
            case Round():
                answer = _after_round(answer, event)
            case Wrote():
                answer = _after_words(answer, event)
            case Finished():
                answer = replace(_after_end(answer, event, before), opening=None)
            case Failed():
                answer = replace(answer, opening=None)
    return answer


def waiting_words(answer: Message) -> str:
    """What it waits for: a person's word on a tool, the tool, or requests of others; empty when its turn has come."""
    if answer.ending is not AnswerEnding.OPEN:
        return ""
    waiting = {each.state: each for each in reversed(answer.calls)}  # the first one of each
    if call := waiting.get(CallState.RUNNING):
        return tr("Waiting for the tool {tool}").format(tool=call.title)
    if call := waiting.get(CallState.WAITING):
        return tr("Waiting for your decision on the tool {tool}").format(tool=call.title)
    if not answer.ahead:
        return ""
    return tr("Waiting: %n requests before this one", n=min(answer.ahead, MOST))


def reading_words(answer: Message) -> str:
    """That the question is read, and how much of a long one was; empty where the answer has begun, or waits."""
    told = answer.statistics
    has_begun = bool(told and (told.passes or told.new_tokens)) or len(answer.text) > len(answer.beginning)
    if answer.ending is not AnswerEnding.OPEN or answer.ahead:
        return ""
    if answer.calls and len(answer.text) == last_step(answer.calls):
        part = answer.reading.part if answer.reading else 0.0
        return tr("Reading the results: {share}").format(share=share_text(part)) if part else tr("Reading the results")
    return "" if has_begun else words_of_reading(answer.reading)


def words_of_reading(reading: Reading | None) -> str:
    """The same of what was told last of the question; None: nothing."""
    if reading is None:
        return tr("Reading the question")
    if reading.picture:
        if reading.pictures == 1:
            return tr("Looking at the picture")
        told = tr("Looking at picture {number} of {count}")
        return told.format(number=reading.picture, count=reading.pictures)
    part = min(max(reading.part, 0.0), 1.0)
    share = share_text(part)
    if not part:
        return tr("Reading the question: {share}").format(share=share)
    left = time_text(reading.seconds / part * (1.0 - part))
    return tr("Reading the question: {share}, {time} left").format(share=share, time=left)


def _after_end(answer: Message, event: Finished, before: Statistics | None) -> Message:
    """Who tells no figures leaves those that were counted so far."""
    statistics = answer.statistics
    if event.statistics is not None:
        statistics = combined_statistics(before, plausible(event.statistics))
    text = answer.text + event.text
    made = placed(event.calls, last_step(answer.calls), len(text))
    ending = answer.ending if made else _ENDINGS[event.reason]
    return replace(answer, text=text, ending=ending, statistics=statistics, calls=(*answer.calls, *made))


def _after_words(answer: Message, event: Wrote) -> Message:
    """How long it took, and in how many passes, is told at the end, if at all."""
    count = answer.statistics or Statistics()
    tokens = min(count.new_tokens + max(0, event.tokens), MOST)
    return replace(answer, text=answer.text + event.text, statistics=replace(count, new_tokens=tokens))


def _after_round(answer: Message, event: Round) -> Message:
    text = answer.text + event.text
    probabilities = (
        (answer.probabilities or TokenProbabilities()).fit(len(answer.text))
        if event.index == 0
        else answer.probabilities or TokenProbabilities()
    )
    return replace(
        answer,
        text=text,
        statistics=_counted(answer.statistics or Statistics(), event),
        thought_seconds=answer.thought_seconds + _thinking_seconds(answer, text, event),
        probabilities=with_round(probabilities, event),
    )


def _counted(count: Statistics, event: Round) -> Statistics:
    """The running count with one more round: what is left of the figures if nobody tells the end of the answer."""
    method, budget = _method_so_far(count, event)
    return replace(
        count,
        method=method,
        budget=budget,
        new_tokens=count.new_tokens + event.new_tokens,
        passes=count.passes + 1,
        drafted_nodes=count.drafted_nodes + max(0, len(event.tree.pieces) - 1),
        bytes_streamed=count.bytes_streamed + event.bytes_streamed,
        seconds=_combined_seconds(count.seconds, event.seconds),
    )


def _method_so_far(count: Statistics, event: Round) -> tuple[str, int]:
    """Method and budget of the newest round that guessed anything; as long as none did, of the first one."""
    is_telling = bool(event.method) and (len(event.tree.pieces) > 1 or not count.passes)
    return (event.method, event.budget) if is_telling else (count.method, count.budget)


def _thinking_seconds(answer: Message, text: str, event: Round) -> float:
    """How much of a round's time was thinking: all of it up to the round with which the answer begins."""
    if not answer.thought_seconds and len(answer.text) > LONGEST_MARK:
        return 0.0  # who thinks begins with it
    if split(answer.text).answer.strip():
        return 0.0
    parts = split(text)
    return event.seconds.decode if parts.thought or parts.is_thinking else 0.0


def combined_statistics(before: Statistics | None, now: Statistics | None) -> Statistics | None:
    """Both as one: what was done is added up, what was read and awaited at first stays, the longer go names the method.

    Reading the answer again, to go on with it, is time that was spent, but no longer prompt.
    """
    if before is None or now is None:
        return now or before
    longer = before if before.passes > now.passes else now
    return replace(
        now,
        method=longer.method,
        budget=longer.budget,
        prompt_tokens=before.prompt_tokens,
        cached_tokens=before.cached_tokens,
        new_tokens=before.new_tokens + now.new_tokens,
        passes=before.passes + now.passes,
        drafted_nodes=before.drafted_nodes + now.drafted_nodes,
        first_token_seconds=before.first_token_seconds or now.first_token_seconds,
        bytes_streamed=before.bytes_streamed + now.bytes_streamed,
        experts_used=before.experts_used + now.experts_used,
        experts_in_place=before.experts_in_place + now.experts_in_place,
        short_passes=before.short_passes + now.short_passes,
        seconds=_combined_seconds(before.seconds, now.seconds),
    )


def _combined_seconds(before: Seconds, now: Seconds) -> Seconds:
    names = [each.name for each in fields(Seconds)]
    return Seconds(**{name: getattr(before, name) + getattr(now, name) for name in names})
