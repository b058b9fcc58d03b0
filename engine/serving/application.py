"""The web application: which addresses there are, and what they are given."""

from collections.abc import Callable

from fastapi import FastAPI

from engine import __version__
from engine.protocol.messages import Event
from engine.protocol.serving import ServeOptions
from engine.serving.context import Service
from engine.serving.desk import Desk
from engine.serving.endpoints import health


def build_application(desk: Desk, options: ServeOptions, tell: Callable[[Event], None]) -> FastAPI:
    """All endpoints, behind what checks who asks."""
    application = FastAPI(title="Coppice", version=__version__, docs_url=None, redoc_url=None)
    application.state.service = Service(desk, options, tell)
    application.include_router(health.router)
    return application
