"""What every endpoint may ask for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request

from engine.errors import NoModel
from engine.protocol.messages import Event
from engine.protocol.sentences import say
from engine.protocol.serving import ServeOptions
from engine.serving.desk import Desk

if TYPE_CHECKING:
    from engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Service:
    """The server's own: where requests wait, what it was started with, and who is told of `Visit`s."""

    desk: Desk
    options: ServeOptions
    tell: Callable[[Event], None]

    @property
    def engine(self) -> "Engine":
        """What is loaded; raises `NoModel`."""
        engine = self.desk.engine
        if engine is None:
            raise NoModel(say("No model is loaded."), say("Choose a model first."))
        return engine


def _service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


ServiceOf = Annotated[Service, Depends(_service)]
