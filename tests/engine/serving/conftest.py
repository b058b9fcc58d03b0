"""One server for all tests of the endpoints: real HTTP on loopback, a real thread that answers, the embedded pair."""

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field

import ollama
import pytest
from anthropic import Anthropic
from openai import OpenAI

from engine.engine import Engine
from engine.errors import Cancellation
from engine.observing.watcher import Watcher
from engine.protocol.messages import ChatMessage, Event, Failed, Finished, Generate, Load, Round
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.protocol.serving import ServeOptions
from engine.serving.desk import WINDOW, Desk, Job
from engine.serving.listening import listen
from engine.serving.worker import Worker

PATIENCE_SECONDS = 120
STORY = "Tell me a story about a dragon."


@dataclass(frozen=True, slots=True)
class Running:
    """A server that listens at `address` and answers with `engine`; `told`: what the window would hear."""

    desk: Desk
    address: str
    told: list[Event] = field(default_factory=list)

    @property
    def engine(self) -> Engine:
        """What is loaded."""
        assert self.desk.engine
        return self.desk.engine

    def openai(self) -> OpenAI:
        """A client as people use it, which gives up at the first error."""
        return OpenAI(base_url=f"{self.address}/v1", api_key="none", max_retries=0, timeout=PATIENCE_SECONDS)

    def claude(self) -> Anthropic:
        """The same of another maker."""
        return Anthropic(base_url=self.address, api_key="none", max_retries=0, timeout=PATIENCE_SECONDS)

    @contextmanager
    def llama(self) -> Iterator[ollama.Client]:
        """And the third."""
        client = ollama.Client(host=self.address, timeout=PATIENCE_SECONDS)
        yield client
        client._client.close()

    def answer(self, chat: tuple[ChatMessage, ...], options: GenerateOptions) -> list[Event]:
        """The events of an answer that the window asks for, in its turn."""
        heard = queue.SimpleQueue[Event]()
        self.desk.put(Job(Generate(1, chat, options), WINDOW, heard.put))
        return list(until_the_end(heard))

    def text_of(self, chat: tuple[ChatMessage, ...], options: GenerateOptions) -> str:
        """What the engine itself answers."""
        return "".join(event.text for event in self.answer(chat, options) if isinstance(event, Round | Finished))


def until_the_end(heard: "queue.SimpleQueue[Event]") -> Iterator[Event]:
    """The events up to the good one that is the last."""
    event = None
    while not isinstance(event, Finished):
        event = heard.get(timeout=PATIENCE_SECONDS)
        assert not isinstance(event, Failed), event
        yield event


@contextmanager
def serving(options: LoadOptions) -> Iterator[Running]:
    """A server of its own, with this pair."""
    desk, reading, heard, told = Desk(), Future[None](), queue.SimpleQueue[Event](), list[Event]()
    reading.set_result(None)
    worker = Worker(desk, Cancellation(), Watcher(), reading)
    threading.Thread(target=worker.run, name="answers", daemon=True).start()
    desk.put(Job(Load(1, options), WINDOW, heard.put))
    list(until_the_end(heard))
    server = listen(desk, ServeOptions(port=0), told.append)
    yield Running(desk, server.address, told)
    server.close()
    assert desk.engine
    desk.engine.close()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Loaded once; whoever changes something puts it back."""
    with serving(LoadOptions(device="cpu", cache_dir=str(tmp_path_factory.mktemp("cache")))) as running:
        yield running


@pytest.fixture
def client(running: Running) -> Iterator[OpenAI]:
    """One client of the server."""
    with running.openai() as client:
        yield client


@pytest.fixture
def trace(running: Running, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """The events that the engine gave, of all requests of this test."""
    events, generate = list[Event](), Engine.generate

    def recorded(*arguments: object) -> Iterator[Event]:
        for event in generate(*arguments):  # type: ignore[arg-type]
            events.append(event)
            yield event

    monkeypatch.setattr(Engine, "generate", recorded)
    return events


Wait = Callable[[Callable[[], bool]], None]


@pytest.fixture
def until() -> Wait:
    """Waits for what another thread does soon."""

    def wait(is_so: Callable[[], bool]) -> None:
        moment = threading.Event()
        for _ in range(PATIENCE_SECONDS * 100):
            if is_so():
                return
            moment.wait(0.01)
        raise AssertionError("it did not come")

    return wait
