"""The typed events of a streamed response, and the response that they add up to."""

import time
from collections.abc import Iterator

from engine.errors import CoppiceError
from engine.protocol.messages import Finished
from engine.serving.answers import Alive, Ended, Progress, Step
from engine.serving.event_stream import SentEvent
from engine.serving.figures import ReasoningTokens
from engine.serving.guard.errors import api_error_of
from engine.serving.responses.input_items import INPUT
from engine.serving.responses.output_items import (
    ItemStatus,
    OutputCall,
    OutputCustomCall,
    OutputItem,
    OutputMessage,
    OutputReasoning,
    OutputReasoningText,
    OutputText,
)
from engine.serving.responses.request import CustomTool
from engine.serving.responses.resource import (
    FailureCode,
    IncompleteDetails,
    ResponseFailure,
    ResponseResource,
    usage_of,
)
from engine.text.pieces import CallArguments, CallBegun, Content, Piece, Thought
from engine.text.tools.tool_template import parsed


class ResponseWriter:
    """Writes one response. Its methods give the events in their order; `response` is what they have told so far."""

    def __init__(self, response: ResponseResource) -> None:
        """`response`: has no output yet, and the tools of the request."""
        self.response = response
        self._custom = frozenset(tool.name for tool in response.tools if isinstance(tool, CustomTool))
        self._events = 0
        self._open: OutputItem | None = None
        self._text: list[str] = []  # of the open item
        self._reasoning = ReasoningTokens()

    def follow(self, step: Step) -> Iterator[SentEvent | Alive]:
        """The next step of the answer; with the first, the response as it is before there is any."""
        if not self._events:
            yield self._of_response("response.created")
            yield self._of_response("response.in_progress")
        if isinstance(step, Alive):
            yield step
        if isinstance(step, Progress):
            self._reasoning.take(step)
        if isinstance(step, Progress | Ended):
            for piece in step.pieces:
                yield from self._take(piece)
        if isinstance(step, Ended):
            yield from self._end(step.finished)

    def fail(self, error: CoppiceError) -> SentEvent:
        """There is no more of the answer, and why; the response has what was told of it."""
        self._fill("incomplete")
        known = api_error_of(error)
        code: FailureCode = "invalid_prompt" if known.status < 500 else "server_error"
        self.response.status, self.response.error = "failed", ResponseFailure(code=code, message=str(known))
        return self._of_response("response.failed")

    def _take(self, piece: Piece) -> Iterator[SentEvent]:
        match piece:
            case Thought(text):
                if not isinstance(self._open, OutputReasoning):
                    yield from self._add(OutputReasoning())
                yield self._of_item("response.reasoning_text.delta", content_index=0, delta=text)
            case Content(text):
                if not isinstance(self._open, OutputMessage):
                    yield from self._add(OutputMessage())
                yield self._of_item("response.output_text.delta", content_index=0, delta=text, logprobs=[])
            case CallBegun(_, call, name):
                made = OutputCustomCall if name in self._custom else OutputCall
                yield from self._add(made(call_id=call, name=name))
                return
            case CallArguments(_, text):
                if isinstance(self._open, OutputCall):
                    yield self._of_item("response.function_call_arguments.delta", delta=text)
        self._text.append(text)

    def _end(self, finished: Finished) -> Iterator[SentEvent]:
        response, is_cut = self.response, finished.reason == "length"
        yield from self._close("incomplete" if is_cut else "completed")
        if finished.statistics:
            response.usage = usage_of(finished.statistics, int(self._reasoning))
        if is_cut:
            response.status = "incomplete"
            response.incomplete_details = IncompleteDetails(reason="max_output_tokens")
        else:
            response.status, response.completed_at = "completed", int(time.time())
        yield self._of_response(f"response.{response.status}")

    def _add(self, item: OutputItem) -> Iterator[SentEvent]:
        yield from self._close("completed")
        self._open = item
        self.response.output.append(item)
        yield self._of_item("response.output_item.added", item=item.model_dump(), with_id=False)
        if isinstance(item, OutputMessage):
            yield self._of_item("response.content_part.added", content_index=0, part=OutputText().model_dump())
        elif isinstance(item, OutputReasoning):
            yield self._of_item("response.content_part.added", content_index=0, part=OutputReasoningText().model_dump())

    def _fill(self, status: ItemStatus) -> None:
        """Have the open item hold its text."""
        text = "".join(self._text)
        match self._open:
            case OutputMessage() as item:
                item.content = [OutputText(text=text)]
            case OutputReasoning() as item:
                item.content = [OutputReasoningText(text=text)]
            case OutputCall() as item:
                item.arguments = text
            case OutputCustomCall() as item:
                item.input = _input_of(text)
            case None:
                return
        item.status = status

    def _close(self, status: ItemStatus) -> Iterator[SentEvent]:
        """End the open item, if there is one."""
        self._fill(status)
        item, text = self._open, "".join(self._text)
        match item:
            case OutputMessage():
                yield self._of_item("response.output_text.done", content_index=0, text=text, logprobs=[])
            case OutputReasoning():
                yield self._of_item("response.reasoning_text.done", content_index=0, text=text)
            case OutputCall():
                yield self._of_item("response.function_call_arguments.done", name=item.name, arguments=text)
            case OutputCustomCall():
                yield self._of_item("response.custom_tool_call_input.delta", delta=item.input)
                yield self._of_item("response.custom_tool_call_input.done", input=item.input)
            case None:
                return
        if isinstance(item, OutputMessage | OutputReasoning):
            yield self._of_item("response.content_part.done", content_index=0, part=item.content[0].model_dump())
        yield self._of_item("response.output_item.done", item=item.model_dump(), with_id=False)
        self._open, self._text = None, []

    def _of_item(self, kind: str, *, with_id: bool = True, **fields: object) -> SentEvent:
        assert self._open, "an item is written"
        named = {"item_id": self._open.id} if with_id else {}
        return self._event(kind, output_index=len(self.response.output) - 1, **named, **fields)

    def _of_response(self, kind: str) -> SentEvent:
        return self._event(kind, response=self.response.model_dump(by_alias=True))

    def _event(self, kind: str, **fields: object) -> SentEvent:
        self._events += 1
        return {"type": kind, "sequence_number": self._events - 1, **fields}


def _input_of(arguments: str) -> str:
    """The text for a tool that takes any; what the model wrote where that is cut off."""
    found = parsed(arguments)
    text = found.get(INPUT) if isinstance(found, dict) else None
    return text if isinstance(text, str) else arguments
