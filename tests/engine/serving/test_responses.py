"""`/v1/responses` as OpenAI's own client sees it."""

import json
from typing import Any

import openai
import pytest
from openai import OpenAI

from engine.engine import Engine
from engine.protocol.messages import ChatMessage, Event, Finished
from engine.protocol.options import GenerateOptions, SamplingOptions
from engine.protocol.tools import Tool
from engine.serving import answers
from tests.engine.serving.conftest import STORY, Running, Wait
from tests.engine.serving.played_tools import FLY, Flying, Hearing

CHAT = (ChatMessage("user", STORY),)
TWELVE = GenerateOptions(max_new_tokens=12)
TOOLS: list[Any] = [{"type": "function", "name": "fly", "parameters": {"type": "object"}, "strict": False}]


def ask(client: OpenAI, **fields: Any) -> Any:
    return client.responses.create(**{"model": "", "input": STORY, "max_output_tokens": 12, "temperature": 0, **fields})


def test_greedy_text_is_the_engine_s_own_streamed_or_not(running: Running, client: OpenAI) -> None:
    expected = running.text_of(CHAT, TWELVE)
    whole = ask(client)
    assert whole.output_text == expected
    assert (whole.status, whole.incomplete_details.reason, whole.store) == ("incomplete", "max_output_tokens", False)
    assert whole.usage.output_tokens == 12
    assert whole.usage.total_tokens == whole.usage.input_tokens + 12
    events = list(ask(client, stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == expected
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == expected


def test_the_client_s_own_stream_comes_to_the_same_response(running: Running, client: OpenAI) -> None:
    """An answer that ends by itself: at a word that no client of this API may name."""
    with client.responses.stream(model="", input=STORY, temperature=0, instructions="Be short.") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[-1] == "response.completed"
    assert final.status == "completed"
    options = GenerateOptions(max_new_tokens=1 << 20)
    assert final.output_text == running.text_of((ChatMessage("system", "Be short."), *CHAT), options)
    assert final.instructions == "Be short."


def test_a_conversation_in_items_is_that_of_the_chat(running: Running, client: OpenAI) -> None:
    said = ask(client)
    turns = [{"role": "user", "content": [{"type": "input_text", "text": STORY}]}, *said.output]
    more = ask(client, input=[*turns, {"role": "user", "content": "And then?"}])
    chat = (*CHAT, ChatMessage("assistant", said.output_text), ChatMessage("user", "And then?"))
    assert more.output_text == running.text_of(chat, TWELVE)
    assert more.usage.input_tokens_details.cached_tokens > 0


def test_sampling_is_the_engine_s(running: Running, client: OpenAI) -> None:
    options = GenerateOptions(SamplingOptions(temperature=0.9, top_p=0.8, seed=7), max_new_tokens=12)
    sampled = ask(client, temperature=0.9, top_p=0.8, extra_body={"seed": 7})
    assert sampled.output_text == running.text_of(CHAT, options)
    assert (sampled.temperature, sampled.top_p) == (0.9, 0.8)


def test_a_function_is_called_and_its_result_is_heard(client: OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "divider", lambda *_: Flying())
    hearing = Hearing(monkeypatch)
    whole = ask(client, tools=TOOLS, max_output_tokens=2)
    call = next(item for item in whole.output if item.type == "function_call")
    assert (call.name, json.loads(call.arguments)) == ("fly", {"to": "Rome"})
    with client.responses.stream(model="", input=STORY, tools=TOOLS, extra_body={"max_output_tokens": 2}) as stream:
        deltas = [event for event in stream if event.type == "response.function_call_arguments.delta"]
    assert deltas[-1].snapshot == FLY.arguments
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Landed."}
    ask(client, input=[{"role": "user", "content": STORY}, *whole.output, result], tools=TOOLS, tool_choice="none")
    first, last = hearing.asked[0], hearing.asked[-1]
    assert first.tools == (Tool("fly", "", '{"type": "object"}'),)
    assert last.tools == (), "what must not be called is not offered"
    assert last.chat == (
        *CHAT,
        ChatMessage("assistant", "", (FLY,)),
        ChatMessage("tool", "Landed.", tool_call_id=FLY.id, name="fly"),
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"previous_response_id": "resp_1"}, "stores no responses"),
        ({"background": True}, "background"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "Images"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "4"}]}, "'c'"),
        ({"input": []}, "empty"),
        ({"input": STORY * 3000}, "tokens"),
        ({"temperature": -1}, "temperature"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "schema"),
    ],
)
def test_what_cannot_be_answered_is_a_clear_400(client: OpenAI, fields: dict[str, Any], words: str) -> None:
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match=words):
            ask(client, stream=stream, **fields)


def test_another_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-99"):
        ask(client, model="gpt-99")


def test_an_answer_ends_when_its_reader_leaves(
    running: Running, client: OpenAI, trace: list[Event], until: Wait
) -> None:
    with ask(client, stream=True, max_output_tokens=1500, extra_body={"ignore_eos": True}) as stream:
        next(event for event in stream if event.type == "response.output_text.delta")
    until(lambda: any(isinstance(event, Finished) for event in trace))
    assert next(event.reason for event in trace if isinstance(event, Finished)) == "cancelled"


def test_signs_of_life_come_before_the_answer(
    running: Running, client: OpenAI, monkeypatch: pytest.MonkeyPatch, until: Wait
) -> None:
    """They are comments, which the client does not tell of: the raw lines are looked at."""
    monkeypatch.setattr(answers, "SECONDS_ALIVE", 0.01)
    with client.responses.with_streaming_response.create(
        model="", input=STORY, stream=True, max_output_tokens=1
    ) as response:
        lines = list(response.iter_lines())
    assert lines[0] == "event: response.created"
