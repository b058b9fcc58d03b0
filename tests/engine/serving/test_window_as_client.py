"""A window on another machine, in front of a real server: its answer is the server's own, event by event."""

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.engine.remote import wire as wires
from app.engine.remote.addresses import COPPICE
from app.engine.remote.answer import RemoteAnswer
from app.engine.remote.counting import counted
from app.engine.remote.questions import question
from app.engine.remote.servers import look_at
from app.engine.remote.wire import Wire
from app.system.background import Stop
from engine.protocol.messages import Calling, ChatMessage, Event, Finished, Generate, Prefilled, Round
from engine.protocol.options import GenerateOptions, SamplingOptions, SpeculationOptions
from engine.protocol.pictures import Picture
from engine.protocol.reasoning import COMMON
from engine.protocol.tools import Tool, ToolCall
from engine.serving.chat.request import ChatFields
from engine.serving.chat.turns import chat_of
from tests.engine.serving.conftest import PATIENCE_SECONDS, STORY, Running

CHAT = (ChatMessage("system", "Be brief."), ChatMessage("user", STORY))
OPTIONS = GenerateOptions(
    sampling=SamplingOptions(temperature=0.8, top_p=0.9, seed=5),
    speculation=SpeculationOptions("specexec", 12),
    max_new_tokens=10,
    verdicts=True,
)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends are this process: a busy machine may take longer than a person would wait."""
    monkeypatch.setattr(wires, "LOOK_UP_SECONDS", PATIENCE_SECONDS)


def test_the_live_tree_is_that_of_the_server(running: Running, trace: list[Event]) -> None:
    wire, stop = Wire(running.address), Stop()
    server = look_at(wire, stop)
    assert server.kind == COPPICE
    model = server.models[0]
    assert model.context_tokens == running.engine.describe(0, seconds=0.0).context_tokens
    answer = RemoteAnswer(1, wire.host)
    body = question(COPPICE, model.name, CHAT, OPTIONS)
    arrived = [
        event
        for sent in wire.events("/v1/chat/completions", body, stop)
        for each in sent
        for event in answer.take(each)
    ]
    arrived += list(answer.end())
    told = [replace(each, id=1) for each in trace if isinstance(each, Prefilled | Round | Finished)]
    assert arrived == told, "to the last number, times too"
    assert all(each.verdicts for each in arrived if isinstance(each, Round))
    assert sum(isinstance(each, Round) and len(each.tree.pieces) > 1 for each in arrived) > 0


def test_a_conversation_is_as_long_there_as_here(running: Running) -> None:
    wire = Wire(running.address)
    tokens, texts = counted(wire, COPPICE, "", CHAT, (STORY, ""), (), Stop())
    prompt = running.engine.prompt_of(Generate(1, CHAT, OPTIONS))
    assert tokens == len(prompt.tokens)
    assert texts == (len(running.engine.tokenizer.encode(STORY)), 0)


@given(texts=st.lists(st.text(max_size=5), min_size=1, max_size=4), shown=st.lists(st.integers(0, 3), max_size=4))
def test_pictures_stand_there_where_they_stand_here(texts: list[str], shown: list[int]) -> None:
    content, places = "".join(texts), list(itertools.accumulate(map(len, texts), initial=0))
    here = sorted(places[at] for at in shown if at < len(places))
    pictures = tuple(Picture(b"\x89PNG\r\n\x1a\n %d" % number, at) for number, at in enumerate(here))
    chat = (ChatMessage("user", content, pictures=pictures),)
    assume(content or pictures)
    asked = ChatFields.model_validate_json(json.dumps(question(COPPICE, "", chat, OPTIONS)))
    assert chat_of(asked.messages, COMMON) == chat


TOOLS = (
    Tool("roll", "Rolls.", '{"type": "object", "properties": {"sides": {"enum": [4, 6]}}, "required": ["sides"]}'),
)


def test_tools_are_counted_there_as_here(running: Running) -> None:
    tokens, _ = counted(Wire(running.address), COPPICE, "", CHAT, (), TOOLS, Stop())
    assert tokens == len(running.engine.prompt(CHAT, TOOLS).tokens)
    called = ChatMessage("assistant", "", (ToolCall("a", "roll", '{"sides": 6}'),))
    result = ChatMessage("tool", "4", tool_call_id="a", name="roll")
    more, _ = counted(Wire(running.address), COPPICE, "", (*CHAT, called, result), (), TOOLS, Stop())
    assert more > tokens


def test_calls_have_the_place_in_the_text_that_the_server_knows(running: Running) -> None:
    wire, stop = Wire(running.address), Stop()
    options = replace(OPTIONS, max_new_tokens=80)
    body = question(COPPICE, "", CHAT, options, TOOLS) | {"tool_choice": "required", "parallel_tool_calls": False}
    answer, told = RemoteAnswer(1, wire.host), list[Event]()
    for sent in wire.events("/v1/chat/completions", body, stop):
        told += [event for each in sent for event in answer.take(each)]
    text = "".join(event.text for event in told if isinstance(event, Round))
    assert Calling(1, 0, "roll") in told, "so that no mark is seen while it comes"
    (ending,) = answer.end()
    assert isinstance(ending, Finished)
    (written,) = ending.calls
    text += ending.text
    assert text[written.begin : written.end].strip().startswith("<tool_call>")
    assert json.loads(written.call.arguments)["sides"] in (4, 6)
