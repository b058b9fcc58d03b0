"""Tools are told to engines elsewhere, and calls come back with a place in the answer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.engine.remote.tool_calls import MOST_CALLS, CallPieces, tool_fields
from engine.protocol.messages import Calling, ChatMessage, Finished
from engine.protocol.tools import Tool, ToolCall
from tests.app.remote.fake_servers import DONE, Body, Script, another, chunk, event, llama_server, serving, vllm
from tests.app.remote.listener import CHAT, listening

LOOK = Tool("look", "Looks.", '{"type": "object", "properties": {"at": {"type": "string"}}}')


def piece(index: int, arguments: str, name: str | None = None) -> Body:
    begun: Body = {"id": f"call-{index}", "type": "function"} if name else {}
    return {"index": index, **begun, "function": {"arguments": arguments, **({"name": name} if name else {})}}


def calling(_body: Body) -> Iterator[bytes]:
    """In pieces, as most servers do."""
    yield chunk({"role": "assistant", "content": None, "reasoning_content": "Hm."})
    yield chunk({"content": "I look."})
    yield chunk({"tool_calls": [piece(0, "", "look")]})
    yield chunk({"tool_calls": [piece(0, '{"at":')]})
    yield chunk({"tool_calls": [piece(0, ' "sea"}')]})
    yield chunk({"tool_calls": [piece(1, "", "count")]})
    yield chunk({}, "tool_calls")
    yield DONE


def at_once(_body: Body) -> Iterator[bytes]:
    """As a whole, with arguments that are an object."""
    calls = [{"id": "x", "function": {"name": "look", "arguments": {"at": "sea"}}}]
    yield event({"choices": [{"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}]})


def asked_of(script: Script, qtbot: QtBot, chat: tuple[ChatMessage, ...] = CHAT) -> tuple[Finished, str, list[Calling]]:
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.connect()
        ending = engine.ask(chat=chat, tools=(LOOK,))
        assert isinstance(ending, Finished), ending
        return ending, engine.text, [each for each in engine.events if isinstance(each, Calling)]


def test_calls_that_come_in_pieces_have_their_place_in_the_text(qtbot: QtBot) -> None:
    script = vllm()
    script.answer = calling
    begun = ChatMessage("assistant", "So: ")
    ending, text, told = asked_of(script, qtbot, (*CHAT, begun))
    look, count = ending.calls
    assert look.call == ToolCall("call-0", "look", '{"at": "sea"}')
    assert count.call == ToolCall("call-1", "count", "{}")
    whole = begun.content + text
    assert json.loads(whole[look.begin : look.end].split("tool_call>")[1][:-2]) == {
        "name": "look", "arguments": {"at": "sea"},
    }  # fmt: skip
    assert whole[: look.begin].endswith("I look.")
    assert (count.begin, count.end) == (look.end, len(whole))
    assert [(each.begin, each.name) for each in told] == [(look.begin, "look"), (look.begin, "count")]
    assert script.questions[-1]["tools"] == tool_fields((LOOK,))


def test_a_call_may_come_as_a_whole(qtbot: QtBot) -> None:
    script = another()
    script.answer = at_once
    ending, _, _ = asked_of(script, qtbot)
    assert [each.call for each in ending.calls] == [ToolCall("x", "look", '{"at": "sea"}')]


def test_calls_and_results_are_sent_as_turns(qtbot: QtBot) -> None:
    script = llama_server()
    call = ChatMessage("assistant", "", (ToolCall("a", "look", "{}"),))
    asked_of(script, qtbot, (*CHAT, call, ChatMessage("tool", "waves", tool_call_id="a", name="look")))
    _, asked, result = script.questions[-1]["messages"]
    assert asked["tool_calls"] == [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "a", "waves")


@pytest.mark.parametrize(
    "nonsense",
    [
        None, 5, ["x"], [{}], [{"index": "a"}], [{"function": None}], [{"function": {"name": 3, "arguments": 4}}],
        [{"index": 10**30, "function": {"name": ""}}],
    ],
)  # fmt: skip
def test_nonsense_calls_nothing(nonsense: Any) -> None:
    pieces = CallPieces()
    pieces.take({"tool_calls": nonsense})
    assert not list(pieces.written(0))


def test_no_answer_makes_any_number_of_calls() -> None:
    pieces = CallPieces()
    pieces.take({"tool_calls": [piece(index, "{}", "look") for index in range(MOST_CALLS + 9)]})
    assert len(list(pieces.written(0))) == MOST_CALLS


def test_parameters_that_are_no_schema_are_told_as_any() -> None:
    (told,) = tool_fields((Tool("odd", parameters="[1"),))
    assert told["function"]["parameters"] == {"type": "object", "properties": {}}
