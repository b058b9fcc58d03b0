"""The engine process with a server beside the window: who waits is told, and a stop ends what waits at once."""

import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import CoppiceError, InputError
from engine.protocol.messages import Cancel, Finished, Generate, Queued
from engine.protocol.options import GenerateOptions
from engine.protocol.serving import Serve, ServeOptions, Serving, ServingEnded, StopServing
from engine.serving.desk import Job
from tests.engine.served import PATIENCE_SECONDS, Served, raises


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    served.begin()
    yield served
    served.close()


def question(number: int, window: int = 0) -> Generate:
    return Generate(number, (), GenerateOptions(), asker=window)


def test_a_stop_ends_at_once_what_waits_behind_a_client(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = threading.Event(), threading.Event()

    def answer(job: Job) -> Iterator[Any]:
        begun.set()
        assert over.wait(PATIENCE_SECONDS)
        yield Finished(job.request.id, "stop")

    monkeypatch.setattr(served.process._worker, "_events", answer)
    assert served.ask(StopServing()) == ServingEnded(), "from now on there may be clients"
    heard: list[Any] = []
    served.process._desk.put(Job(question(1 << 40), "a client", heard.append))
    assert begun.wait(PATIENCE_SECONDS)
    assert served.ask(question(1)) == Queued(1, 1)
    assert served.ask(question(2)) == Queued(2, 2), "nothing has changed for the first"
    assert served.ask(Cancel(1)) == Queued(2, 1)
    assert served.ours.recv() == Finished(1, "cancelled")
    assert not heard, "the client's request is none of the window's"
    over.set()
    assert [served.ours.recv() for _ in range(2)] == [Queued(2, 0), Finished(2, "stop")]
    assert heard == [Finished(1 << 40, "stop")]


def test_a_stop_of_one_window_leaves_the_answers_of_the_other(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs, what waits, and what has not come yet; whichever ids they have."""
    steps: SimpleQueue[bool] = SimpleQueue()
    cancellation = served.process._cancellation

    def answer(job: Job) -> Iterator[Any]:
        yield Queued(job.request.id, 100)  # it has begun
        while steps.get(timeout=PATIENCE_SECONDS):
            cancellation.check()
        yield Finished(job.request.id, "stop")

    monkeypatch.setattr(served.process._worker, "_events", answer)
    assert served.ask(question(1, window=1)) == Queued(1, 100)
    for each in (question(2, window=1), question(3, window=1)):
        served.ours.send(each)
    assert served.ask(question(4, window=2)) == Queued(4, 1), "in turn: of the three only the one that runs"
    told = [served.ours.recv() for _ in range(2)]
    assert told == [Queued(2, 2), Queued(3, 3)], "those behind it hear of it"
    served.ours.send(Cancel(3, asker=2))
    assert served.ask(Cancel(2, asker=1)) == Queued(3, 2), "what is over by now was before it"
    assert served.ours.recv() == Finished(2, "cancelled")
    steps.put(True)
    assert served.ours.recv() == Finished(1, "cancelled")
    steps.put(True)  # no layer of the other window's answer sees that stop
    steps.put(False)
    heard = [served.ours.recv() for _ in range(4)]
    assert {Queued(4, 0), Queued(4, 100), Queued(3, 1), Finished(4, "stop")} == set(heard)
    steps.put(False)
    assert [served.ours.recv() for _ in range(3)] == [Queued(3, 0), Queued(3, 100), Finished(3, "stop")]


def test_the_switch_answers_every_order_whatever_fails(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = served.process._server
    for error, words in (
        (InputError("The port is taken.", "Choose another."), ServingEnded("The port is taken.", "Choose another.")),
        (KeyError("boom"), None),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(switch, "_listen", raises(error))
            ended = served.ask(Serve(ServeOptions(port=0)))
        assert ended == words if isinstance(error, CoppiceError) else "boom" in ended.message
    assert served.ask(StopServing()) == ServingEnded()


class Listening:
    """A server that only notes whether it was closed."""

    def __init__(self, options: ServeOptions) -> None:
        self.address = f"http://{options.host}:{options.port}"
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_one_server_at_a_time_listens(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[Listening]()

    def listen(_desk: object, options: ServeOptions, _tell: object) -> Listening:
        assert all(each.is_closed for each in made), "the one before holds the port"
        made.append(Listening(options))
        return made[-1]

    monkeypatch.setitem(sys.modules, "engine.serving.listening", SimpleNamespace(listen=listen))  # without fastapi
    for port in (8383, 8384):
        assert served.ask(Serve(ServeOptions(port=port))) == Serving(f"http://127.0.0.1:{port}")
    assert served.ask(StopServing()) == ServingEnded()
    assert [each.is_closed for each in made] == [True, True]
