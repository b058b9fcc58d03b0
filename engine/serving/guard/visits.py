"""Tells the window of each request: who asked what, how far it is, and how it ended."""

import itertools
import threading
import time
from collections.abc import Callable

from starlette.datastructures import Headers

from engine.protocol.messages import Event, Failed, Prefilled, Queued, Reading, Round
from engine.protocol.serving import Visit, VisitState

POLLED = ("/health", "/metrics")  # asked for again and again, by programs that watch
LONGEST_NAME = 200  # characters of what a client calls itself, and of what it asks for
SECONDS_BETWEEN = 0.5  # two tellings of one answer that grows
_NUMBERS = itertools.count(1)  # of all requests to this process: a server that is started anew goes on


class Visits:
    """Counts visits. `tell` is called with a `Visit` from any thread."""

    def __init__(self, tell: Callable[[Visit], None]) -> None:
        self._tell = tell

    def begin(self, client: str, path: str, headers: Headers) -> "OpenVisit":
        """A request has come. Nothing is told before it waits, is answered, or has ended."""
        tell = _ignored if path in POLLED else self._tell
        return OpenVisit(next(_NUMBERS), client, _printable(headers.get("user-agent", "")), _printable(path), tell)


class OpenVisit:
    """One request, while it is under way; may be told of from any thread."""

    def __init__(self, number: int, client: str, agent: str, path: str, tell: Callable[[Visit], None]) -> None:
        self._tell = tell
        self._who = (number, client, agent, path)
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._told = 0.0
        self._state: VisitState = "waiting"
        self._ahead, self._prompt_tokens, self._new_tokens, self._words = 0, 0, 0, ""

    def hear(self, event: Event) -> None:
        """What the engine tells of the answer, or of one of several."""
        with self._lock:
            if self._state not in ("waiting", "answering"):
                return
            is_news = True
            if isinstance(event, Queued):
                is_news = self._state == "waiting"
                self._ahead = event.ahead if is_news else 0
            elif isinstance(event, Reading):
                is_news = False
            elif isinstance(event, Prefilled):
                self._state, self._ahead = "answering", 0
                self._prompt_tokens += event.prompt_tokens
            elif isinstance(event, Round):
                self._new_tokens += event.new_tokens
                is_news = time.monotonic() - self._told > SECONDS_BETWEEN
            elif isinstance(event, Failed):
                self._words, is_news = event.message, False
            else:
                is_news = False
            if is_news:
                self._tell_it()

    def fail(self, words: str) -> None:
        """Why it will end badly."""
        self._words = words

    def end(self, status: int) -> None:
        """It is over; `status` is that of the response, 0 where it was never whole: the client left, or it failed."""
        with self._lock:
            self._state = "failed" if self._words or status >= 400 else "done" if status else "gone"
            self._ahead = 0
            self._tell_it(status)

    def _tell_it(self, status: int = 0) -> None:
        self._told = time.monotonic()
        read, written, seconds = self._prompt_tokens, self._new_tokens, self._told - self._begun
        self._tell(Visit(*self._who, self._state, self._ahead, status, read, written, seconds, self._words))


def _ignored(_visit: Visit) -> None:
    """Of what is asked for again and again."""


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in name[:LONGEST_NAME])
