"""An answer as server-sent events, or as lines, which ends the answer when it ends itself, however that comes."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from engine.errors import CoppiceError
from engine.serving.answers import Alive

SentEvent = dict[str, Any]
EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""What the description of an endpoint says of its streams: that there are some. OpenAPI 3.1 has no words for events."""


@dataclass(frozen=True, slots=True)
class EventFormat:
    """How an API has its events: `write` gives one of them, `fail` the one that tells of a failure, `end` the last."""

    write: Callable[[SentEvent], str]
    fail: Callable[[CoppiceError], str]
    end: str = ""
    media_type: str = "text/event-stream"


class EventStream(StreamingResponse):
    """The response to a request that wants to read its answer as it is written.

    The answer ends with the response, however that ends: where the client leaves, too, even before it was sent any.
    """

    def __init__(
        self, first: SentEvent | Alive, rest: AsyncGenerator[SentEvent | Alive, None], form: EventFormat
    ) -> None:
        """What was told already, and what is yet to come; see `begin`."""
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(_written(first, rest, form), headers=headers, media_type=form.media_type)
        self._rest = rest

    @classmethod
    async def begin(cls, told: AsyncGenerator[SentEvent | Alive, None], form: EventFormat) -> "EventStream":
        """Wait for the first that is told; raises what fails before it, which a status can still tell."""
        return cls(await anext(told), told, form)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, as ASGI has it."""
        async with aclosing(self._rest):
            await super().__call__(scope, receive, send)


def data_of(event: SentEvent) -> str:
    """An event without a name."""
    return f"data: {json.dumps(event, separators=(',', ':'))}\n\n"


def line_of(event: SentEvent) -> str:
    """An event as a line of JSON."""
    return f"{json.dumps(event, separators=(',', ':'))}\n"


def named(event: SentEvent) -> str:
    """An event that is named by its `type`."""
    return f"event: {event['type']}\n{data_of(event)}"


async def _written(
    first: SentEvent | Alive, rest: AsyncGenerator[SentEvent | Alive, None], form: EventFormat
) -> AsyncIterator[str]:
    yield _one(first, form)
    try:
        async for told in rest:
            yield _one(told, form)
    except CoppiceError as error:
        yield form.fail(error)
    else:
        if form.end:
            yield form.end


def _one(told: SentEvent | Alive, form: EventFormat) -> str:
    """A sign of life is a comment, which every client passes over."""
    return f": {told.ahead} ahead\n\n" if isinstance(told, Alive) else form.write(told)
