"""Events by the types of the clients of OpenAI and Anthropic, and by their own accumulation of them."""

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from engine.errors import CoppiceError
from engine.protocol.messages import Failed
from engine.serving.answers import Alive, Refused, Step
from engine.serving.messages.events import MessageWriter
from engine.serving.responses.events import ResponseWriter
from engine.serving.responses.request import ResponsesFields
from engine.serving.responses.resource import begin
from engine.text.pieces import CallArguments, CallBegun, Content, Piece, Thought
from engine.text.tools.arguments import NO_JSON
from tests.campaigns.extent import choose
from tests.engine.serving.played_answers import CACHED_TOKENS, PROMPT_TOKENS, answers, steps_of

OF_OPENAI: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
OF_ANTHROPIC: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
CALL: list[Piece] = [CallBegun(0, "call_7", "look"), CallArguments(0, '{"at": "th'), CallArguments(0, 'e sky"}')]
EVERYTHING: list[Piece] = [Thought("Hm"), Thought("."), Content("Let me"), Content(" see."), *CALL]


def response_writer(**fields: Any) -> ResponseWriter:
    return ResponseWriter(begin(ResponsesFields(input="Hi", **fields), "model"))


def events_of(writer: ResponseWriter | MessageWriter, steps: Iterable[Step]) -> list[dict[str, Any]]:
    """All but the signs of life that are no events."""
    return [event for step in steps for event in writer.follow(step) if not isinstance(event, Alive)]


def accumulated_by_openai(events: list[dict[str, Any]]) -> Any:
    state: ResponseStreamState[None] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events:
        state.handle_event(OF_OPENAI.validate_python(event))
    return state._completed_response


def accumulated_by_anthropic(events: list[dict[str, Any]]) -> Any:
    message, arguments = None, dict[int, bytes]()
    for event in events:
        if event["type"] != "ping":
            told = OF_ANTHROPIC.validate_python(event)
            message = accumulate_event(event=told, current_snapshot=message, json_bufs=arguments)
    return message


@settings(deadline=None, max_examples=choose(20, 300))
@given(pieces=answers())
@example(pieces=EVERYTHING)
def test_openais_client_makes_the_response_of_its_events(pieces: list[Piece]) -> None:
    writer = response_writer()
    events = events_of(writer, steps_of(pieces))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert_items_are_told_in_turn(events)
    whole = writer.response.model_dump(by_alias=True)
    assert Response.model_validate(whole, strict=True).output_text == text_of(pieces)
    assert accumulated_by_openai(events).output_text == text_of(pieces)
    assert events[-1] == {"type": "response.completed", "sequence_number": len(events) - 1, "response": whole}
    assert [event["delta"] for event in events if event["type"].endswith(".delta")] == texts_of(pieces)
    assert arguments_of_response(whole) == arguments_of(pieces)


def assert_items_are_told_in_turn(events: list[dict[str, Any]]) -> None:
    """One after the other, each from its beginning to its end, with every delta in its item."""
    current = -1
    for event, following in pairwise(events[2:]):
        if event["type"] == "response.output_item.added":
            current += 1
        if "output_index" in event:
            assert event["output_index"] == current
        assert (event["type"] == "response.output_item.done") == (
            following["type"] in ("response.output_item.added", "response.completed")
        )


def texts_of(pieces: list[Piece]) -> list[str]:
    return [piece.text for piece in pieces if not isinstance(piece, CallBegun)]


def arguments_of(pieces: list[Piece]) -> list[str]:
    """Of each call."""
    return [
        "".join(piece.text for piece in pieces if isinstance(piece, CallArguments) and piece.place == begun.place)
        for begun in pieces
        if isinstance(begun, CallBegun)
    ]


def arguments_of_response(whole: dict[str, Any]) -> list[str]:
    return [item["arguments"] for item in whole["output"] if item["type"] == "function_call"]


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Content))


@settings(deadline=None, max_examples=choose(20, 300))
@given(pieces=answers(), shows_thoughts=st.booleans())
@example(pieces=EVERYTHING, shows_thoughts=True)
@example(pieces=EVERYTHING, shows_thoughts=False)
def test_anthropics_client_makes_the_message_of_its_events(pieces: list[Piece], shows_thoughts: bool) -> None:
    writer = MessageWriter("model", (), shows_thoughts)
    events = events_of(writer, steps_of(pieces))
    told = accumulated_by_anthropic(events)
    whole = Message.model_validate(writer.message.model_dump(), strict=True)
    assert told.to_dict(exclude_none=True) == whole.to_dict(exclude_none=True)
    assert whole.usage.output_tokens == 2 * len(pieces)
    assert "".join(block.text for block in whole.content if block.type == "text") == text_of(pieces)
    deltas = [list(event["delta"].values())[1] for event in events if event["type"] == "content_block_delta"]
    assert deltas == texts_of([piece for piece in pieces if shows_thoughts or not isinstance(piece, Thought)])
    assert [block.input for block in whole.content if block.type == "tool_use"] == [
        json.loads(arguments) for arguments in arguments_of(pieces)
    ]
    assert shows_thoughts or all(block.type != "thinking" for block in whole.content)


def test_the_events_of_a_response_in_their_order() -> None:
    kinds = [event["type"].removeprefix("response.") for event in events_of(response_writer(), steps_of(EVERYTHING))]
    part = ["output_item.added", "content_part.added"]
    assert kinds == [
        *("created", "in_progress"),
        *(*part, "reasoning_text.delta", "reasoning_text.delta", "reasoning_text.done"),
        *("content_part.done", "output_item.done"),
        *(*part, "output_text.delta", "output_text.delta", "output_text.done"),
        *("content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        "completed",
    ]


def test_the_events_of_a_message_in_their_order() -> None:
    kinds = [event["type"] for event in events_of(MessageWriter("model", (), True), steps_of(EVERYTHING))]
    block = ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"]
    assert [kind for kind in kinds if kind != "ping"] == ["message_start", *3 * block, "message_delta", "message_stop"]
    assert kinds.index("ping") > 0, "a stream begins with its message"


@pytest.mark.parametrize(
    ("pieces", "reason", "stop", "expected"),
    [
        ([Content("Yes")], "stop", "", ("end_turn", None)),
        ([Content("Yes")], "stop", "END", ("stop_sequence", "END")),
        ([Content("Yes")], "stop", "\nUser:", ("end_turn", None)),
        ([Content("Yes")], "length", "", ("max_tokens", None)),
        (CALL, "stop", "", ("tool_use", None)),
        (CALL, "length", "", ("max_tokens", None)),
    ],
)
def test_why_a_message_ends(pieces: list[Piece], reason: Any, stop: str, expected: tuple[str, str | None]) -> None:
    """A stop string that the client did not name is the model's own way to end."""
    writer = MessageWriter("model", ["END"], shows_thoughts=True)
    events = events_of(writer, steps_of(pieces, reason, stop))
    assert (writer.message.stop_reason, writer.message.stop_sequence) == expected
    assert tuple(events[-2]["delta"].values()) == expected


def test_a_response_that_is_cut_off_says_so() -> None:
    writer = response_writer(max_output_tokens=4)
    last = events_of(writer, steps_of([Thought("Hm"), Content("Ye")], "length"))[-1]
    assert OF_OPENAI.validate_python(last).type == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [item["status"] for item in last["response"]["output"]] == ["completed", "incomplete"]


def test_usage_counts_the_cached_and_the_reasoning_tokens() -> None:
    writer, other = response_writer(), MessageWriter("model", (), shows_thoughts=True)
    steps = steps_of([Thought("Hm"), Thought("."), Content("Yes"), Content(".")])
    events_of(writer, steps)
    assert writer.response.usage
    assert writer.response.usage.model_dump() == {
        "input_tokens": PROMPT_TOKENS,
        "input_tokens_details": {"cached_tokens": CACHED_TOKENS, "cache_write_tokens": PROMPT_TOKENS - CACHED_TOKENS},
        "output_tokens": 8,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": PROMPT_TOKENS + 8,
    }
    started = next(event for event in events_of(other, steps) if event["type"] == "message_start")
    assert started["message"]["usage"]["input_tokens"] == PROMPT_TOKENS - CACHED_TOKENS
    assert other.message.usage.cache_read_input_tokens == CACHED_TOKENS


@pytest.mark.parametrize(
    ("kind", "words", "code"),
    [("input", "Too hot.", "invalid_prompt"), ("internal", "The server met", "server_error")],
)
def test_a_failure_in_the_middle_is_an_event(kind: Any, words: str, code: str) -> None:
    """What nobody expected is told without its details."""
    failure: CoppiceError = Refused(Failed(1, "Too hot.", "Wait.", kind))
    writer = response_writer()
    events_of(writer, steps_of([Content("Ye")])[:3])
    told = OF_OPENAI.validate_python(writer.fail(failure))
    assert (told.type, told.response.status, told.response.error.code) == ("response.failed", "failed", code)
    assert told.response.error.message.startswith(words)
    (item,) = told.response.output
    assert (item.status, item.content[0].text) == ("incomplete", "Ye"), "what was told"


@pytest.mark.parametrize("arguments", ["", '{"at": "th', "[1]", "[" * 9999, r'{"at": "\ud800"}', '{"at": 1e999}'])
def test_arguments_that_cannot_be_an_object_are_passed_on_as_text(arguments: str) -> None:
    writer = MessageWriter("model", (), shows_thoughts=True)
    events_of(writer, steps_of([CallBegun(0, "call_7", "look"), CallArguments(0, arguments)], "length"))
    assert writer.message.model_dump()["content"][0]["input"] == {NO_JSON: arguments}


def test_reasoning_that_is_not_shown_is_a_sign_of_life() -> None:
    writer = MessageWriter("model", (), shows_thoughts=False)
    kinds = [event["type"] for event in events_of(writer, steps_of([Thought("Hm"), Thought("."), Content("Yes")]))]
    assert kinds[:4] == ["message_start", "ping", "ping", "content_block_start"]
