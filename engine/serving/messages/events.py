"""The events of a streamed message, and the message that they add up to."""

from collections.abc import Iterator, Sequence

from engine.protocol.messages import Finished, Prefilled
from engine.serving.answers import Alive, Ended, Progress, Step
from engine.serving.event_stream import SentEvent
from engine.serving.messages.resource import MessageResource, SaidText, SaidThinking, SaidToolUse, StopReason, usage_of
from engine.text.pieces import CallArguments, CallBegun, Content, Piece, Thought
from engine.text.tools.arguments import arguments_of

PING: SentEvent = {"type": "ping"}


class MessageWriter:
    """Writes one message. Its methods give the events in their order; `message` is what they have told so far."""

    def __init__(self, model: str, stop: Sequence[str], shows_thoughts: bool) -> None:
        """`stop`: the strings that the client wants it to end at; `shows_thoughts`: whether its reasoning is told."""
        self.message = MessageResource(model=model, usage=usage_of(0, 0))
        self._stop = frozenset(stop)
        self._shows_thoughts = shows_thoughts
        self._open: SaidText | SaidThinking | SaidToolUse | None = None
        self._text: list[str] = []  # of the open block
        self._has_begun = False

    def follow(self, step: Step) -> Iterator[SentEvent | Alive]:
        """The next step of the answer; of one that says nothing, a sign of life, once there is a message."""
        match step:
            case Prefilled():
                self._has_begun = True
                self.message.usage = usage_of(step.prompt_tokens, step.cached_tokens)
                yield {"type": "message_start", "message": self.message.model_dump()}
            case Progress(_, pieces) | Ended(_, pieces):
                events = [event for piece in pieces for event in self._take(piece)]
                yield from events or [PING]
            case Alive():
                yield PING if self._has_begun else step
        if isinstance(step, Ended):
            yield from self._end(step.finished)

    def _take(self, piece: Piece) -> Iterator[SentEvent]:
        match piece:
            case Thought(text):
                if not self._shows_thoughts:
                    return
                if not isinstance(self._open, SaidThinking):
                    yield from self._add(SaidThinking())
                yield self._delta({"type": "thinking_delta", "thinking": text})
            case Content(text):
                if not isinstance(self._open, SaidText):
                    yield from self._add(SaidText())
                yield self._delta({"type": "text_delta", "text": text})
            case CallBegun(_, call, name):
                yield from self._add(SaidToolUse(id=call, name=name))
                return
            case CallArguments(_, text):
                yield self._delta({"type": "input_json_delta", "partial_json": text})
        self._text.append(text)

    def _end(self, finished: Finished) -> Iterator[SentEvent]:
        message = self.message
        yield from self._close()
        message.stop_reason = self._reason(finished)
        message.stop_sequence = finished.stop if message.stop_reason == "stop_sequence" else None
        if figures := finished.statistics:
            message.usage = usage_of(figures.prompt_tokens, figures.cached_tokens, figures.new_tokens)
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": message.stop_reason, "stop_sequence": message.stop_sequence},
            "usage": message.usage.model_dump(),
        }
        yield {"type": "message_stop"}

    def _reason(self, finished: Finished) -> StopReason:
        if finished.reason == "length":
            return "max_tokens"
        if finished.stop in self._stop:
            return "stop_sequence"
        return "tool_use" if any(isinstance(each, SaidToolUse) for each in self.message.content) else "end_turn"

    def _add(self, block: SaidText | SaidThinking | SaidToolUse) -> Iterator[SentEvent]:
        yield from self._close()
        self._open = block
        self.message.content.append(block)
        yield self._of_block("content_block_start", content_block=block.model_dump())

    def _close(self) -> Iterator[SentEvent]:
        """End the open block, if there is one."""
        block, text = self._open, "".join(self._text)
        if block is None:
            return
        match block:
            case SaidText():
                block.text = text
            case SaidThinking():
                block.thinking = text
            case SaidToolUse():
                block.input = arguments_of(text)
        yield self._of_block("content_block_stop")
        self._open, self._text = None, []

    def _delta(self, delta: SentEvent) -> SentEvent:
        return self._of_block("content_block_delta", delta=delta)

    def _of_block(self, kind: str, **fields: object) -> SentEvent:
        return {"type": kind, "index": len(self.message.content) - 1, **fields}
