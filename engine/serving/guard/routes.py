"""Endpoints that are given the JSON which the guard has read: a body is parsed once, and not kept beside its value."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.types import Scope

READ_ALREADY = b"{}"  # in place of the body: FastAPI asks for its value where there is any


def leave_value(scope: Scope, value: Any) -> None:
    """Leave the value of a request's body for the endpoint."""
    scope["state"]["value"] = value


class _Request(Request):
    async def json(self) -> Any:
        """What the guard has read; once."""
        return self.scope["state"].pop("value")


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_read(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return handle_read


class Router(APIRouter):
    """The addresses of one file."""

    def __init__(self) -> None:
        super().__init__(route_class=_Route)
