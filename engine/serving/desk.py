"""Where requests wait for the one engine: each asker's in order, and the askers in turn."""

import itertools
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import ReferenceType

from engine.errors import CoppiceError, NoModel
from engine.protocol.messages import Event, Request
from engine.protocol.sentences import say

if TYPE_CHECKING:
    from engine.engine import Engine

WINDOW = "window"  # how the askers begin whose requests came over the application's own connection
SERVED_FROM = 1 << 40  # ids of requests that came over the network begin here: no `Cancel` of the window reaches them

MOST_WAITING = 256  # requests of all clients
MOST_WAITING_OF_ONE = 64


def window_name(number: int) -> str:
    """The asker of this number at the application's end. No client has such a name: theirs begin with an address."""
    return f"{WINDOW} {number}"


class Busy(CoppiceError):  # noqa: N818  # a state, as people call it
    """More requests wait than are let in."""


@dataclass(eq=False, slots=True)
class Job:
    """One request on its way. `tell` gets its events, from the engine's thread, and must return at once.

    `moved`: called with how many jobs are answered before it when it is put, and whenever that changes; 0 when its turn
    has come; from any thread. `leave` may be called from any thread: what runs of it ends within one layer.
    `made_for`: the only engine that may answer it, None for any. `is_admitted`: it goes on with a request that was let
    in, and is taken however many wait.
    """

    request: Request
    asker: str
    tell: Callable[[Event], None]
    moved: Callable[[int], None] = lambda _ahead: None
    made_for: "ReferenceType[Engine] | None" = None
    is_admitted: bool = False
    _left: threading.Event = field(default_factory=threading.Event)
    _ahead: int = field(default=-1, init=False)  # as `moved` was told

    def move(self, ahead: int) -> None:
        """So many are answered before it; tells it if that is new."""
        if ahead != self._ahead:
            self._ahead = ahead
            self.moved(ahead)

    @property
    def is_of_window(self) -> bool:
        """Whether the application asks, and not a client of the server."""
        return self.asker.startswith(WINDOW)

    def leave(self) -> None:
        """Whoever asked wants it no more."""
        self._left.set()

    def is_unwanted(self) -> bool:
        """Whether whoever asked has left."""
        return self._left.is_set()


class Desk:
    """Hands out one job at a time. Whoever asks much waits as long as whoever asks little, for each one's turn.

    `engine`: what is loaded at the moment, for who asks for more than answers; may be replaced at any time.
    """

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._changed = threading.Condition()
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()  # the asker whose turn is next stands first
        self._answering: Job | None = None
        self._ids = itertools.count(SERVED_FROM)

    def engine_for(self, made_for: "ReferenceType[Engine] | None" = None) -> "Engine":
        """What is loaded; raises `NoModel` where nothing is, or not the engine that a request was made for."""
        engine = self.engine
        if engine is None:
            raise NoModel(say("No model is loaded."), say("Choose a model first."))
        if made_for is not None and made_for() is not engine:
            raise NoModel(say("Another model was loaded meanwhile."), say("Ask again."))
        return engine

    def next_id(self) -> int:
        """An id for a request that came over the network."""
        return next(self._ids)

    def put(self, job: Job) -> None:
        """Have it wait for its turn. Raises `Busy` where too many wait already.

        The windows' are always taken, and so is what goes on with a request.
        """
        with self._changed:
            own = self._waiting.get(job.asker, ())
            total = sum(map(len, self._waiting.values()))
            is_let_in = job.is_admitted or job.is_of_window
            if not is_let_in and (len(own) >= MOST_WAITING_OF_ONE or total >= MOST_WAITING):
                raise Busy(say("Too many requests wait already."), say("Ask again when some are answered."))
            self._waiting.setdefault(job.asker, deque()).append(job)
            if self._answering is not None and self._answering.asker in self._waiting:
                self._waiting.move_to_end(self._answering.asker)  # this is its turn
            self._tell_places()
            self._changed.notify()

    def take(self) -> Job:
        """The job whose turn it is; waits for one. The one before it is over."""
        with self._changed:
            self._answering = None
            while not self._waiting:
                self._changed.wait()
            asker, jobs = next(iter(self._waiting.items()))
            job = jobs.popleft()
            self._waiting.pop(asker)
            if jobs:
                self._waiting[asker] = jobs  # behind all others
            self._answering = job
            job.move(0)
            self._tell_places()
            return job

    def is_quiet(self, seconds: float) -> bool:
        """Wait so long for a job; whether none came. The one before it is over."""
        with self._changed:
            self._answering = None
            return not self._changed.wait_for(lambda: bool(self._waiting), seconds)

    def forget(self, job: Job) -> None:
        """Take a job out that waits, if it does."""
        job.leave()
        with self._changed:
            jobs = self._waiting.get(job.asker, deque())
            if job in jobs:
                jobs.remove(job)
                if not jobs:
                    self._waiting.pop(job.asker)
                self._tell_places()

    def withdraw(self, asker: str, through: int) -> list[Job]:
        """Take out what an asker has waiting of the ids up to this one; returns it: nobody else will end it."""
        with self._changed:
            jobs = self._waiting.get(asker, deque())
            withdrawn = [job for job in jobs if job.request.id <= through]
            if withdrawn:
                self._waiting[asker] = deque(job for job in jobs if job.request.id > through)
                if not self._waiting[asker]:
                    self._waiting.pop(asker)
                self._tell_places()
            return withdrawn

    def serves_others(self, asker: str) -> bool:
        """Whether somebody else asks as well, so that one's own turn is worth telling; may be called in `moved`."""
        with self._changed:
            running = self._answering
            return any(other != asker for other in self._waiting) or (running is not None and running.asker != asker)

    @property
    def waiting(self) -> int:
        """Jobs that nobody works at yet."""
        with self._changed:
            return sum(map(len, self._waiting.values()))

    @property
    def is_busy(self) -> bool:
        """Whether a job is worked at."""
        with self._changed:
            return self._answering is not None

    def _tell_places(self) -> None:
        for ahead, job in enumerate(self._in_turn(), start=self._answering is not None):
            job.move(ahead)

    def _in_turn(self) -> Iterator[Job]:
        for round_of_askers in itertools.zip_longest(*self._waiting.values()):
            yield from (job for job in round_of_askers if job is not None)
