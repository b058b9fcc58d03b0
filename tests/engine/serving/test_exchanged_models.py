"""What was asked of one model is not answered by another, and keeps none in memory."""

import copy
import gc
import queue
from collections.abc import Iterator
from typing import Any
from weakref import ref

import openai
import pytest
from openai import OpenAI

from engine.engine import Engine
from engine.protocol.messages import ChatMessage, Event, Failed, Finished, Generate
from engine.protocol.options import GenerateOptions
from engine.serving.chat.completion import ChatWriter
from engine.serving.chat.request import ChatFields
from engine.serving.completions.completion import TextWriter
from engine.serving.completions.request import CompletionFields
from engine.serving.context import Asker, Service
from engine.serving.desk import WINDOW, Desk, Job
from tests.engine.serving.conftest import PATIENCE_SECONDS, STORY, Running, until_the_end

SPOKEN: list[Any] = [{"role": "user", "content": STORY}]
ASKER = Asker("a client")


@pytest.fixture
def exchanged(running: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another model is loaded while an answer is written."""
    engine, generate = running.engine, Engine.generate

    def answer_and_exchange(asked: Engine, *arguments: Any) -> Iterator[Event]:
        for event in generate(asked, *arguments):
            if isinstance(event, Finished):
                running.desk.engine = copy.copy(engine)
            yield event

    monkeypatch.setattr(Engine, "generate", answer_and_exchange)
    yield
    running.desk.engine = engine


@pytest.mark.usefixtures("exchanged")
def test_further_choices_are_not_written_by_another_model(client: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match="Another model was loaded meanwhile") as raised:
        client.chat.completions.create(model="", messages=SPOKEN, n=2, max_tokens=1)
    assert (raised.value.status_code, raised.value.code) == (503, "no_model_loaded")
    with pytest.raises(openai.InternalServerError, match="Another model was loaded meanwhile"):
        client.completions.create(model="", prompt=[STORY, "Once"], max_tokens=1)
    assert client.chat.completions.create(model="", messages=SPOKEN, max_tokens=1).choices, "who asks again is answered"


def test_what_waited_while_another_model_was_loaded_is_not_answered(running: Running) -> None:
    other, heard = copy.copy(running.engine), queue.SimpleQueue[Event]()
    request = Generate(1, (ChatMessage("user", STORY),), GenerateOptions(max_new_tokens=1))
    for made_for in (ref(other), ref(running.engine)):
        running.desk.put(Job(request, WINDOW, heard.put, made_for=made_for))
    told = heard.get(timeout=PATIENCE_SECONDS)
    assert isinstance(told, Failed)
    assert (told.message, told.kind) == ("Another model was loaded meanwhile.", "no_model")
    assert list(until_the_end(heard)), "what was made for the loaded one is answered"


def test_a_writer_keeps_no_model(running: Running) -> None:
    desk = Desk()
    desk.engine = copy.copy(running.engine)
    kept = ref(desk.engine)
    service = Service(desk, None, running.told.append)  # type: ignore[arg-type]
    chat = ChatWriter(ChatFields.model_validate({"messages": SPOKEN}), service, ASKER, "model")
    text = TextWriter(CompletionFields.model_validate({"prompt": STORY}), service, ASKER, "model")
    desk.engine = None
    gc.collect()
    assert kept() is None
    assert chat
    assert text
