"""An answer as server-sent events, which ends the answer when it ends itself, however that comes."""

import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Any

from fastapi.sse import format_sse_event
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from engine.errors import CoppiceError
from engine.serving.answers import Alive, Step

Event = dict[str, Any]
SENT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}  # beside what is sent whole
ALIVE = b": alive\n\n"  # a comment, which every client passes over


class Begun:
    """The steps of an answer, the first of which has come: what fails now cannot be told by a status any more."""

    def __init__(self, first: Step, rest: AsyncGenerator[Step, None]) -> None:
        self._first, self._rest = first, rest

    async def __aiter__(self) -> AsyncIterator[Step]:
        """All of them, once."""
        yield self._first
        async for step in self._rest:
            yield step

    async def aclose(self) -> None:
        """End the answer within one layer, if it has not ended."""
        await self._rest.aclose()


async def begin(steps: AsyncGenerator[Step, None]) -> Begun:
    """Wait for the first of the steps; raises what fails before it."""
    return Begun(await anext(steps), steps)


async def exhaust(steps: Begun, tell: Callable[[Step], Iterable[Event]]) -> None:
    """The same for an answer that is sent whole: nobody hears its events, but they add up."""
    async with aclosing(steps):
        async for step in steps:
            deque(tell(step), maxlen=0)


class EventStream(StreamingResponse):
    """The response to a request that wants to hear of its answer as it is written.

    The answer ends with the response, however that ends: where the client leaves, too, even before it was sent any.
    """

    media_type = "text/event-stream"

    def __init__(
        self, steps: Begun, tell: Callable[[Step], Iterable[Event]], fail: Callable[[CoppiceError], Event]
    ) -> None:
        """`tell` gives the events of a step, `fail` that of a failure; each has its name as its `type`."""
        super().__init__(_chunks(steps, tell, fail), headers={"cache-control": "no-cache"})
        self._steps = steps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, as ASGI has it."""
        async with aclosing(self._steps):
            await super().__call__(scope, receive, send)


async def _chunks(
    steps: Begun, tell: Callable[[Step], Iterable[Event]], fail: Callable[[CoppiceError], Event]
) -> AsyncIterator[bytes]:
    try:
        async for step in steps:
            events = b"".join(map(_written, tell(step)))
            if events or isinstance(step, Alive):
                yield events or ALIVE
    except CoppiceError as error:
        yield _written(fail(error))


def _written(event: Event) -> bytes:
    return format_sse_event(event=event["type"], data_str=json.dumps(event, separators=(",", ":")))
