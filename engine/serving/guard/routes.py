"""Endpoints that are given the JSON which the guard has read: a body is parsed once, and not kept beside its value.

Long ones are checked in a thread, which FastAPI would do on the event loop: a conversation of thousands of messages
would hold it for a quarter of a second, and all other clients with it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.types import Scope

READ_ALREADY = b"{}"  # in place of the body: FastAPI asks for its value where there is any
IN_BODY = ("body",)  # where FastAPI says that a flaw is


def leave_value(scope: Scope, value: Any, is_long: bool) -> None:
    """Leave the value of a request's body for the endpoint; `is_long`: checking it takes a while."""
    scope["state"]["body"] = value, is_long


class _Request(Request):
    def __init__(self, request: Request) -> None:
        super().__init__(request.scope, request.receive)
        self.value, self.is_long = request.scope["state"].pop("body")

    async def json(self) -> Any:
        """What the guard has read, or what a field made of it: FastAPI takes what is of its class as it is."""
        return self.value


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_read(request: Request) -> Response:
            made = _Request(request)
            if made.is_long and self.body_field is not None:
                made.value = await asyncio.to_thread(_checked, self.body_field, made.value)
            return await handle(made)

        return handle_read


def _checked(field: Any, value: Any) -> Any:
    """What a field makes of a body. Raises what FastAPI would for its flaws, and what the field's own checks do."""
    made, flaws = field.validate(value, loc=IN_BODY)
    if flaws:
        raise RequestValidationError(flaws, body=value)
    return made


class Router(APIRouter):
    """The addresses of one file."""

    def __init__(self) -> None:
        super().__init__(route_class=_Route)
