"""A server over an engine that writes what it is told to, at once: for all that does not depend on a model."""

import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from contextlib import aclosing, contextmanager
from types import SimpleNamespace
from typing import Any

import httpx2 as httpx
import pytest
from pydantic import BaseModel

from engine.errors import Cancellation
from engine.observing.watcher import Watcher
from engine.protocol.messages import (
    ChatMessage,
    Event,
    Finished,
    Generate,
    Prefilled,
    Round,
    Seconds,
    Statistics,
    Tree,
)
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.protocol.reasoning import COMMON
from engine.protocol.serving import ServeOptions, Visit
from engine.serving import application
from engine.serving.answers import Alive, Ended, Progress, Step, answer
from engine.serving.chunk_stream import CHUNKS, Chunk
from engine.serving.context import AskerOf, ServiceOf
from engine.serving.desk import Desk, Job
from engine.serving.event_stream import EventStream
from engine.serving.guard.limits import Limits
from engine.serving.guard.middleware import Guard
from engine.serving.guard.routes import Router
from engine.serving.listening import Listening, listen
from engine.serving.worker import Worker
from engine.text.pieces import Content

KEY = "sk-of-the-tests"
PATIENCE_SECONDS = 60
PATH = "/v1/stub"
router = Router()


class Ask(BaseModel):
    """What the stub is asked: each of `rounds` takes `seconds`, and writes `text` `times` over, with `nodes`.

    A text of `ERRORS` fails with that: at once, or `in_the_middle`, when all rounds were told.
    """

    text: str = "word "
    times: int = 1
    rounds: int = 1
    nodes: int = 1
    seconds: float = 0.0
    stream: bool = False
    in_the_middle: bool = False


class Told(BaseModel):
    """What it answers."""

    text: str
    reason: str


@router.post(PATH, response_model=Told)
async def stub(ask: Ask, service: ServiceOf, asker: AskerOf) -> Any:
    """An answer, whole or as events."""
    options = GenerateOptions(max_new_tokens=ask.rounds)
    chat = (ChatMessage("user", ask.model_dump_json()),)
    steps = answer(service, asker, lambda number: Generate(number, chat, options))
    if ask.stream:
        return await EventStream.begin(_told(steps), CHUNKS)
    text, reason = "", ""
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, Progress | Ended):
                text += _text_of(step)
            if isinstance(step, Ended):
                reason = step.finished.reason
    return Told(text=text, reason=reason)


@router.get(f"{PATH}/broken")
async def broken() -> None:
    """What nobody expected."""
    raise RuntimeError("the secret of the house")


async def _told(steps: AsyncGenerator[Step, None]) -> AsyncGenerator[Chunk | Alive, None]:
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, Alive):
                yield step
            if isinstance(step, Progress | Ended):
                yield {"text": _text_of(step)}


@router.get(f"{PATH}/breaking")
async def breaking() -> EventStream:
    """What nobody expected, in the middle of an answer."""
    return await EventStream.begin(_breaking(), CHUNKS)


async def _breaking() -> AsyncGenerator[Chunk | Alive, None]:
    yield {"text": "word "}
    raise RuntimeError("the secret of the house")


def _text_of(step: Progress | Ended) -> str:
    return "".join(piece.text for piece in step.pieces if isinstance(piece, Content))


class StubEngine:
    """Writes what it is asked to; waits at its `gate` before each round, as long as that is shut.

    `rounds`: of all answers, those that were told by now to whoever listens.
    """

    name = "stub"
    options = LoadOptions()
    reasoning_marks = COMMON

    def __init__(self, cancellation: Cancellation) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.rounds = 0
        self.answered: list[str] = []
        self.conversations: set[str] = set()
        self._cancellation = cancellation

    def prompt_of(self, request: Generate) -> Ask:
        """What is asked."""
        ask = Ask.model_validate_json(request.chat[-1].content)
        if ask.text in ERRORS and not ask.in_the_middle:
            raise ERRORS[ask.text]
        return ask

    def describe(self, _request: int, seconds: float) -> SimpleNamespace:
        """There is no draft."""
        return SimpleNamespace(draft=None)

    def generate(self, request: int, ask: Ask, options: GenerateOptions, _watcher: Watcher | None) -> Iterator[Event]:
        """As the engine's, with as many tokens as rounds."""
        self.answered.append(ask.text)
        self.conversations.add(options.conversation)
        yield Prefilled(request, 7, 2, 0.5)
        tree = Tree(b"", b"", b"", ("x",) * ask.nodes)
        for index in range(ask.rounds):
            while not self.gate.wait(0.01):
                self._cancellation.check()
            self._cancellation.check()
            time.sleep(ask.seconds)
            yield Round(request, index, tree, (0,), 0, "", 1, ask.text * ask.times, Seconds())
            self.rounds += 1
        if ask.in_the_middle:
            raise ERRORS[ask.text]
        statistics = Statistics("stub", 0, 7, 2, ask.rounds, ask.rounds, ask.nodes * ask.rounds, bytes_streamed=64)
        yield Finished(request, "stop", "", statistics)


ERRORS: dict[str, BaseException] = {}


class Running:
    """A server that runs, its stub, and what the window was told."""

    def __init__(self, options: ServeOptions, limits: Limits) -> None:
        self.visits: list[Visit] = []
        self.desk = Desk()
        cancellation, reading = Cancellation(), Future[None]()
        reading.set_result(None)
        self.engine = StubEngine(cancellation)
        self.desk.engine = self.engine  # type: ignore[assignment]  # as much of an engine as is asked for
        self._worker = Worker(self.desk, cancellation, Watcher(lambda _event: None), reading)
        self._is_over = False
        self.thread = threading.Thread(target=self._work, name="stub-engine", daemon=True)
        self.thread.start()
        self.listening: Listening = listen(self.desk, options, self._tell, limits)
        self.host, port = self.listening.address.removeprefix("http://").split(":")
        self.port = int(port)
        self.anyone, self.http = self._clients()

    def _clients(self) -> tuple[httpx.Client, httpx.Client]:
        """Without the key, and with it."""
        address = self.listening.address
        with_key = httpx.Client(base_url=address, headers={"x-api-key": KEY}, timeout=PATIENCE_SECONDS)
        return httpx.Client(base_url=address, timeout=PATIENCE_SECONDS), with_key

    @property
    def application(self) -> Any:
        """The web application."""
        return self.listening._server.config.app

    def _tell(self, event: Any) -> None:
        self.visits.append(event)

    def _work(self) -> None:
        while not self._is_over:
            self._worker.work(self.desk.take())

    def is_free(self) -> bool:
        """Whether the engine works at nothing, now or within a minute."""
        return soon(lambda: not self.desk.waiting and self.desk._answering is None)

    def has_no_connections(self) -> bool:
        """Whether, now or within a minute, nobody is connected and nothing is under way."""
        self.anyone.close()
        self.http.close()
        self.anyone, self.http = self._clients()
        state = self.listening._server.server_state
        return soon(lambda: not state.connections and not state.tasks)

    def last_visit(self) -> Visit:
        """The one that ended last: what the window is told may come after what the client is."""
        assert self.has_no_connections()
        return self.visits[-1]

    def body_bytes_taken(self) -> int:
        """Bytes of bodies that are held."""
        stack: Any = self.application.middleware_stack
        if stack is None:  # it is made for the first request
            return 0
        while not isinstance(stack, Guard):
            stack = stack.app
        return stack._limits.all_bodies_bytes - stack._bodies.bytes_free

    def connect(self, receive_bytes: int = 0) -> socket.socket:
        """A bare connection; `receive_bytes`: what the system takes in before it is read."""
        bare = socket.socket()
        if receive_bytes:
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        bare.settimeout(PATIENCE_SECONDS)
        bare.connect((self.host, self.port))
        return bare

    def say(self, request: bytes) -> bytes:
        """Everything that is answered to these bytes, until the server closes."""
        with self.connect() as bare:
            bare.sendall(request)
            return read_all(bare)

    def close(self) -> None:
        """End all of it."""
        self.http.close()
        self.anyone.close()
        self.listening.close()
        self._is_over = True
        self.engine.gate.set()
        self.desk.put(Job(Generate(0, (ChatMessage("user", "{}"),), GenerateOptions()), "end", lambda _event: None))
        self.thread.join(PATIENCE_SECONDS)


def soon(is_so: Callable[[], bool]) -> bool:
    """Whether it is so, now or within a minute: for what another thread does at its own pace."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so() and time.monotonic() < end:
        time.sleep(0.005)
    return is_so()


def read_all(bare: socket.socket) -> bytes:
    """What comes until the connection ends, however it does."""
    received = b""
    try:
        while part := bare.recv(1 << 16):
            received += part
    except ConnectionError:
        pass
    return received


def read_answer(bare: socket.socket) -> bytes:
    """One response that tells its length."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _part(bare)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split()[0])
    while len(body) < length:
        body += _part(bare)
    return head + b"\r\n\r\n" + body


def _part(bare: socket.socket) -> bytes:
    part = bare.recv(1 << 16)
    assert part, "the connection ended before the response was whole"
    return part


def request(body: bytes, *headers: str, path: str = PATH, key: str = KEY) -> bytes:
    """A request as bytes; its length is told if none of the headers does."""
    has_length = any(header.lower().startswith(("content-length", "transfer-encoding")) for header in headers)
    lengths = () if has_length else (f"Content-Length: {len(body)}",)
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", f"X-Api-Key: {key}", "Content-Type: application/json")
    return "\r\n".join((*lines, *headers, *lengths, "", "")).encode() + body


@contextmanager
def running(options: ServeOptions | None = None, limits: Limits | None = None) -> Iterator[Running]:
    """A server of its own."""
    endpoints = (*application.ENDPOINTS, SimpleNamespace(router=router))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "ENDPOINTS", endpoints)
        server = Running(options or ServeOptions(port=0, api_key=KEY), limits or Limits(requests_per_second=1e6))
    try:
        yield server
    finally:
        server.close()
