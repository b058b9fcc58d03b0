"""Ollama's addresses as its own client sees them."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any
from unittest.mock import AsyncMock

import httpx2 as httpx
import ollama
import pytest
from hypothesis import given, settings
from ollama import ChatResponse
from pydantic import ValidationError

from engine.protocol.messages import ChatMessage, Event, Finished
from engine.protocol.options import Constraint, GenerateOptions, SamplingOptions
from engine.protocol.reasoning import COMMON
from engine.protocol.tools import Tool, ToolCall
from engine.serving import question
from engine.serving.answers import Alive, Progress, Step
from engine.serving.ollama.lines import LineWriter
from engine.serving.ollama.request import OptionsField
from engine.serving.ollama.turns import TurnField, chat_of
from engine.text.pieces import CallArguments, CallBegun, Content, Piece, Thought
from engine.text.tools.arguments import NO_JSON, arguments_of
from tests.campaigns.extent import choose
from tests.engine.serving.conftest import PATIENCE_SECONDS, STORY, Running, Wait
from tests.engine.serving.played_answers import PROMPT_TOKENS, answers, steps_of
from tests.engine.serving.played_engines import FLY, Flying, Hearing, break_after_the_first_round

ASKED = [{"role": "user", "content": STORY}]
CHAT = (ChatMessage("user", STORY),)
TWELVE = GenerateOptions(max_new_tokens=12)
GREEDY = {"temperature": 0, "num_predict": 12}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "fly", "description": "Fly there.", "parameters": {"type": "object"}}}
]
SCHEMA = {"type": "object", "properties": {"mood": {"enum": ["merry", "grim"]}}, "required": ["mood"]}


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[ollama.Client]:
    """A client as people use it."""
    client = ollama.Client(host=running.address, timeout=PATIENCE_SECONDS)
    yield client
    client._client.close()


def ask(client: ollama.Client, **fields: Any) -> Any:
    return client.chat(**{"model": "default", "messages": ASKED, "options": GREEDY, **fields})


def test_greedy_text_is_the_engine_s_own_streamed_or_not(running: Running, client: ollama.Client) -> None:
    expected = running.text_of(CHAT, TWELVE)
    whole = ask(client)
    assert (whole.message.role, whole.message.content) == ("assistant", expected)
    assert (whole.model, whole.done, whole.done_reason) == (running.engine.name, True, "length")
    lines = list(ask(client, stream=True))
    assert "".join(line.message.content for line in lines) == expected
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    last = lines[-1]
    assert last.eval_count == whole.eval_count == 12
    assert last.prompt_eval_count == whole.prompt_eval_count > 0
    assert last.eval_duration > 0
    assert last.total_duration == last.prompt_eval_duration + last.eval_duration


def test_a_prompt_is_a_question_and_a_raw_one_is_gone_on_with(running: Running, client: ollama.Client) -> None:
    asked: dict[str, Any] = {"model": "default", "options": GREEDY}
    assert client.generate(prompt=STORY, **asked).response == running.text_of(CHAT, TWELVE)
    told = running.text_of((ChatMessage("system", "Be short."), *CHAT), TWELVE)
    assert client.generate(prompt=STORY, system="Be short.", **asked).response == told
    lines = list(client.generate(prompt="Once upon", raw=True, stream=True, **asked))
    expected = running.openai().completions.create(model="default", prompt="Once upon", max_tokens=12, temperature=0)
    assert "".join(line.response or "" for line in lines) == expected.choices[0].text


def test_an_answer_that_is_begun_is_gone_on_with(running: Running, client: ollama.Client) -> None:
    begun = "Once upon a time"
    expected = running.text_of((*CHAT, ChatMessage("assistant", begun)), TWELVE)
    assert ask(client, messages=[*ASKED, {"role": "assistant", "content": begun}]).message.content == expected


def test_sampling_is_the_engine_s(running: Running, client: ollama.Client) -> None:
    sampling = SamplingOptions(temperature=0.9, top_p=0.8, top_k=9, seed=7)
    asked = {"temperature": 0.9, "top_p": 0.8, "top_k": 9, "seed": 7, "num_predict": 12, "num_ctx": 512}
    assert ask(client, options=asked).message.content == running.text_of(
        CHAT, GenerateOptions(sampling, max_new_tokens=12)
    )


def test_options_that_are_missing_are_ollama_s() -> None:
    drawn = OptionsField(seed=3).sampling()
    assert drawn == SamplingOptions(temperature=0.8, top_k=40, top_p=0.9, seed=3)


def test_numbers_and_nothing_may_be_written_as_ollama_takes_them(running: Running) -> None:
    asked = OptionsField.model_validate({"num_predict": 1e3, "top_k": 9.0, "seed": 7.0, "stop": None})
    assert (asked.num_predict, asked.top_k, asked.seed) == (1000, 9, 7)
    with pytest.raises(ValidationError, match="valid integer"):
        OptionsField.model_validate({"num_predict": 2.5})
    with httpx.Client(base_url=running.address) as plain:
        for path, said in (("chat", {"messages": None}), ("generate", {"prompt": None}), ("show", {"name": None})):
            assert plain.post(f"/api/{path}", json={"model": "default", "stream": False, **said}).status_code == 200


def test_a_stop_string_ends_the_answer(running: Running, client: ollama.Client) -> None:
    expected = running.text_of(CHAT, TWELVE)
    word = expected.split()[3]
    answered = ask(client, options={**GREEDY, "stop": [word]})
    assert (answered.message.content, answered.done_reason) == (expected[: expected.index(word)], "stop")


@pytest.mark.parametrize("most", [0, -1, -2])
def test_an_answer_without_end_ends_by_itself(client: ollama.Client, most: int) -> None:
    night = [{"role": "user", "content": "Good night!"}]
    answered = ask(client, messages=night, options={"temperature": 0, "num_predict": most})
    assert answered.done_reason == "stop"


def test_a_tool_is_called_and_its_result_is_heard(client: ollama.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.serving.question.divider_for", lambda *_: Flying())
    hearing = Hearing(monkeypatch)
    lines = list(ask(client, tools=TOOLS, stream=True, options={"temperature": 0, "num_predict": 1}))
    calls = [call for line in lines for call in line.message.tool_calls or ()]
    assert [(call.function.name, call.function.arguments) for call in calls] == [("fly", json.loads(FLY.arguments))]
    assert hearing.asked[-1].tools == (Tool("fly", "Fly there.", '{"type": "object"}'),)
    called = {"role": "assistant", "content": "", "tool_calls": calls}
    ask(client, messages=[*ASKED, called, {"role": "tool", "tool_name": "fly", "content": "Landed."}])
    assert [turn.role for turn in hearing.asked[-1].chat] == ["user", "assistant", "tool"]
    assert (hearing.asked[-1].chat[-1].content, hearing.asked[-1].chat[-1].name) == ("Landed.", "fly")


def messages_of(*said: dict[str, Any]) -> list[TurnField]:
    return [TurnField.model_validate(each) for each in said]


def test_results_without_ids_go_to_the_calls_in_their_order(running: Running) -> None:
    names = ("look", "fly", "look")
    calls = [{"function": {"name": name, "arguments": {"at": place}}} for place, name in enumerate(names)]
    results = [{"role": "tool", "tool_name": "look", "content": text} for text in ("first", "second")]
    told = chat_of(
        messages_of(
            ASKED[0],
            {"role": "assistant", "tool_calls": calls},
            *results,
            {"role": "tool", "content": "whose"},
        ),
        running.engine.reasoning_marks,
    )
    by_id = {call.id: (call.name, json.loads(call.arguments)["at"]) for call in told[1].tool_calls}
    assert len(by_id) == 3
    assert [(by_id[turn.tool_call_id], turn.content) for turn in told[2:]] == [
        (("look", 0), "first"), (("look", 2), "second"), (("fly", 1), "whose"),
    ]  # fmt: skip


def test_a_result_by_its_id_and_one_of_no_call(running: Running, client: ollama.Client) -> None:
    calls = [{"id": name, "function": {"name": "look", "arguments": {}}} for name in ("a", "b")]
    turns = messages_of(
        {"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": "b", "content": "Seen."}
    )
    assert chat_of(turns, running.engine.reasoning_marks)[-1].tool_call_id == "b"
    with pytest.raises(ollama.ResponseError, match="fly") as refused:
        ask(client, messages=[*ASKED, {"role": "tool", "tool_name": "fly", "content": "Landed."}])
    assert refused.value.status_code == 400


def test_ids_that_are_made_up_are_none_of_the_client_s() -> None:
    calls = [
        {"id": "call_1", "function": {"name": "look"}},
        {"id": None, "function": {"name": "fly", "arguments": None}},
        {"function": {"name": "land"}},
    ]
    results = [{"role": "tool", "tool_name": name, "content": name} for name in ("land", "fly", "look")]
    told = chat_of(messages_of({"role": "assistant", "content": None, "tool_calls": calls}, *results), COMMON)
    assert len({call.id for call in told[0].tool_calls}) == 3
    assert [(turn.name, turn.content) for turn in told[1:]] == [(name, name) for name in ("land", "fly", "look")]


@pytest.mark.parametrize("said", [{}, {"tool_name": "look"}])
def test_many_calls_and_results_are_matched_in_turn(said: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = list[str]()

    class Counted(ToolCall):
        def __getattribute__(self, name: str) -> Any:
            looked_at.append(name)
            return super().__getattribute__(name)

    monkeypatch.setattr("engine.serving.ollama.turns.ToolCall", Counted)
    calls = [{"function": {"name": "look"}}] * 300
    asked = messages_of({"role": "assistant", "tool_calls": calls}, *[{"role": "tool", **said, "content": "x"}] * 300)
    assert len(chat_of(asked, COMMON)) == 301
    assert len(looked_at) < 20 * 300, "each call is looked at a few times, not once for each result"


def test_reasoning_that_is_sent_back_stands_before_its_answer(running: Running) -> None:
    said = {"role": "assistant", "content": "Yes.", "thinking": "Hm."}
    marks = running.engine.reasoning_marks
    assert chat_of(messages_of(ASKED[0], said), marks)[-1].content == (
        f"{marks.begin.strip()}\nHm.\n{marks.end}\n\nYes."
    )


def test_an_answer_is_held_to_its_format(client: ollama.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(ask(client, format=SCHEMA, options={"temperature": 0}).message.content)["mood"]
    hearing = Hearing(monkeypatch)
    ask(client, format="json")
    assert hearing.asked[-1].options.constraint == Constraint("json")
    ask(client, format="")
    assert hearing.asked[-1].options.constraint is None


def test_what_is_loaded_is_told(running: Running, client: ollama.Client) -> None:
    loaded = running.engine.describe(0, seconds=0.0)
    listed = client.list().models
    assert "size_vram" not in httpx.get(f"{running.address}/api/tags").json()["models"][0], "that is told of by ps"
    assert [each.model for each in listed] == [running.engine.name]
    assert listed[0].size == loaded.target.bytes
    assert listed[0].details
    assert listed[0].details.parameter_size == f"{loaded.target.parameters / 1e6:.1f}M"
    present = client.ps().models[0]
    assert (present.context_length, present.size_vram) == (loaded.context_tokens, 0)
    assert present.digest == listed[0].digest
    shown = client.show(f"{running.engine.name}:latest")
    family = loaded.target.family
    assert shown.modelinfo
    assert shown.modelinfo["general.architecture"] == family
    assert shown.modelinfo[f"{family}.context_length"] == loaded.context_tokens
    assert shown.capabilities
    assert "tools" in shown.capabilities
    assert ("thinking" in shown.capabilities) == running.engine.tokenizer.reasoning.is_known


def test_clients_find_the_server(running: Running) -> None:
    with httpx.Client(base_url=running.address) as plain:
        assert plain.head("/").status_code == 200
        assert plain.get("/").text == "Coppice is running"
        major, minor, _ = map(int, plain.get("/api/version").json()["version"].split("."))
        assert (major, minor) >= (0, 6), "editors ask for 0.6.4 and later"


def test_a_model_is_loaded_where_nothing_is_asked(client: ollama.Client) -> None:
    assert ask(client, messages=[]).done_reason == "load"
    assert client.generate(model="default").done_reason == "load"


def test_other_models_are_refused_and_none_is_listed_before_one_is_loaded(
    running: Running, client: ollama.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ollama.ResponseError, match="no model") as refused:
        ask(client, model="llama3:latest")
    assert refused.value.status_code == 404
    monkeypatch.setattr(running.desk, "engine", None)
    assert not client.list().models


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"suffix": "the end"}, "fill in"),
        ({"template": "{{ .Prompt }}"}, "template"),
        ({"images": ["aGVsbG8="]}, "a model loaded that reads pictures"),
        ({"images": ["aGVsbG8="], "raw": True}, "cannot show pictures"),
        ({"options": {"temperature": 900}}, "temperature"),
        ({"options": {"num_predict": -3}}, "num_predict"),
        ({"options": {"coppice": {"rounds": True}}}, "Rounds"),
    ],
)
def test_what_cannot_be_done_is_refused_in_ollama_s_form(running: Running, fields: dict[str, Any], words: str) -> None:
    with httpx.Client(base_url=running.address) as plain:
        refused = plain.post("/api/generate", json={"model": "default", "prompt": STORY, **fields})
    assert refused.status_code == 400
    assert words in refused.json()["error"]


def test_a_failure_amid_a_stream_is_a_line(client: ollama.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    break_after_the_first_round(monkeypatch)
    lines = ask(client, stream=True)
    with pytest.raises(ollama.ResponseError, match="unexpected error"):
        list(lines)


def test_an_answer_ends_when_its_client_leaves(running: Running, trace: list[Event], until: Wait) -> None:
    asked = {"model": "", "messages": ASKED, "options": {"num_predict": -1, "coppice": {"method": "none"}}}
    with httpx.Client(base_url=running.address) as plain, plain.stream("POST", "/api/chat", json=asked) as response:
        assert response.headers["content-type"] == "application/x-ndjson"
        assert json.loads(next(response.iter_lines()))["done"] is False
    until(lambda: bool(trace) and running.desk._answering is None)
    assert not any(isinstance(event, Finished) and event.reason == "stop" for event in trace)


# ---- without an engine -----------------------------------------------------------------------------------------------


def written(pieces: list[Piece], shows_thoughts: bool = True) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    writer = LineWriter("model", is_chat=True, shows_thoughts=shows_thoughts)
    steps: list[Step] = steps_of(pieces)
    lines = [line for step in steps for line in writer.follow(step)]
    assert not any(isinstance(line, Alive) for line in lines), "there are no comments between lines"
    return [line for line in lines if not isinstance(line, Alive)], writer.whole()


@settings(deadline=None, max_examples=choose(20, 300))
@given(answers())
def test_lines_add_up_to_the_whole(pieces: list[Piece]) -> None:
    lines, whole = written(pieces)
    messages = [ChatResponse.model_validate(line).message for line in lines]
    calls = [call for message in messages for call in message.tool_calls or ()]
    told = ChatResponse.model_validate(whole)
    assert "".join(message.content or "" for message in messages) == told.message.content
    assert "".join(message.content or "" for message in messages) == "".join(
        piece.text for piece in pieces if isinstance(piece, Content)
    )
    assert "".join(message.thinking or "" for message in messages) == (told.message.thinking or "")
    assert calls == list(told.message.tool_calls or ())
    assert len(calls) == sum(isinstance(piece, CallBegun) for piece in pieces)
    assert (told.prompt_eval_count, told.eval_count) == (PROMPT_TOKENS, 2 * len(pieces))


def test_reasoning_is_told_unless_it_is_not_wanted() -> None:
    pieces: list[Piece] = [Thought("Hm."), Content("Yes.")]
    assert written(pieces)[1]["message"]["thinking"] == "Hm."
    lines, whole = written(pieces, shows_thoughts=False)
    assert whole["message"] == {"role": "assistant", "content": "Yes."}
    assert not any("thinking" in line["message"] for line in lines)


def test_a_call_that_was_cut_off_is_told_as_what_came_of_it() -> None:
    pieces: list[Piece] = [CallBegun(0, "call_0", "fly"), CallArguments(0, '{"to": "Ro')]
    _, whole = written(pieces)
    assert whole["message"]["tool_calls"][0]["function"]["arguments"] == {NO_JSON: '{"to": "Ro'}
    assert arguments_of('{"to": "Rome"}') == {"to": "Rome"}


@pytest.mark.parametrize(("seconds", "signs"), [(-1.0, 2), (1e9, 0)])
def test_reasoning_that_nobody_wants_is_a_sign_of_life(
    seconds: float, signs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between client and server there may be somebody who ends a connection on which nothing is said for a minute."""

    async def played(*_: object) -> AsyncGenerator[Step, None]:
        for step in steps_of([Thought("Hm, "), Thought("so."), Content("Yes.")]):
            if isinstance(step, Progress):
                yield step

    async def told() -> list[Any]:
        anything: Any = None
        follow = LineWriter("model", is_chat=True, shows_thoughts=False).follow
        return [event async for event in question.events_of(anything, anything, anything, follow)]

    monkeypatch.setattr(question, "SECONDS_ALIVE", seconds)
    monkeypatch.setattr(question, "steps_of", played)
    monkeypatch.setattr(question, "held_to_its_choice", AsyncMock())
    assert [line["message"]["content"] for line in asyncio.run(told())] == [*[""] * signs, "Yes."]
