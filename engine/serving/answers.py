"""One answer on its way to a client: from the engine's thread into the server's, with signs of life while it waits."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from engine.errors import CoppiceError
from engine.protocol.messages import Event, Failed, FailureKind, Finished, Generate, Prefilled, Queued, Round
from engine.protocol.sentences import say
from engine.serving.context import Service
from engine.serving.desk import Job
from engine.text.pieces import AllContent, AnswerPieces, Divider, Piece

SECONDS_ALIVE = 5.0  # between two signs of life; clients give up after 10 and more
MOST_UNREAD = 4096  # events that wait for a client that does not read


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
    """One round, and what came of it. Pieces may lag behind the tokens."""

    round: Round
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The last step: what was held back, why it ended, and the figures."""

    finished: Finished
    pieces: tuple[Piece, ...]


Step = Alive | Prefilled | Progress | Ended


async def answer(
    service: Service, asker: str, ask: Callable[[int], Generate], behind: Divider | None = None
) -> AsyncGenerator[Step, None]:
    """The steps of an answer; closing the iterator ends the answer within one layer.

    `asker`: who it is for: requests of one asker are answered in order, those of several in turn. `ask` makes the
    request with the id that it gets. Raises `NoModel`, `Busy`, and `Refused` where the engine fails.
    """
    pieces = AnswerPieces(service.engine.reasoning_marks, behind or AllContent())
    async with aclosing(events(service, asker, ask(service.desk.next_id()))) as arriving:
        async for event in arriving:
            if isinstance(event, Failed):
                raise Refused(event)
            if isinstance(event, Round):
                yield Progress(event, tuple(pieces.push(event.text)))
            elif isinstance(event, Finished):
                yield Ended(event, (*pieces.push(event.text), *pieces.flush()))
            elif isinstance(event, Prefilled | Alive):
                yield event


async def events(service: Service, asker: str, request: Generate) -> AsyncGenerator[Event | Alive, None]:
    """The engine's own events, to the last one, and an `Alive` whenever there was none for a while."""
    loop, unread = asyncio.get_running_loop(), asyncio.Queue[Event]()
    ahead = 0

    def tell(event: Event) -> None:
        if unread.qsize() < MOST_UNREAD:
            loop.call_soon_threadsafe(unread.put_nowait, event)
            return
        job.leave()
        slow = Failed(request.id, say("The client does not read what it asked for."))
        loop.call_soon_threadsafe(unread.put_nowait, slow)

    job = Job(request, asker, tell, lambda ahead: tell(Queued(request.id, ahead)))
    service.desk.put(job)
    try:
        while True:
            try:
                event = await asyncio.wait_for(unread.get(), SECONDS_ALIVE)
            except TimeoutError:
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
        service.desk.forget(job)
