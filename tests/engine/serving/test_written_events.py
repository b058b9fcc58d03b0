"""Events by the types of the clients of OpenAI and Anthropic, and by their own accumulation of them."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, MessageDeltaEvent, RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from engine.errors import CoppiceError
from engine.protocol.messages import Failed
from engine.serving.answers import Refused, Step
from engine.serving.messages.events import NO_JSON, MessageWriter
from engine.serving.responses.events import ResponseWriter
from engine.serving.responses.request import ResponsesFields
from engine.serving.responses.resource import begin
from engine.text.pieces import CallArguments, CallBegun, Content, Piece, Thought
from tests.campaigns.extent import choose
from tests.engine.serving.played_answers import CACHED_TOKENS, PROMPT_TOKENS, answers, steps_of

OF_OPENAI: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
OF_ANTHROPIC: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
CALL = [CallBegun(0, "call_7", "look"), CallArguments(0, '{"at": "th'), CallArguments(0, 'e sky"}')]
EVERYTHING = [Thought("Hm"), Thought("."), Content("Let me"), Content(" see."), *CALL]


def response_writer(**fields: Any) -> ResponseWriter:
    return ResponseWriter(begin(ResponsesFields(input="Hi", **fields), "model"))


def events_of(writer: ResponseWriter | MessageWriter, steps: Iterable[Step]) -> list[dict[str, Any]]:
    return [event for step in steps for event in writer.follow(step)]


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
def test_openais_client_makes_the_response_of_its_events(pieces: list[Piece]) -> None:
    writer = response_writer()
    events = events_of(writer, steps_of(pieces))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert_items_are_told_in_turn(events)
    whole = writer.response.model_dump(by_alias=True)
    assert Response.model_validate(whole, strict=True).output_text == text_of(pieces)
    told = accumulated_by_openai(events).to_dict()
    assert told["output"] == [without_nothing(item) for item in told["output"]] or told["output"]
    assert events[-1] == {"type": "response.completed", "sequence_number": len(events) - 1, "response": whole}


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


def without_nothing(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if value is not None}


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Content))


@settings(deadline=None, max_examples=choose(20, 300))
@given(pieces=answers(), shows_thoughts=st.booleans())
def test_anthropics_client_makes_the_message_of_its_events(pieces: list[Piece], shows_thoughts: bool) -> None:
    writer = MessageWriter("model", (), shows_thoughts)
    told = accumulated_by_anthropic(events_of(writer, steps_of(pieces)))
    whole = Message.model_validate(writer.message.model_dump(), strict=True)
    assert told.to_dict() == whole.to_dict() | {"usage": told.usage.to_dict()}
    assert told.usage.output_tokens == whole.usage.output_tokens == 2 * len(pieces)
    assert "".join(block.text for block in whole.content if block.type == "text") == text_of(pieces)
    assert shows_thoughts or all(block.type != "thinking" for block in whole.content)
