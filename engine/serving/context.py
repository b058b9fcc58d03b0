"""What every endpoint may ask for."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

from fastapi import Depends, Request

from engine.loading.out_of_memory import give_back_freed
from engine.protocol.messages import Event, Failed
from engine.protocol.sentences import say
from engine.protocol.serving import ServeOptions
from engine.serving.desk import Desk
from engine.serving.guard.metrics import Metrics
from engine.serving.model_names import require_served

if TYPE_CHECKING:
    from engine.engine import Engine

Found = TypeVar("Found")

TRIALS = 2  # of constraints at once: each may take 1 GiB, and half a minute
LONG_SECONDS = 1.0  # for a text that takes so much memory that what is left of it should not stay
READERS = 2  # of texts at once: the tokens of 8 MiB take a gigabyte while they are found, and some ten seconds


def _threads(count: int, name: str) -> ThreadPoolExecutor:
    """For work whose caller is told whatever is raised in it."""
    return ThreadPoolExecutor(count, name)


@dataclass(frozen=True, slots=True)
class Service:
    """The server's own: where requests wait, what it was started with, who is told of `Visit`s, and its figures.

    `trials`: where constraints are tried, and `readers`: where texts become tokens before their turn, apart from the
    threads for what is quick. `under_way`: who is told of each answer that somebody waits for.
    """

    desk: Desk
    options: ServeOptions
    tell: Callable[[Event], None]
    metrics: Metrics = field(default_factory=Metrics)
    trials: ThreadPoolExecutor = field(default_factory=lambda: _threads(TRIALS, "trials"))
    readers: ThreadPoolExecutor = field(default_factory=lambda: _threads(READERS, "readers"))
    under_way: set[Callable[[Event], None]] = field(default_factory=set)
    is_closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Have every answer end, those that are yet to begin too, and say why; from any thread."""
        self.is_closed.set()
        for tell in tuple(self.under_way):
            tell(stopped())

    async def read(self, find: Callable[[], Found]) -> Found:
        """What `find` makes of a text that somebody sent, in one of the threads for that."""
        return await asyncio.get_running_loop().run_in_executor(self.readers, _read, find)

    @property
    def engine(self) -> "Engine":
        """What is loaded; raises `NoModel`."""
        return self.desk.engine_for()

    def model(self, name: str | None) -> str:
        """The name of what is loaded; raises `ApiError` (404) where a client asks for another one, and `NoModel`."""
        return require_served(self.engine, name, self.options.aliases)


def _read(find: Callable[[], Found]) -> Found:
    begin = time.monotonic()
    try:
        return find()
    finally:
        if time.monotonic() - begin > LONG_SECONDS:
            give_back_freed()


def stopped() -> Failed:
    """How answers end with their server."""
    return Failed(0, say("The server was stopped."), say("Ask again once it is back."), "stopped")


@dataclass(frozen=True, slots=True)
class Asker:
    """Who a request is from. `name`: requests of one name are answered in order, those of several in turn.

    `is_admitted`: part of the request has been answered already.

    `hear` is told of everything that happens to its answers, from any thread, and must return at once.
    """

    name: str
    hear: Callable[[Event], None] = lambda _event: None
    is_admitted: bool = False


async def _service(request: Request) -> Service:  # async, as FastAPI would ask a thread for it
    return cast(Service, request.app.state.service)


ServiceOf = Annotated[Service, Depends(_service)]


async def _asker(request: Request) -> Asker:
    return cast(Asker, request.state.asker)


AskerOf = Annotated[Asker, Depends(_asker)]
