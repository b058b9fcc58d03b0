"""The lines of a streamed answer, and the whole that they add up to."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from engine.protocol.messages import Finished, Prefilled, Statistics
from engine.serving.answers import Alive, Ended, Progress, Step
from engine.serving.event_stream import EventFormat, SentEvent, line_of
from engine.serving.guard.errors import error_event
from engine.serving.ollama.resource import DoneReason
from engine.text.pieces import CallArguments, CallBegun, Content, Piece, Thought
from engine.text.tools.arguments import arguments_of

NDJSON = "application/x-ndjson"


LINES = EventFormat(line_of, partial(error_event, "ollama"), media_type=NDJSON)


class LineWriter:
    """Writes one answer, of a conversation (`is_chat`) or of a text. `follow` gives its lines in their order."""

    def __init__(self, model: str, is_chat: bool, shows_thoughts: bool) -> None:
        self._model, self._is_chat, self._shows_thoughts = model, is_chat, shows_thoughts
        self._content, self._thoughts, self._calls = list[str](), list[str](), list[SentEvent]()
        self._call: CallBegun | None = None  # whose arguments are being written
        self._arguments = list[str]()
        self._end = SentEvent()

    def follow(self, step: Step) -> Iterator[SentEvent | Alive]:
        """The next step of the answer; lines without text are signs of life, as there are no comments between lines."""
        match step:
            case Prefilled() | Alive():
                yield self._line("", "", [])
            case Progress(_, pieces):
                yield from self._say(pieces)
            case Ended(finished, pieces):
                yield from self._say(pieces, is_last=True)
                self._end = _end_of(finished)
                yield {**self._line("", "", []), **self._end}

    def whole(self) -> SentEvent:
        """The answer, once all of it was followed."""
        return {**self._line("".join(self._content), "".join(self._thoughts), self._calls), **self._end}

    def loaded(self) -> SentEvent:
        """What is answered where nothing is asked."""
        return {**self._line("", "", []), "done": True, "done_reason": "load"}

    def _say(self, pieces: Iterable[Piece], is_last: bool = False) -> Iterator[SentEvent]:
        content, thoughts, calls = list[str](), list[str](), list[SentEvent]()
        for piece in pieces:
            match piece:
                case Thought(text):
                    thoughts += [text] if self._shows_thoughts else []
                case Content(text):
                    content.append(text)
                case CallBegun():
                    calls += self._finished_call()
                    self._call = piece
                case CallArguments(_, text):
                    self._arguments.append(text)
        if is_last:
            calls += self._finished_call()
        self._content += content
        self._thoughts += thoughts
        self._calls += calls
        if content or thoughts or calls:
            yield self._line("".join(content), "".join(thoughts), calls)

    def _finished_call(self) -> list[SentEvent]:
        """The call that was being written, whole, as clients have it; none where none was."""
        if self._call is None:
            return []
        function = {"name": self._call.name, "arguments": arguments_of("".join(self._arguments))}
        call, self._call, self._arguments = self._call.id, None, []
        return [{"id": call, "function": function}]

    def _line(self, content: str, thoughts: str, calls: list[SentEvent]) -> SentEvent:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        thinking: dict[str, Any] = {"thinking": thoughts} if thoughts else {}
        line: SentEvent = {"model": self._model, "created_at": now, "done": False}
        if not self._is_chat:
            return {**line, "response": content, **thinking}
        tool_calls = {"tool_calls": calls} if calls else {}
        return {**line, "message": {"role": "assistant", "content": content, **thinking, **tool_calls}}


def _end_of(finished: Finished) -> SentEvent:
    reason: DoneReason = "stop" if finished.reason == "stop" else "length"
    figures = finished.statistics or Statistics()
    prefill, decode = _nanoseconds(figures.seconds.prefill), _nanoseconds(figures.seconds.decode)
    return {
        "done": True,
        "done_reason": reason,
        "total_duration": prefill + decode,
        "load_duration": 0,
        "prompt_eval_count": figures.prompt_tokens,
        "prompt_eval_duration": prefill,
        "eval_count": figures.new_tokens,
        "eval_duration": decode,
    }


def _nanoseconds(seconds: float) -> int:
    return round(1e9 * seconds)
