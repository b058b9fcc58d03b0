"""One answer on its way to a client: from the engine's thread into the server's, with signs of life while it waits."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

from engine.errors import CoppiceError
from engine.protocol.keeping import SERVED
from engine.protocol.messages import (
    Calling,
    Event,
    Failed,
    FailureKind,
    Finished,
    Generate,
    Prefilled,
    Queued,
    Reading,
    Round,
)
from engine.protocol.sentences import say
from engine.serving.context import Asker, Service, stopped
from engine.serving.desk import Job
from engine.text.pieces import AllContent, AnswerPieces, Divider, Piece

if TYPE_CHECKING:
    from engine.engine import Engine

SECONDS_ALIVE = 5.0  # between two signs of life; clients give up after 10 and more
MOST_UNREAD = 4096  # events that wait for a client that does not read
MOST_UNREAD_NODES = 1 << 18  # in the trees of those events: about 100 bytes each


class Refused(CoppiceError):  # noqa: N818  # what happened to the request
    """The engine could not answer; `kind` says of what sort that is."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, failed.hint)
        self.kind: FailureKind = failed.kind


@dataclass(frozen=True, slots=True)
class Alive:
    """Nothing new, and not over: the time to say so. `ahead`: requests that are answered first."""

    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """One round, and what came of it. Pieces may lag behind the tokens. `calling`: what was told before the round."""

    round: Round
    pieces: tuple[Piece, ...]
    calling: Calling | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The last step: what was held back, why it ended, and the figures."""

    finished: Finished
    pieces: tuple[Piece, ...]


Step = Alive | Reading | Prefilled | Progress | Ended


async def answer(
    service: Service,
    asker: Asker,
    ask: Callable[[int], Generate],
    behind: Divider | None = None,
    made_for: "ReferenceType[Engine] | None" = None,
) -> AsyncGenerator[Step, None]:
    """The steps of an answer; closing the iterator ends the answer within one layer.

    `asker`: who it is for: requests of one asker are answered in order, those of several in turn. `ask` makes the
    request with the id that it gets; `made_for`: the engine that it was checked against, None for the one that is
    loaded. Raises `NoModel`, also where that is another one by now, `Busy`, and `Refused` where the engine fails.
    """
    made_for = made_for or ref(service.engine)
    pieces = AnswerPieces(service.desk.engine_for(made_for).reasoning_marks, behind or AllContent())
    calling: Calling | None = None
    async with aclosing(events(service, asker, ask(service.desk.next_id()), made_for)) as arriving:
        async for event in arriving:
            if isinstance(event, Failed):
                raise Refused(event)
            if isinstance(event, Calling):
                calling = event
            elif isinstance(event, Round):
                yield Progress(event, tuple(pieces.push(event.text)), calling)
                calling = None
            elif isinstance(event, Finished):
                yield Ended(event, (*pieces.push(event.text), *pieces.flush()))
            elif isinstance(event, Reading | Prefilled | Alive):
                yield event


async def events(
    service: Service, asker: Asker, request: Generate, made_for: "ReferenceType[Engine]"
) -> AsyncGenerator[Event | Alive, None]:
    """The engine's own events, to the last one, and an `Alive` whenever there was none for a while."""
    if constraint := request.options.constraint:  # refused before its turn, as the trial of a grammar may take seconds

        def try_out() -> None:  # asks for the engine only now: another one may be loaded while this waits
            service.desk.engine_for(made_for).check_constraint(constraint)

        await asyncio.get_running_loop().run_in_executor(service.trials, try_out)
    unread = Unread(asyncio.get_running_loop())
    ahead = 0

    def tell(event: Event) -> None:
        service.metrics.hear(event)
        asker.hear(event)
        if not unread.put(event):
            job.leave()

    request = replace(request, options=replace(request.options, conversation=SERVED))
    job = Job(request, asker.name, tell, lambda ahead: tell(Queued(request.id, ahead)), made_for, asker.is_admitted)
    service.under_way.add(tell)
    try:
        if service.is_closed.is_set():
            tell(stopped())
        service.desk.put(job)
        while True:
            event = await unread.get()
            if event is None:
                yield Alive(ahead)
                continue
            if isinstance(event, Queued):
                ahead = event.ahead
                continue
            ahead = 0
            yield event
            if isinstance(event, Finished | Failed):
                return
    finally:
        service.under_way.discard(tell)
        service.desk.forget(job)


class Unread:
    """Events on their way from any thread to the one of `loop`; as many as memory is given for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        self._lock = threading.Lock()
        self._events, self._nodes = 0, 0
        self._is_full = False

    def put(self, event: Event) -> bool:
        """Whether somebody will read it: not if too much waits already, nor where the server has ended."""
        with self._lock:
            if self._is_full:
                return False
            self._count(event, 1)
            self._is_full = self._events > MOST_UNREAD or self._nodes > MOST_UNREAD_NODES
            if self._is_full:
                event = Failed(0, say("The client does not read what it asked for."), kind="input")
            try:
                self._loop.call_soon_threadsafe(self._queue.put_nowait, event)
            except RuntimeError:  # the loop is closed
                self._is_full = True
        return not self._is_full

    async def get(self) -> Event | None:
        """The next one; None where there was none for `SECONDS_ALIVE`."""
        try:
            async with asyncio.timeout(SECONDS_ALIVE):  # `wait_for` of Python 3.11 loses a cancellation now and then
                event = await self._queue.get()
        except TimeoutError:
            return None
        with self._lock:
            self._count(event, -1)
        return event

    def _count(self, event: Event, sign: int) -> None:
        self._events += sign
        if isinstance(event, Round):
            self._nodes += sign * len(event.tree.pieces)
