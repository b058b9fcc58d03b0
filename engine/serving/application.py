"""The web application: which addresses there are, and what they are given."""

import threading
from collections.abc import Callable
from typing import Any, NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from engine import __version__
from engine.protocol.messages import Event
from engine.protocol.serving import ServeOptions
from engine.serving.context import Service
from engine.serving.desk import Desk
from engine.serving.endpoints import (
    completions,
    health,
    llama_server,
    lm_studio,
    messages,
    metrics,
    models,
    ollama,
    responses,
    tokens,
)
from engine.serving.guard.description import complete
from engine.serving.guard.limits import Limits
from engine.serving.guard.middleware import Guard

ENDPOINTS = (health, metrics, models, completions, responses, messages, ollama, lm_studio, llama_server, tokens)
_BUILDING = threading.Lock()  # pydantic completes the types of all servers, and not from two threads at once


class Application(FastAPI):
    """FastAPI's, with the whole of its description."""

    def openapi(self) -> dict[str, Any]:
        """The description of every endpoint, made once."""
        if not self.openapi_schema:
            self.openapi_schema = complete(super().openapi(), bool(self.state.service.options.api_key))
        return self.openapi_schema


def build_application(
    desk: Desk, options: ServeOptions, tell: Callable[[Event], None], limits: Limits | None = None
) -> FastAPI:
    """All endpoints, behind what checks who asks. The description is made at once: every request is counted by it."""
    with _BUILDING:
        application = _built(desk, options, tell, limits or Limits())
        application.openapi()
    return application


def _built(desk: Desk, options: ServeOptions, tell: Callable[[Event], None], limits: Limits) -> FastAPI:
    application = Application(
        title="Coppice", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    application.state.service = Service(desk, options, tell)
    application.add_middleware(Guard, service=application.state.service, limits=limits)
    for error in (HTTPException, RequestValidationError):
        application.add_exception_handler(error, _leave_to_the_guard)
    for endpoint in ENDPOINTS:
        application.include_router(endpoint.router)
    return application


async def _leave_to_the_guard(_request: Request, error: Exception) -> NoReturn:
    """FastAPI would answer these in a form of its own."""
    raise error
