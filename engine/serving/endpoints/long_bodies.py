"""Routes whose long bodies are parsed and checked in a thread: FastAPI does both on the event loop.

A conversation of thousands of messages would hold it for a quarter of a second, and all other clients with it.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from engine.serving.guard.bodies import LONG_BYTES

IN_BODY = ("body",)  # where FastAPI says that a flaw is


class LongBodies(APIRoute):
    """A route that reads long bodies so; shorter ones are left to FastAPI."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's own, given what was read."""
        handle = super().get_route_handler()

        async def handle_read(request: Request) -> Response:
            made = _ReadRequest(request.scope, request.receive)
            if self.body_field is not None and len(body := await made.body()) > LONG_BYTES:
                made.value = await asyncio.to_thread(_checked, self.body_field, body)
            return await handle(made)

        return handle_read


class _ReadRequest(Request):
    """`value`: what its body is, if that is known; FastAPI takes what is of a field's own class as it is."""

    value: Any = None

    async def json(self) -> Any:
        return await super().json() if self.value is None else self.value


def _checked(field: Any, body: bytes) -> Any:
    """What a field makes of a body. Raises what FastAPI would for its flaws, and what the field's own checks do."""
    value = json.loads(body)
    made, flaws = field.validate(value, loc=IN_BODY)
    if flaws:
        raise RequestValidationError(flaws, body=value)
    return made
