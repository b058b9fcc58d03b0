"""Endpoints that are given the JSON which the guard has read: a body is parsed once, and not kept beside its value.

What was long is checked in a thread, as FastAPI does that on the event loop: a conversation of thousands of messages
would hold it for a quarter of a second, and all other clients with it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders
from starlette.types import Scope

READ_ALREADY = b"{}"  # in place of the body: FastAPI asks for its value where there is any
IN_BODY = ("body",)  # where FastAPI says that a flaw is


def leave_value(scope: Scope, value: Any, is_long: bool) -> None:
    """Leave the value of a request's body for the endpoint; `is_long`: checking it takes a while."""
    if value is not None:  # FastAPI takes for JSON what is called so, and curl may have called it a form
        MutableHeaders(scope=scope)["content-type"] = "application/json"
    scope["state"] |= {"value": value, "is_long": is_long}


class _Request(Request):
    async def json(self) -> Any:
        """What the guard has read; once. FastAPI takes what is of a field's own class as it is."""
        return self.scope["state"].pop("value")


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_read(request: Request) -> Response:
            state = request.scope["state"]
            if self.body_field is not None and state["is_long"]:
                state["value"] = await asyncio.to_thread(_checked, self.body_field, state["value"])
            return await handle(_Request(request.scope, request.receive))

        return handle_read


def _checked(field: Any, value: Any) -> Any:
    """What a field makes of a value. Raises what FastAPI would for its flaws, and what the field's own checks do."""
    made, flaws = field.validate(value, loc=IN_BODY)
    if flaws:
        raise RequestValidationError(flaws, body=value)
    return made


class Router(APIRouter):
    """The addresses of one file."""

    def __init__(self) -> None:
        super().__init__(route_class=_Route)
