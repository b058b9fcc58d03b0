"""`/v1/chat/completions` as OpenAI's own client sees it."""

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import openai
import pytest
from openai import OpenAI

from engine.protocol.messages import ChatMessage, Event, Finished
from engine.protocol.options import GenerateOptions, SamplingOptions, SpeculationOptions
from engine.serving import answers
from engine.serving.chat.request import ChatFields
from engine.serving.chat.turns import chat_of
from engine.text.pieces import CallArguments, CallBegun, Content, Piece
from tests.engine.serving.conftest import STORY, Running, Wait

ASKED: list[Any] = [{"role": "user", "content": STORY}]
CHAT = (ChatMessage("user", STORY),)
SMALL = {"method": "specexec", "budget": 6}
SMALL_OPTIONS = GenerateOptions(speculation=SpeculationOptions(**SMALL), max_new_tokens=8)  # type: ignore[arg-type]


def ask(client: OpenAI, **fields: Any) -> Any:
    more = {"coppice": SMALL, **fields.pop("extra_body", {})}
    given = {"model": "default", "messages": ASKED, "max_tokens": 8, "temperature": 0, "extra_body": more, **fields}
    return client.chat.completions.create(**given)


def joined(chunks: list[Any], index: int = 0) -> str:
    choices = (choice for chunk in chunks for choice in chunk.choices if choice.index == index)
    return "".join(choice.delta.content or "" for choice in choices)


def test_greedy_text_is_the_engine_s_own_streamed_or_not(running: Running, client: OpenAI) -> None:
    expected = running.text_of(CHAT, SMALL_OPTIONS)
    whole = ask(client)
    assert whole.choices[0].message.content == expected
    assert whole.choices[0].message.role == "assistant"
    assert whole.choices[0].finish_reason == "length"
    assert whole.model == running.engine.name
    chunks = list(ask(client, stream=True))
    assert joined(chunks) == expected
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert len({chunk.id for chunk in chunks}) == 1
    assert whole.usage.completion_tokens == 8
    assert whole.usage.completion_tokens_details.reasoning_tokens == 0
    assert whole.timings["predicted_n"] == 8
    assert whole.timings["draft_n"] >= whole.timings["draft_n_accepted"] == 8 - whole.timings["passes"]


def test_figures_are_those_of_the_answer(client: OpenAI) -> None:
    *chunks, last = ask(client, stream=True, stream_options={"include_usage": True})
    assert all(chunk.usage is None for chunk in chunks)
    assert last.choices == []
    assert last.usage.total_tokens == last.usage.prompt_tokens + 8
    assert last.usage.prompt_tokens_details.cached_tokens == last.timings["cache_n"]
    assert last.timings["prompt_n"] + last.timings["cache_n"] == last.usage.prompt_tokens
    assert chunks[-1].timings == last.timings
    assert last.timings["predicted_per_second"] > 0


def test_the_same_seed_gives_the_same_text_and_choices_have_seeds_of_their_own(
    running: Running, client: OpenAI
) -> None:
    sampled = {"temperature": 0.9}
    several = ask(client, **sampled, seed=7, n=2)
    texts = [choice.message.content for choice in several.choices]
    assert [choice.index for choice in several.choices] == [0, 1]
    assert several.usage.completion_tokens == 16
    streamed = list(ask(client, **sampled, seed=7, n=2, stream=True))
    assert [joined(streamed, 0), joined(streamed, 1)] == texts
    for place, text in enumerate(texts):
        sampling = SamplingOptions(temperature=0.9, seed=7 + place)
        assert text == running.text_of(CHAT, replace(SMALL_OPTIONS, sampling=sampling))


def test_dry_and_xtc_draw_as_the_engine_does(running: Running, client: OpenAI) -> None:
    fields = {"dry_multiplier": 3.0, "dry_allowed_length": 1, "xtc_probability": 0.5, "xtc_threshold": 0.05}
    sampling = SamplingOptions(temperature=0.9, seed=7, **fields)  # type: ignore[arg-type]
    expected = running.text_of(CHAT, replace(SMALL_OPTIONS, sampling=sampling))
    assert ask(client, temperature=0.9, seed=7, extra_body=fields).choices[0].message.content == expected
    without = ask(client, temperature=0.9, seed=7).choices[0].message.content
    assert without != expected, "it did nothing, so nothing was tested"


def test_no_end_comes_before_so_many_tokens(client: OpenAI) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "What is 2+2?"}], "max_tokens": 60}
    short, longer = (ask(client, extra_body={"min_tokens": least}, **asked) for least in (0, 30))
    assert short.usage.completion_tokens < 30 < longer.usage.completion_tokens
    assert longer.choices[0].message.content.startswith(short.choices[0].message.content)
    with pytest.raises(openai.BadRequestError, match="Min new tokens"):
        ask(client, extra_body={"min_tokens": 9})


def test_a_stream_tells_of_the_prompt_and_of_its_figures_if_it_is_asked_to(
    client: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.observing.watcher.LONG_READING", 0.0)
    monkeypatch.setattr("engine.observing.watcher.READ_APART", 0.0)
    turn = {"role": "user", "content": "A fox and a bear and nobody else. " * 20}
    more = {"return_progress": True, "timings_per_token": True}
    chunks = [each.model_dump() for each in ask(client, messages=[turn], stream=True, extra_body=more)]
    told = [each["prompt_progress"] for each in chunks if "prompt_progress" in each]
    assert len(told) > 2
    assert told[-1]["processed"] == told[-1]["total"] == told[0]["total"] > told[0]["processed"]
    assert all(each["choices"][0]["delta"]["role"] == "assistant" for each in chunks[: len(told)])
    timings = [each["timings"]["predicted_n"] for each in chunks if "timings" in each]
    assert timings == sorted(timings)
    assert len(timings) > 2
    assert timings[-1] == 8
    plain = [each.model_dump() for each in ask(client, messages=[turn], stream=True)]
    assert not any("prompt_progress" in each for each in plain)
    assert ["timings" in each for each in plain] == [False] * (len(plain) - 1) + [True]


def test_a_prediction_is_drafted_from_and_changes_no_text(client: OpenAI) -> None:
    fields = {"max_tokens": 32, "extra_body": {"coppice": {"method": "lookup", "budget": 8}}}
    plain = ask(client, **fields)
    text = plain.choices[0].message.content
    for predicted in (
        {"type": "content", "content": text},
        {"type": "content", "content": [{"type": "text", "text": text}]},
    ):
        foreseen = ask(client, prediction=predicted, **fields)
        assert foreseen.choices[0].message.content == text
        assert foreseen.timings["passes"] <= plain.timings["passes"] // 2
    wrong = ask(client, prediction={"type": "content", "content": "Something else, which is not said."}, **fields)
    assert wrong.choices[0].message.content == text


def test_a_nucleus_of_nothing_is_the_likeliest_token(client: OpenAI) -> None:
    greedy = ask(client).choices[0].message.content
    assert ask(client, temperature=1, top_p=0, seed=1).choices[0].message.content == greedy


def test_without_a_seed_every_answer_is_another() -> None:
    asked = [ChatFields.model_validate({"messages": ASKED, "seed": seed}) for seed in (None, None, -1, 5)]
    assert len({each.sampling().seed for each in asked}) == 4
    assert [asked[3].sampling(choice).seed for choice in (0, 1)] == [5, 6]


def test_stop_strings_end_the_text_before_them(client: OpenAI) -> None:
    text = ask(client).choices[0].message.content
    word = text.split()[2]
    stopped = ask(client, stop=[word, "never said"]).choices[0]
    assert stopped.message.content == text[: text.index(word)]
    assert stopped.finish_reason == "stop"
    assert joined(list(ask(client, stop=word, stream=True))) == stopped.message.content


def test_log_probs_are_told_of_every_token(running: Running, client: OpenAI) -> None:
    whole = ask(client, logprobs=True, top_logprobs=3)
    told = whole.choices[0].logprobs.content
    assert len(told) == 8
    assert "".join(token.token for token in told).strip() == whole.choices[0].message.content.strip()
    for token in told:
        assert token.token == token.top_logprobs[0].token, "the likeliest one was said"
        assert token.logprob == pytest.approx(token.top_logprobs[0].logprob, abs=1e-6)
        assert len(token.top_logprobs) == 3
        assert sum(math.exp(other.logprob) for other in token.top_logprobs) <= 1 + 1e-6
        assert bytes(token.bytes).decode() == token.token
    chunks = list(ask(client, logprobs=True, top_logprobs=3, stream=True))
    streamed = [token for chunk in chunks if (its := chunk.choices[0].logprobs) for token in its.content]
    assert [token.token for token in streamed] == [token.token for token in told]
    assert [token.logprob for token in streamed] == pytest.approx([token.logprob for token in told], abs=1e-4)
    assert ask(client, logprobs=True).choices[0].logprobs.content[0].top_logprobs == []


def test_a_bias_forbids_a_token(running: Running, client: OpenAI) -> None:
    first = ask(client, max_tokens=1).choices[0].message.content
    token = running.engine.tokenizer.encode(first)[0]
    assert ask(client, max_tokens=1, logit_bias={str(token): -100}).choices[0].message.content != first
    with pytest.raises(openai.BadRequestError, match="vocabulary"):
        ask(client, logit_bias={"999999": 1})


def test_an_answer_that_is_begun_is_gone_on_with(running: Running, client: OpenAI) -> None:
    begun = "Once upon a time"
    expected = running.text_of((*CHAT, ChatMessage("assistant", begun)), SMALL_OPTIONS)
    messages = [*ASKED, {"role": "assistant", "content": [{"type": "text", "text": begun}]}]
    assert ask(client, messages=messages).choices[0].message.content == expected


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"model": "gpt-99"}, openai.NotFoundError, "gpt-99"),
        ({"messages": []}, openai.BadRequestError, "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_image"}]}]},
            openai.BadRequestError,
            "as image_url",
        ),
        ({"messages": [{"role": "owl", "content": "hu"}]}, openai.BadRequestError, "owl"),
        ({"temperature": -1}, openai.BadRequestError, "temperature"),
        ({"max_tokens": 0}, openai.BadRequestError, "max_tokens: Input should be greater than 0, or -1"),
        ({"n": 1000}, openai.BadRequestError, "n:"),
        ({"messages": [{"role": "user", "content": "dragon " * 3000}]}, openai.BadRequestError, "context"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_answered_has_a_status_and_a_sentence(
    client: OpenAI, fields: dict[str, Any], error: type[openai.APIStatusError], words: str, stream: bool
) -> None:
    with pytest.raises(error, match=words) as raised:
        ask(client, **fields, stream=stream)
    assert raised.value.code in ("model_not_found", "invalid_value", "context_length_exceeded")


def test_what_is_not_known_is_passed_over(client: OpenAI) -> None:
    more = {"top_k": 5, "min_p": 0.1, "repeat_penalty": 1.1, "user": "me", "made_up": {"a": [1]}, "cache_prompt": True}
    assert ask(client, extra_body=more, frequency_penalty=0.1, presence_penalty=0.1).choices


def test_a_client_that_leaves_frees_the_engine(
    running: Running, client: OpenAI, trace: list[Event], until: Wait
) -> None:
    stream = ask(client, stream=True, max_tokens=1500, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    until(lambda: bool(trace) and isinstance(trace[-1], Finished))
    assert isinstance(ending := trace[-1], Finished)
    assert ending.reason == "cancelled"
    assert ending.statistics
    assert ending.statistics.new_tokens < 1000
    assert ask(client, max_tokens=1).choices, "the next one is answered"


@contextmanager
def reading_stands_still(running: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Until the block is left, the engine reads no prompt."""
    go_on, prompt_of = threading.Event(), type(running.engine).prompt_of

    def slow(*arguments: Any) -> Any:
        assert go_on.wait(60)
        return prompt_of(*arguments)

    monkeypatch.setattr(type(running.engine), "prompt_of", slow)
    try:
        yield
    finally:
        go_on.set()


def test_a_slow_prompt_is_bridged_by_comments(
    running: Running, client: OpenAI, until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: running.desk._answering is None)  # the answer before it was told, and may just be ending
    monkeypatch.setattr(answers, "SECONDS_ALIVE", 0.02)
    body = {"messages": ASKED, "max_tokens": 3, "temperature": 0, "stream": True}
    with reading_stands_still(running, monkeypatch):
        raw = client.chat.completions.with_streaming_response.create(model="", **body)  # type: ignore[call-overload]
        response = raw.__enter__()
        lines = response.iter_lines()
        comments = (line for line in lines if line)
        assert [next(comments), next(comments)] == [": 0 ahead", ": 0 ahead"]
    rest = [line for line in lines if line.startswith("data: ")]
    assert rest[-1] == "data: [DONE]"
    assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
    raw.__exit__(None, None, None)


CALLED = ("fly", "land")


class Caller:
    """Takes every answer for two calls of tools."""

    def __init__(self) -> None:
        self._has_called = False

    def push(self, text: str) -> list[Piece]:
        if self._has_called:
            return [CallArguments(1, "}")]
        self._has_called = True
        begun: list[Piece] = [CallBegun(0, "call_0", "fly"), CallArguments(0, '{"to":'), CallArguments(0, '"Rome"}')]
        return [*begun, CallBegun(1, "call_1", "land"), CallArguments(1, "{")]

    def flush(self) -> list[Piece]:
        return [Content("!")]


def test_calls_of_tools_are_told_whole_and_in_parts(
    running: Running, client: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.serving.question.divider_for", lambda *_: Caller())
    short: Any = {"stop": ",", "extra_body": {"coppice": {"method": "none"}}}
    tools: Any = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in CALLED]
    tool = ask(client, tools=tools, **short).choices[0].message
    assert [(call.id, call.function.name) for call in tool.tool_calls] == [("call_0", "fly"), ("call_1", "land")]
    assert json.loads(tool.tool_calls[0].function.arguments) == {"to": "Rome"}
    alone = ask(client, tools=tools, parallel_tool_calls=False, **short).choices[0].message
    assert alone.tool_calls == tool.tool_calls[:1], "the client takes no more than one"
    with client.chat.completions.stream(model="", messages=ASKED, tools=tools, **short) as stream:
        final = stream.get_final_completion().choices[0].message
    assert final.tool_calls
    assert [call.function.name for call in final.tool_calls] == [*CALLED]
    assert final.tool_calls[0].function.arguments == '{"to":"Rome"}'
    said = [*ASKED, tool.model_dump(exclude_none=True), {"role": "tool", "content": "done", "tool_call_id": "call_0"}]
    asked = ChatFields.model_validate({"messages": said})
    turns = chat_of(asked.messages, running.engine.reasoning_marks)
    assert turns[1].tool_calls[0].name == turns[2].name == "fly"
