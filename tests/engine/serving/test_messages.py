"""`/v1/messages` as Anthropic's own client sees it."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic

from engine.protocol.messages import ChatMessage, Event, Finished
from engine.protocol.options import GenerateOptions, SamplingOptions
from engine.protocol.tools import Tool, ToolChoice
from engine.serving.messages.request import CountFields
from engine.text.pieces import AnswerPieces, Piece, Thought
from tests.engine.serving.conftest import PATIENCE_SECONDS, STORY, Running, Wait
from tests.engine.serving.played_engines import FLY, Flying, Hearing, break_after_the_first_round

ASKED: list[Any] = [{"role": "user", "content": STORY}]
CHAT = (ChatMessage("user", STORY),)
TWELVE = GenerateOptions(max_new_tokens=12)
TOOLS: list[Any] = [{"name": "fly", "description": "Fly there.", "input_schema": {"type": "object"}}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"mood": {"enum": ["merry", "grim"]}},
    "required": ["mood"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[Anthropic]:
    """A client as people use it, which gives up at the first error."""
    with Anthropic(base_url=running.address, api_key="none", max_retries=0, timeout=PATIENCE_SECONDS) as client:
        yield client


def fields_of(extra: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """`extra`: what this client sends but has no names for, such as the temperature, which its newer models refuse."""
    more = {"temperature": 0, **(extra or {})}
    return {"model": "default", "messages": ASKED, "max_tokens": 12, "extra_body": more, **fields}


def ask(client: Anthropic, **fields: Any) -> Any:
    return client.messages.create(**fields_of(**fields))


def test_greedy_text_is_the_engine_s_own_streamed_or_not(running: Running, client: Anthropic) -> None:
    expected = running.text_of(CHAT, TWELVE)
    whole = ask(client)
    assert [block.text for block in whole.content] == [expected]
    assert (whole.stop_reason, whole.stop_sequence, whole.model) == ("max_tokens", None, running.engine.name)
    with client.messages.stream(**fields_of()) as stream:
        assert "".join(stream.text_stream) == expected
        final = stream.get_final_message()
    assert told(final) == told(whole)
    assert final.usage.output_tokens == whole.usage.output_tokens == 12
    assert final.usage.cache_read_input_tokens, "it was asked before"


def told(message: Any) -> dict[str, Any]:
    """All that does not differ from one request to the next."""
    return {**message.to_dict(exclude_none=True), "id": "", "usage": {}}


def test_tokens_are_counted_as_they_are_read(client: Anthropic) -> None:
    fields = {"messages": ASKED, "system": [{"type": "text", "text": "Be short."}]}
    counted = client.messages.count_tokens(model="default", **fields)  # type: ignore[arg-type]
    usage = ask(client, max_tokens=1, **fields).usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


def test_the_stop_sequence_is_told(running: Running, client: Anthropic) -> None:
    expected = running.text_of(CHAT, TWELVE)
    word = expected.split()[3]
    whole = ask(client, stop_sequences=["never said", word])
    with client.messages.stream(**fields_of(stop_sequences=["never said", word])) as stream:
        assert told(stream.get_final_message()) == told(whole)
    assert (whole.stop_reason, whole.stop_sequence) == ("stop_sequence", word)
    assert whole.content[0].text == expected[: expected.index(word)]


def test_an_answer_that_ends_by_itself_has_no_stop_sequence(client: Anthropic) -> None:
    message = ask(client, messages=[{"role": "user", "content": "Good night!"}], max_tokens=1 << 20)
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)


def test_sampling_is_the_engine_s(running: Running, client: Anthropic) -> None:
    sampling = SamplingOptions(temperature=0.9, top_p=0.8, top_k=9, seed=7)
    sampled = ask(client, extra={"temperature": 0.9, "top_p": 0.8, "top_k": 9, "seed": 7})
    assert sampled.content[0].text == running.text_of(CHAT, GenerateOptions(sampling, max_new_tokens=12))


def test_an_answer_that_is_begun_is_gone_on_with(running: Running, client: Anthropic) -> None:
    begun = "Once upon a time"
    expected = running.text_of((*CHAT, ChatMessage("assistant", begun)), TWELVE)
    assert ask(client, messages=[*ASKED, {"role": "assistant", "content": begun}]).content[0].text == expected


def test_a_tool_is_used_and_its_result_is_heard(client: Anthropic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.serving.question.divider_for", lambda *_: Flying())
    hearing = Hearing(monkeypatch)
    with client.messages.stream(**fields_of(tools=TOOLS, tool_choice={"type": "auto"}, max_tokens=1)) as stream:
        parts = [event.partial_json for event in stream if event.type == "input_json"]
        streamed = stream.get_final_message()
    assert "".join(parts) == FLY.arguments
    used = streamed.content[0]
    assert used.type == "tool_use"
    assert (used.id, used.name, used.input) == (FLY.id, "fly", {"to": "Rome"})
    offered = hearing.asked[-1].tools
    assert offered == (Tool("fly", "Fly there.", '{"type": "object"}'),)
    result = {"type": "tool_result", "tool_use_id": used.id, "content": [{"type": "text", "text": "Landed."}]}
    turns = [*ASKED, {"role": "assistant", "content": streamed.content}, {"role": "user", "content": [result]}]
    ask(client, messages=turns, tools=TOOLS, tool_choice={"type": "none"})
    last = hearing.asked[-1]
    assert not last.tools, "what must not be used is not offered"
    assert [turn.role for turn in last.chat] == ["user", "assistant", "tool"]
    assert last.chat[-1].content == "Landed."


def test_a_tool_that_has_to_be_used_is(client: Anthropic) -> None:
    tools = [{"name": "fly", "input_schema": SCHEMA}]
    message = ask(client, tools=tools, tool_choice={"type": "tool", "name": "fly"}, max_tokens=60)
    (used,) = message.content
    assert used.type == message.stop_reason == "tool_use"
    assert used.input["mood"] in ("merry", "grim")


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        (None, ToolChoice()),
        ({"type": "auto"}, ToolChoice()),
        ({"type": "none"}, ToolChoice("none")),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required", parallel=False)),
        ({"type": "tool", "name": "fly"}, ToolChoice("required", "fly")),
    ],
)
def test_the_choice_of_tools_is_the_engine_s(given: dict[str, Any] | None, choice: ToolChoice) -> None:
    assert CountFields.model_validate({"messages": ASKED, "tool_choice": given}).choice == choice


def test_an_answer_is_held_to_a_schema(client: Anthropic) -> None:
    message = ask(client, output_config={"format": {"type": "json_schema", "schema": SCHEMA}}, max_tokens=60)
    assert json.loads(message.content[0].text)["mood"] in ("merry", "grim")


def test_thinking_is_told_to_who_asks_for_it(client: Anthropic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnswerPieces, "push", lambda _, text: thoughts_of(text))
    with client.messages.stream(**fields_of(thinking={"type": "adaptive"})) as stream:
        thoughts = [event.thinking for event in stream if event.type == "thinking"]
        block = stream.get_final_message().content[0]
    assert block.type == "thinking"
    assert block.thinking == "".join(thoughts)
    for field in ({"thinking": {"type": "disabled"}}, {}):
        assert ask(client, **field).content == []


def thoughts_of(text: str) -> list[Piece]:
    return [Thought(text)] if text else []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "source.type: Field required"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}]}, "'c'"),
        ({"messages": []}, "empty"),
        ({"extra": {"coppice": {"rounds": True}}}, "Rounds"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "no tool of the type 'web_search_2"),
        ({"messages": [{"role": "user", "content": STORY * 3000}]}, "tokens"),
        ({"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "files cannot be read"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_answered_is_a_clear_400(
    client: Anthropic, fields: dict[str, Any], words: str, stream: bool
) -> None:
    with pytest.raises(anthropic.BadRequestError, match=words) as raised:
        ask(client, stream=stream, **fields)
    assert raised.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]


def test_another_model_is_not_found(client: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="claude-99"):
        ask(client, model="claude-99")
    with pytest.raises(anthropic.NotFoundError, match="claude-99"):
        client.messages.count_tokens(model="claude-99", messages=ASKED)


def test_a_failure_in_the_middle_is_the_last_event(client: Anthropic, monkeypatch: pytest.MonkeyPatch) -> None:
    break_after_the_first_round(monkeypatch)
    with client.messages.stream(**fields_of()) as stream:
        next(stream.text_stream)
        with pytest.raises(anthropic.APIStatusError, match="unexpected error"):
            stream.until_done()
    with pytest.raises(anthropic.InternalServerError):
        ask(client)


def test_an_answer_ends_when_its_reader_leaves(client: Anthropic, trace: list[Event], until: Wait) -> None:
    with client.messages.stream(**fields_of(max_tokens=1500, extra={"ignore_eos": True})) as stream:
        next(stream.text_stream)
    until(lambda: any(isinstance(event, Finished) for event in trace))
    assert next(event.reason for event in trace if isinstance(event, Finished)) == "cancelled"
