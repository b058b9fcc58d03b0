"""Schemas and tools through OpenAI's own client, with the grammars and parsers behind them."""

import json
from functools import partial
from typing import Any

import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.engine.serving.conftest import STORY
from tests.engine.serving.played_engines import begin_answers_with
from tests.engine.serving.test_chat_completions import ask, joined

SCHEMA = {
    "type": "object",
    "properties": {"mood": {"enum": ["merry", "grim"]}},
    "required": ["mood"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "mood", "schema": SCHEMA, "strict": True}}
TOOL: Any = {"type": "function", "function": {"name": "tell", "description": "Tells the mood", "parameters": SCHEMA}}
LONG = {"max_tokens": 60}


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_is_kept_to(client: OpenAI, stream: bool) -> None:
    answer = ask(client, response_format=FORMAT, stream=stream, **LONG)
    text = joined(list(answer)) if stream else answer.choices[0].message.content
    assert json.loads(text)["mood"] in ("merry", "grim")


def test_a_grammar_is_kept_to_and_the_form_of_a_completion(client: OpenAI) -> None:
    assert ask(client, extra_body={"grammar": 'root ::= "a" | "b"'}).choices[0].message.content in ("a", "b")
    written = client.completions.create(model="", prompt=STORY, max_tokens=9, extra_body={"guided_choice": ["x", "y"]})
    assert written.choices[0].text in ("x", "y")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "tell"}}])
def test_a_call_that_is_required_comes_and_fits_its_schema(client: OpenAI, choice: Any) -> None:
    answer = ask(client, tools=[TOOL], tool_choice=choice, parallel_tool_calls=False, **LONG).choices[0]
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.message.tool_calls
    assert call.function.name == "tell"
    assert json.loads(call.function.arguments)["mood"] in ("merry", "grim")
    assert not answer.message.content


def test_a_form_holds_where_no_tool_may_be_called(client: OpenAI) -> None:
    answer = ask(client, tools=[TOOL], tool_choice="none", response_format=FORMAT, **LONG).choices[0].message
    assert json.loads(answer.content)["mood"] in ("merry", "grim")


SAID = "I look. "


@pytest.fixture
def calling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that say something and begin a call of their own accord, as no small model does."""
    begin_answers_with(monkeypatch, f"{SAID}<tool_call>")


@pytest.mark.usefixtures("calling")
@pytest.mark.parametrize("sampled", [{}, {"temperature": 1, "seed": 3}])
def test_a_call_that_an_answer_makes_as_it_likes_fits_its_schema(client: OpenAI, sampled: Any) -> None:
    fields: Any = {"tools": [TOOL], "parallel_tool_calls": False, **LONG, **sampled}
    answer = ask(client, **fields).choices[0]
    (call,) = answer.message.tool_calls
    assert json.loads(call.function.arguments)["mood"] in ("merry", "grim")
    assert (answer.message.content, answer.finish_reason) == (SAID.strip(), "tool_calls")
    chunks = list(ask(client, stream=True, **fields))
    parts = [part for chunk in chunks for part in chunk.choices[0].delta.tool_calls or ()]
    assert "".join(part.function.arguments or "" for part in parts) == call.function.arguments
    assert joined(chunks) == answer.message.content


@pytest.mark.parametrize("begun", [f"{SAID}<tool_call>", "<"])
def test_calls_fit_their_schemas_at_every_address(client: OpenAI, monkeypatch: pytest.MonkeyPatch, begun: str) -> None:
    """Of their own accord, and where an answer must have a form if it calls nothing."""
    begin_answers_with(monkeypatch, begun)
    form = {"format": {"type": "json_schema", "name": "mood", "schema": SCHEMA}} if begun == "<" else {}
    tool: Any = {"type": "function", "name": "tell", "parameters": SCHEMA}
    fields: Any = {"parallel_tool_calls": False, "max_output_tokens": 60, "text": form}
    call: Any = client.responses.create(model="", input=STORY, tools=[tool], **fields).output[-1]
    assert json.loads(call.arguments)["mood"] in ("merry", "grim")
    with Anthropic(base_url=str(client.base_url).removesuffix("/v1/"), api_key="none", max_retries=0) as anthropic:
        choice: Any = {"type": "auto", "disable_parallel_tool_use": True}
        tools: Any = [{"name": "tell", "input_schema": SCHEMA}]
        asked: Any = {"messages": [{"role": "user", "content": STORY}], "max_tokens": 60, "output_config": form}
        message = anthropic.messages.create(model="", tools=tools, tool_choice=choice, **asked)
        assert message.stop_reason == "tool_use"
        assert message.content[-1].input["mood"] in ("merry", "grim")


@pytest.mark.parametrize("temperature", [0, 1])
def test_free_text_beside_tools_is_what_it_would_be_without_a_grammar(
    client: OpenAI, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    fields: Any = {"tools": [TOOL], "max_tokens": 30, "temperature": temperature, "seed": 1}
    held = ask(client, **fields).choices[0].message.content
    monkeypatch.setattr("engine.serving.question.tool_constraint", lambda *_: None)
    assert held == ask(client, **fields).choices[0].message.content


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("calls", [False, True])
def test_beside_tools_an_answer_calls_or_has_its_form(
    client: OpenAI, monkeypatch: pytest.MonkeyPatch, calls: bool, stream: bool
) -> None:
    begin_answers_with(monkeypatch, "<" if calls else "{")
    fields: Any = {"tools": [TOOL], "response_format": FORMAT, "parallel_tool_calls": False, **LONG}
    if stream:
        chunks = list(ask(client, stream=True, **fields))
        parts = [part for chunk in chunks for part in chunk.choices[0].delta.tool_calls or ()]
        given, said = "".join(part.function.arguments or "" for part in parts), joined(chunks)
    else:
        message = ask(client, **fields).choices[0].message
        given, said = "".join(call.function.arguments for call in message.tool_calls or ()), message.content or ""
    assert json.loads(given if calls else said)["mood"] in ("merry", "grim")
    assert not (said if calls else given)


def test_a_call_is_streamed_in_parts(client: OpenAI) -> None:
    chunks = list(ask(client, tools=[TOOL], tool_choice="required", parallel_tool_calls=False, stream=True, **LONG))
    parts = [part for chunk in chunks for part in chunk.choices[0].delta.tool_calls or ()]
    assert parts[0].function.name == "tell"
    assert parts[0].id
    assert json.loads("".join(part.function.arguments or "" for part in parts))["mood"] in ("merry", "grim")
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "owl"}}}},
        {"response_format": FORMAT, "extra_body": {"guided_regex": "a+"}},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "fly"}}},
        {"tools": [{"type": "function", "function": {"name": ""}}]},
        {"extra_body": {"grammar": "root ::= ("}},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": ""}}},
        {"tools": [TOOL], "tool_choice": "required", "response_format": FORMAT, "extra_body": {"guided_regex": "a+"}},
    ],
)
def test_what_nothing_can_be_held_to_is_refused(client: OpenAI, fields: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError):
        ask(client, **fields)


def test_of_the_tools_only_those_that_are_allowed_are_called(client: OpenAI) -> None:
    """Both are sent, as always; the model hears of one."""
    swim = {"type": "function", "function": {"name": "swim"}}
    allowed: Any = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [swim]}}
    fields: Any = {"tool_choice": allowed, "parallel_tool_calls": False, **LONG}
    answer = ask(client, tools=[TOOL, swim], **fields)
    [call] = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "swim"
    alone = ask(client, tools=[swim], tool_choice="required", parallel_tool_calls=False, **LONG)
    assert answer.usage.prompt_tokens == alone.usage.prompt_tokens
    with pytest.raises(openai.BadRequestError, match="no tool 'swim'"):
        ask(client, tools=[TOOL], **fields)


@pytest.mark.parametrize("name", ["", "get weather", "<tool_call>", "x" * 257])
def test_names_that_no_call_could_be_read_with_are_refused_by_every_address(client: OpenAI, name: str) -> None:
    refused = partial(pytest.raises, openai.BadRequestError, match="name")
    with refused():
        ask(client, tools=[{"type": "function", "function": {"name": name}}])
    tool: Any = {"type": "function", "name": name}
    with refused():
        client.responses.create(model="", input=STORY, tools=[tool])
    body = {"messages": [{"role": "user", "content": STORY}], "max_tokens": 1}
    with refused():
        client.post("/messages", body={**body, "tools": [{"name": name, "input_schema": {}}]}, cast_to=object)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "fly"}])
def test_a_choice_of_no_tool_is_refused_by_every_address(client: OpenAI, choice: Any) -> None:
    named = choice if isinstance(choice, str) else {"type": "function", "function": {"name": "fly"}}
    with pytest.raises(openai.BadRequestError, match="there is none in the request"):
        ask(client, tool_choice=named)
    with pytest.raises(openai.BadRequestError, match="there is none in the request"):
        client.responses.create(model="", input=STORY, tool_choice=choice)
    one = {"type": "any"} if isinstance(choice, str) else {"type": "tool", "name": "fly"}
    body = {"messages": [{"role": "user", "content": STORY}], "max_tokens": 1, "tool_choice": one}
    with pytest.raises(openai.BadRequestError, match="there is none in the request"):
        client.post("/messages", body=body, cast_to=object)
