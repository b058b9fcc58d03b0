"""`/v1/responses` as OpenAI's own client sees it."""

import json
from typing import Any, Literal

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from engine.protocol.messages import ChatMessage, Event, Finished
from engine.protocol.options import GenerateOptions, SamplingOptions
from engine.protocol.tools import Tool, ToolChoice
from engine.serving.responses.request import ResponsesFields
from tests.engine.serving.conftest import STORY, Running, Wait
from tests.engine.serving.played_engines import FLY, Flying, Hearing, begin_answers_with, break_after_the_first_round

CHAT = (ChatMessage("user", STORY),)
TWELVE = GenerateOptions(max_new_tokens=12)
ALLOWED = {"type": "allowed_tools", "mode": "auto"}
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
    """It ends by itself: the client knows no other end."""
    with client.responses.stream(model="", input="Good night!", temperature=0, instructions="Be short.") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[-1] == "response.completed"
    assert final.status == "completed"
    chat = (ChatMessage("system", "Be short."), ChatMessage("user", "Good night!"))
    assert final.output_text == running.text_of(chat, GenerateOptions(max_new_tokens=1 << 20))
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
    monkeypatch.setattr("engine.serving.question.divider_for", lambda *_: Flying())
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


class Mood(BaseModel):
    """What the answer is to be."""

    mood: Literal["merry", "grim"]


def test_an_answer_is_held_to_a_schema_and_parsed(client: OpenAI) -> None:
    whole = client.responses.parse(model="", input=STORY, text_format=Mood, max_output_tokens=60)
    assert whole.output_parsed
    assert whole.output_parsed.mood in ("merry", "grim")
    loose = ask(client, text={"format": {"type": "json_object"}}, max_output_tokens=4)
    assert loose.output_text.lstrip().startswith("{")


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ({}, ToolChoice()),
        ({"tool_choice": "none"}, ToolChoice("none")),
        ({"tool_choice": "required", "parallel_tool_calls": False}, ToolChoice("required", parallel=False)),
        ({"tool_choice": {"type": "function", "name": "fly"}}, ToolChoice("required", "fly")),
        ({"tool_choice": {**ALLOWED, "tools": [{"type": "function", "name": "fly"}]}}, ToolChoice(allowed=("fly",))),
    ],
)
def test_the_choice_of_tools_is_the_engine_s(given: dict[str, Any], choice: ToolChoice) -> None:
    assert ResponsesFields.model_validate({"input": STORY, **given}).choice == choice


def test_a_call_that_is_required_comes(client: OpenAI) -> None:
    tool = {**TOOLS[0], "parameters": Mood.model_json_schema(), "strict": True}
    fields: Any = {"tools": [tool], "tool_choice": {"type": "function", "name": "fly"}}
    with client.responses.stream(model="", input=STORY, max_output_tokens=60, temperature=0, **fields) as stream:
        (call,) = stream.get_final_response().output
    assert call.type == "function_call"
    assert Mood.model_validate(call.parsed_arguments)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"previous_response_id": "resp_1"}, "stores no responses"),
        ({"background": True}, "background"),
        ({"include": ["message.output_text.logprobs"]}, "log-probabilities"),
        ({"top_logprobs": 3}, "log-probabilities"),
        ({"extra_body": {"coppice": {"rounds": True}}}, "Rounds"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "not fetched"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "4"}]}, "'c'"),
        ({"input": []}, "empty"),
        ({"input": [{"type": "computer_call"}]}, "Input should be a message, a function_call, a function_call_output"),
        ({"input": STORY * 3000}, "tokens"),
        ({"temperature": -1}, "temperature"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "swim"}}, "swim"),
        ({"tools": TOOLS, "tool_choice": {**ALLOWED, "tools": [{"type": "function", "name": "swim"}]}}, "swim"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "schema"),
        *(
            ({"tools": [*TOOLS, {"type": kind}]}, f"no tool of the type '{kind}'")
            for kind in ("web_search", "file_search", "code_interpreter", "mcp", "local_shell")
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_answered_is_a_clear_400(
    client: OpenAI, fields: dict[str, Any], words: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        ask(client, stream=stream, **fields)


def test_a_tool_that_takes_any_text_is_called_with_text(client: OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    hearing = Hearing(monkeypatch)
    begin_answers_with(monkeypatch, '<tool_call>\n{"name": "patch", "arguments": {"input": "a \\"b\\"\\n')
    form = {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}
    tool: Any = {"type": "custom", "name": "patch", "description": "Patches.", "format": form}
    fields: Any = {"tools": [tool, *TOOLS], "parallel_tool_calls": False, "max_output_tokens": 90}
    whole = ask(client, **fields)
    (call,) = whole.output
    assert (call.type, call.name, call.input[:6]) == ("custom_tool_call", "patch", 'a "b"\n')
    assert hearing.asked[-1].tools[0].description == "Patches.\n\nstart: /x/"
    with client.responses.stream(model="", input=STORY, temperature=0, **fields) as stream:
        events = list(stream)
    assert [event.type for event in events if "input" in event.type][-1] == "response.custom_tool_call_input.done"
    assert [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"] == [call.input]
    result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"}
    ask(client, input=[{"role": "user", "content": STORY}, call, result], **fields)
    _, said, given = hearing.asked[-1].chat
    assert json.loads(said.tool_calls[0].arguments) == {"input": call.input}
    assert (given.role, given.content) == ("tool", "done")


def test_another_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-99"):
        ask(client, model="gpt-99")


def test_a_failure_in_the_middle_is_the_last_event(client: OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    break_after_the_first_round(monkeypatch)
    *_, before, last = ask(client, stream=True)
    assert (before.type, last.type) == ("response.output_text.delta", "response.failed")
    assert (last.response.status, last.response.error.code) == ("failed", "server_error")
    with pytest.raises(openai.InternalServerError):
        ask(client)


def test_an_answer_ends_when_its_reader_leaves(
    running: Running, client: OpenAI, trace: list[Event], until: Wait
) -> None:
    with ask(client, stream=True, max_output_tokens=1500, extra_body={"ignore_eos": True}) as stream:
        next(event for event in stream if event.type == "response.output_text.delta")
    until(lambda: any(isinstance(event, Finished) for event in trace))
    assert next(event.reason for event in trace if isinstance(event, Finished)) == "cancelled"
