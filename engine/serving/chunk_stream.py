"""The chunks of a completion as server-sent events, as OpenAI's API has them: unnamed, and a last one that says so."""

import json
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from engine import __version__
from engine.errors import CoppiceError
from engine.serving.answers import Alive
from engine.serving.guard.errors import error_event

Chunk = dict[str, Any]
DONE = "data: [DONE]\n\n"
FINGERPRINT = f"coppice-{__version__}"


def head_of(kind: str, model: str) -> Chunk:
    """What every chunk of one completion begins with, and the whole."""
    return {
        "id": f"{kind}-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": FINGERPRINT,
    }


class ChunkStream(StreamingResponse):
    """The response to a request that wants to read its completion as it is written.

    The answers end with the response, however that ends: where the client leaves, too, even before it was sent any.
    """

    media_type = "text/event-stream"

    def __init__(self, first: Chunk | Alive, rest: AsyncGenerator[Chunk | Alive, None]) -> None:
        """What was told already, and what is yet to come; see `begin`."""
        super().__init__(_written(first, rest), headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        self._rest = rest

    @classmethod
    async def begin(cls, told: AsyncGenerator[Chunk | Alive, None]) -> "ChunkStream":
        """Wait for the first that is told; raises what fails before it, which a status can still tell."""
        return cls(await anext(told), told)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, as ASGI has it."""
        async with aclosing(self._rest):
            await super().__call__(scope, receive, send)


async def _written(first: Chunk | Alive, rest: AsyncGenerator[Chunk | Alive, None]) -> AsyncGenerator[str, None]:
    yield _event(first)
    try:
        async for told in rest:
            yield _event(told)
    except CoppiceError as error:
        yield error_event("openai", error)
    else:
        yield DONE


def _event(told: Chunk | Alive) -> str:
    """A chunk as an event; a sign of life as a comment, which every client passes over."""
    if isinstance(told, Alive):
        return f": {told.ahead} ahead\n\n"
    return f"data: {json.dumps(told, separators=(',', ':'))}\n\n"
