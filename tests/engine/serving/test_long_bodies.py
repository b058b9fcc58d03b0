"""A long conversation is parsed, checked and put together beside the event loop, and told of as a short one is."""

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any
from unittest.mock import Mock
from weakref import ref

import httpx
import pytest

from engine.errors import Cancellation
from engine.observing.watcher import Watcher
from engine.serving.conversation import Conversation
from engine.serving.desk import Desk
from engine.serving.guard import routes
from engine.serving.guard.bodies import LONG_BYTES
from engine.serving.worker import Worker
from tests.engine.serving.conftest import PATIENCE_SECONDS, Running

LOOP = "server"  # the name of the thread
MANY = LONG_BYTES // 40  # messages


@pytest.fixture
def http(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.address, timeout=PATIENCE_SECONDS) as http:
        yield http


def turns(count: int) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[at % 2], "content": f"message {at}"} for at in range(count - 1)]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/apply-template", {}),
        ("/v1/chat/completions", {}),
        ("/api/v0/chat/completions", {}),
        ("/v1/messages", {"max_tokens": 1}),
        ("/v1/messages/count_tokens", {}),
        ("/v1/responses", {}),
        ("/api/chat", {}),
    ],
)
def test_the_loop_does_no_work_that_grows_with_a_conversation(
    http: httpx.Client, path: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[str]()

    def noted(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            threads.append(threading.current_thread().name)
            return work(*arguments)

        return run

    monkeypatch.setattr(Conversation, "say", noted(Conversation.say))
    monkeypatch.setattr(routes, "_checked", noted(routes._checked))
    said = "input" if path == "/v1/responses" else "messages"
    answer = http.post(path, json={"model": "demo-target", said: turns(MANY), **fields})
    assert answer.status_code == 200 or "tokens, and the context holds" in answer.text
    assert len(threads) >= MANY
    assert LOOP not in threads


def test_what_is_wrong_with_a_long_one_is_told_as_with_a_short_one(http: httpx.Client) -> None:
    told = []
    for count in (2, MANY):
        messages = [*turns(count), {"role": "user", "content": 5}]
        answer = http.post("/apply-template", json={"messages": messages})
        told.append((answer.status_code, answer.text.replace(f"messages.{count - 1}.", "messages.")))
        messages[-1] = {"role": "user", "content": [{"type": "audio"}]}
        answer = http.post("/apply-template", json={"messages": messages})
        told.append((answer.status_code, answer.text))
    assert told[:2] == told[2:]
    assert "valid string" in told[0][1]
    assert "cannot be read here" in told[1][1]


def test_collections_pass_over_what_is_loaded(running: Running) -> None:
    assert not any(each is running.engine for each in gc.get_objects())


def test_what_is_unloaded_is_collected_all_the_same() -> None:
    reading = Future[None]()
    reading.set_result(None)
    desk = Desk()
    worker = Worker(desk, Cancellation(), Watcher(), reading)
    engine: Any = Mock()
    engine.itself = engine  # as a model and its hooks
    desk.engine, gone = engine, ref(engine)
    del engine
    gc.freeze()
    worker._unload()
    assert gone() is None
