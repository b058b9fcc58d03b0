"""One answer of an engine elsewhere: what arrives, as the events that an answer of the local engine is made of."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from app.engine.remote import failures
from app.engine.remote.event_stream import COMMENT, SentEvent
from app.engine.remote.figures import (
    UNTOLD,
    Counters,
    TokenSteps,
    steps_in,
    with_counters,
    with_metrics,
    with_timings,
    with_usage,
)
from app.engine.remote.tool_calls import CallPieces
from app.system import json_text as json
from app.system.json_text import parse_json
from engine.protocol.messages import (
    Answered,
    Calling,
    Finished,
    FinishReason,
    Prefilled,
    Queued,
    Reading,
    Round,
    Seconds,
    Statistics,
    Steps,
    Wrote,
)
from engine.protocol.reasoning import COMMON
from engine.protocol.round_json import (
    MalformedEventError,
    calling_from_json,
    finished_from_json,
    prefilled_from_json,
    round_from_json,
)
from engine.protocol.sentences import say

AnswerEvent = Answered | Finished

LONG_READING = 1.0  # seconds, from which on it is worth telling how much of a prompt was read
LONGEST_TEXT = 16 << 20  # characters of an answer; more is no answer
_DONE = b"[DONE]"
_AHEAD = re.compile(rb"(\d{1,6}) ahead")
_REASONS: dict[str, FinishReason] = {"length": "length", "max_tokens": "length"}


@dataclass(slots=True)
class RemoteAnswer:
    """Takes what the server sends, in order. `statistics` may be looked at from any thread, at any time."""

    id: int
    host: str
    clock: Callable[[], float] = time.monotonic
    began: float = 0.0
    first: float = 0.0  # when the first text came
    last: float = 0.0
    is_thinking: bool = False
    has_ended: bool = False
    is_over: bool = False  # nothing more is to be read; usage may follow what has only ended
    reason: FinishReason = "stop"
    length: int = 0
    unseen: int = 0  # characters of calls, which are no text yet
    ahead: int = 0  # requests of others that are answered first
    counted: int = 0  # tokens that `Wrote` told of
    tells_rounds: bool = False
    told: Statistics = field(default_factory=lambda: Statistics(method=UNTOLD))
    timings: Any = None
    metrics: Any = None
    steps: TokenSteps = field(default_factory=TokenSteps)
    finished: Finished | None = None  # a Coppice's own
    begun: int = 0  # characters of the part that is continued
    calls: CallPieces = field(default_factory=CallPieces)
    called: str = ""  # the tool that was told of last

    def __post_init__(self) -> None:
        """The time runs from now on."""
        self.began = self.clock()

    @property
    def statistics(self) -> Statistics:
        """The figures as far as they are known now."""
        if self.finished and self.finished.statistics:
            return self.finished.statistics
        if not self.first:
            return self.told
        waited = self.first - self.began
        measured = Seconds(prefill=waited, decode=max(0.0, self.last - self.first))
        figures = replace(self.told, first_token_seconds=waited, seconds=measured)
        return with_metrics(with_timings(figures, self.timings), self.metrics)

    # ---- what arrives -----------------------------------------------------------------------------------------------

    def take(self, sent: SentEvent) -> Iterator[AnswerEvent]:
        """The events that come of one of the server's. Raises `RemoteError` where it says that it failed."""
        if self.is_over:
            return
        if sent.name == COMMENT:
            yield from self._waiting(sent.data)
            return
        if sent.data.strip() == _DONE:
            self.has_ended = self.is_over = True
            return
        try:
            chunk = parse_json(sent.data.decode("utf-8", "replace").encode())
        except ValueError as error:
            raise failures.garbled(self.host, error.args[0]) from None
        if not isinstance(chunk, dict):
            raise failures.garbled(self.host, say("it is no JSON object"))
        if chunk.get("error") or sent.name == "error":
            raise self._failure(chunk)
        progress = chunk.get("prompt_progress")
        if isinstance(progress, dict):
            yield from self._reading(progress)
        own = chunk.get("coppice")
        if isinstance(own, dict):
            yield from self._own(own)
        self._learn(chunk)
        if not self.tells_rounds:
            yield from self._written(chunk)

    def end(self, gained: Counters | None = None) -> Iterator[AnswerEvent]:
        """The last events, once nothing more comes. Raises `RemoteError` where the answer was cut off."""
        if not self.has_ended:
            raise failures.cut(self.host)
        if self.finished is not None:
            yield self.finished
            return
        rest = self._end_of_thought() if self.is_thinking else ""
        made = list(self.calls.written(self.begun + self.length + len(rest))) if self.reason == "stop" else []
        rest += "".join(text for text, _ in made)
        steps = self.steps
        if steps.accepted:
            yield Steps(self.id, steps.drafted, steps.accepted)
        figures = with_counters(self.statistics, gained) if gained else self.statistics
        yield Finished(self.id, self.reason, rest, figures, calls=tuple(call for _, call in made))

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _own(self, own: dict[str, Any]) -> Iterator[AnswerEvent]:
        """What only a Coppice tells: every round, what was read before, and the end."""
        try:
            if "prefilled" in own:
                self._note_time()
                yield replace(prefilled_from_json(own["prefilled"]), id=self.id)
            if "calling" in own:
                yield replace(calling_from_json(own["calling"]), id=self.id)
            if "round" in own:
                self.tells_rounds = True
                round = replace(round_from_json(own["round"]), id=self.id)
                self._note_time()
                self._grow(len(round.text))
                self._count(round)
                yield round
            if "finished" in own:
                self.finished = replace(finished_from_json(own["finished"]), id=self.id)
                self.has_ended = self.is_over = True
        except MalformedEventError as error:
            raise failures.garbled(self.host, str(error)) from None

    def _count(self, round: Round) -> None:
        """The figures of an answer that is stopped before its end."""
        self.told = replace(
            self.told,
            method=round.method,
            new_tokens=self.told.new_tokens + round.new_tokens,
            passes=self.told.passes + 1,
            drafted_nodes=self.told.drafted_nodes + len(round.tree.pieces) - 1,
        )

    def _reading(self, progress: dict[str, Any]) -> Iterator[Reading]:
        """How much of the prompt was read, as llama-server tells it; nothing of one that is read at once."""
        total, cached, read = (json.count(progress.get(name)) for name in ("total", "cache", "processed"))
        seconds = min(json.count(progress.get("time_ms")) / 1000, self.clock() - self.began)
        if cached <= read < total and seconds >= LONG_READING:
            yield Reading(
                self.id, (read - cached) / (total - cached), seconds, prompt_tokens=total, cached_tokens=cached
            )

    def _waiting(self, comment: bytes) -> Iterator[Queued]:
        """A Coppice says with its signs of life how many requests are answered before this one."""
        told = _AHEAD.fullmatch(comment)
        ahead = int(told[1]) if told else 0
        if told and ahead != self.ahead:
            self.ahead = ahead
            yield Queued(self.id, ahead)

    def _learn(self, chunk: dict[str, Any]) -> None:
        """Figures may come with any chunk; the newest are the most complete."""
        self.told = with_usage(self.told, chunk.get("usage"))
        self.timings = chunk.get("timings") or self.timings
        if metrics := chunk.get("metrics"):
            self.metrics, self.steps = metrics, steps_in(metrics)

    def _written(self, chunk: dict[str, Any]) -> Iterator[AnswerEvent]:
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return
        delta = choice.get("delta") or choice.get("message")  # the whole, where the server does not stream
        text = self._text(delta) if isinstance(delta, dict) else _string(choice.get("text"))
        if text:
            if not self.first:
                self._note_time()
                figures = self.statistics
                waited = self.first - self.began
                yield Prefilled(self.id, figures.prompt_tokens, figures.cached_tokens, waited)
            self._note_time()
            self._grow(len(text))
            yield Wrote(self.id, text, self._new_tokens())
        if isinstance(delta, dict):
            yield from self._calling(delta)
        if reason := choice.get("finish_reason"):
            self.has_ended = True
            self.reason = _REASONS.get(str(reason), "stop")

    def _calling(self, delta: dict[str, Any]) -> Iterator[Calling]:
        """Calls come apart from the text; they stand behind it once they are complete."""
        self._grow(0, self.calls.take(delta))
        if self.calls.name != self.called:
            self.called = self.calls.name
            yield Calling(self.id, self.begun + self.length, self.called)

    def _text(self, delta: dict[str, Any]) -> str:
        """What is shown: reasoning that comes apart gets the marks that it would have had."""
        thought = _string(delta.get("reasoning_content")) or _string(delta.get("reasoning"))
        content = _string(delta.get("content"))
        text = ""
        if thought and not self.is_thinking and not self.length:
            self.is_thinking = True
            text = f"{COMMON.begin}\n"
        text += thought
        if content and self.is_thinking:
            text += self._end_of_thought()
        return text + content

    def _end_of_thought(self) -> str:
        self.is_thinking = False
        return f"\n{COMMON.end}\n\n"

    def _new_tokens(self) -> int:
        """How many tokens were added, where the server counts as it goes."""
        timings = self.timings if isinstance(self.timings, dict) else {}
        now = json.count(timings.get("predicted_n")) or self.told.new_tokens
        new, self.counted = max(0, now - self.counted), max(now, self.counted)
        return new

    def _note_time(self) -> None:
        self.last = self.clock()
        self.first = self.first or self.last

    def _grow(self, characters: int, of_calls: int = 0) -> None:
        self.length += characters
        self.unseen += of_calls
        if self.length + self.unseen > LONGEST_TEXT:
            raise failures.garbled(self.host, say("an answer without an end"))

    def _failure(self, chunk: dict[str, Any]) -> failures.RemoteError:
        reason = failures.reason_of_error(chunk) or say("it does not say why")
        return failures.RemoteError(
            say("The engine at {host} failed: {reason}", host=self.host, reason=reason),
            say("Look into the engine's log there, and try again."),
            "lost" if self.length else "internal",
        )


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
