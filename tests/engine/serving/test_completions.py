"""`/v1/completions` as OpenAI's own client sees it."""

from typing import Any

import numpy as np
import openai
import pytest
from openai import OpenAI

from engine.protocol.messages import Event
from engine.serving.desk import Desk, Job
from engine.text.infill import Gap, write_infill
from engine.text.infill_marks import InfillMarks
from tests.engine.serving.conftest import Running
from tests.engine.serving.played_engines import Hearing

PROMPT = "Once upon a time there was a"


def ask(client: OpenAI, prompt: Any = PROMPT, **fields: Any) -> Any:
    more = {"coppice": {"method": "specexec", "budget": 6}}
    given = {"model": "", "max_tokens": 5, "temperature": 0, "extra_body": more, **fields}
    return client.completions.create(prompt=prompt, **given)


def test_a_text_goes_on_streamed_or_not_as_text_or_tokens(running: Running, client: OpenAI) -> None:
    whole = ask(client)
    text = whole.choices[0].text
    assert text
    assert whole.usage.completion_tokens == whole.timings["predicted_n"] == 5
    *chunks, last = ask(client, stream=True, stream_options={"include_usage": True})
    assert "".join(chunk.choices[0].text for chunk in chunks) == text
    assert chunks[-1].choices[0].finish_reason == "length"
    assert last.usage.total_tokens == whole.usage.total_tokens
    tokens = running.engine.tokenizer.encode_raw(PROMPT)
    assert whole.usage.prompt_tokens == len(tokens)
    several = ask(client, [tokens, tokens[:-1]], n=2)
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in several.choices[:2]] == [text, text]
    assert several.usage.prompt_tokens == 2 * len(tokens) - 1
    assert several.usage.completion_tokens == 20


def test_log_probs_have_their_old_form(client: OpenAI) -> None:
    whole = ask(client, logprobs=2).choices[0]
    told = whole.logprobs
    assert "".join(told.tokens) == whole.text
    assert told.text_offset == [len("".join(told.tokens[:place])) for place in range(5)]
    for token, log_prob, top in zip(told.tokens, told.token_logprobs, told.top_logprobs, strict=True):
        assert len(top) == 2
        assert top[token] == pytest.approx(log_prob, abs=1e-6) == pytest.approx(max(top.values()), abs=1e-6)
    held = ask(client, logprobs=2, stop=[token + "\N{SNOWMAN}" for token in told.tokens]).choices[0].logprobs
    assert held.text_offset == told.text_offset, "stop strings that did not come held the text back"
    streamed = [chunk.choices[0].logprobs for chunk in ask(client, logprobs=0, stream=True)]
    assert [token for each in streamed if each for token in each.tokens] == told.tokens
    assert all(each.top_logprobs is None for each in streamed if each)


def test_a_prompt_is_told_first_where_that_is_asked(running: Running, client: OpenAI) -> None:
    text, tokens = ask(client).choices[0].text, running.engine.tokenizer.encode_raw(PROMPT)
    assert ask(client, echo=True).choices[0].text == PROMPT + text
    assert [choice.text for choice in ask(client, [tokens, tokens], echo=True).choices] == [PROMPT + text] * 2
    chunks = list(ask(client, echo=True, stream=True))
    assert chunks[0].choices[0].text == PROMPT
    assert "".join(chunk.choices[0].text for chunk in chunks) == PROMPT + text


def test_the_best_of_several_answers_are_told(client: OpenAI) -> None:
    fields = {"temperature": 0.9, "seed": 3, "logprobs": 0}
    all_ = ask(client, [PROMPT, "A dragon"], n=3, **fields)
    every = all_.choices
    best = ask(client, [PROMPT, "A dragon"], n=2, best_of=3, **fields)

    def mean(choice: Any) -> float:
        return float(np.mean(choice.logprobs.token_logprobs))

    expected = [
        choice.text for begin in (0, 3) for choice in sorted(every[begin : begin + 3], key=mean, reverse=True)[:2]
    ]
    assert len({choice.text for choice in every}) > 2
    assert [choice.text for choice in best.choices] == expected
    assert [choice.index for choice in best.choices] == [0, 1, 2, 3]
    assert best.usage.completion_tokens == all_.usage.completion_tokens, "the others were written, too"


def test_a_suffix_is_read_around_the_gap(running: Running, client: OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, hearing = running.engine.tokenizer, Hearing(monkeypatch)
    marks = InfillMarks(3, 4, 5, None, None, False, frozenset({3, 4, 5}))
    monkeypatch.setattr(tokenizer, "infill", marks)
    whole = ask(client, ["Once", "Then"], suffix="The end.")
    prompts = [tuple(write_infill(tokenizer, Gap(text, "The end."))) for text in ("Once", "Then")]
    assert [each.raw for each in hearing.asked[-2:]] == prompts
    assert {each.options.end_tokens for each in hearing.asked[-2:]} == {marks.ends}
    assert whole.usage.prompt_tokens == sum(map(len, prompts))
    asked = {"model": "", "prompt": "Once", "suffix": "The end.", "stream": False}
    options = {"temperature": 0, "num_predict": 5}
    theirs: Any = client.post(f"{running.address}/api/generate", body={**asked, "options": options}, cast_to=object)
    assert theirs["response"] == whole.choices[0].text
    assert hearing.asked[-1].raw == prompts[0]
    shown: Any = client.post(f"{running.address}/api/show", body={"model": ""}, cast_to=object)
    assert "insert" in shown["capabilities"]


def test_a_token_of_the_client_s_ends_the_text(running: Running, client: OpenAI) -> None:
    tokens = running.engine.tokenizer.encode_onward(ask(client).choices[0].text)
    stopped = ask(client, extra_body={"stop_token_ids": [tokens[2]]})
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.usage.completion_tokens == tokens.index(tokens[2]) + 1
    assert running.engine.tokenizer.encode_onward(stopped.choices[0].text) == tokens[: tokens.index(tokens[2])]


def test_no_prompt_is_answered_where_a_later_one_cannot_be_read(client: OpenAI, trace: list[Event]) -> None:
    for wrong, words in (("dragon " * 3000, "context"), ("", "prompt")):
        with pytest.raises(openai.BadRequestError, match=words):
            ask(client, ["Once", wrong])
    assert not trace


def test_a_request_that_is_let_in_is_answered_to_its_end(
    running: Running, client: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, jobs = Desk.put, list[Job]()

    def recorded(desk: Desk, job: Job) -> None:
        jobs.append(job)
        put(desk, job)

    monkeypatch.setattr(Desk, "put", recorded)
    ask(client, ["Once", "Then"], max_tokens=1)
    client.chat.completions.create(model="", messages=[{"role": "user", "content": PROMPT}], n=2, max_tokens=1)
    assert [job.is_admitted for job in jobs] == [False, True] * 2


def test_what_is_not_to_be_had_is_said(client: OpenAI) -> None:
    for fields, words in (
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"suffix": "."}, "fill in"),
        ({"suffix": ".", "prompt": [1]}, "text"),
        ({"best_of": 2, "n": 3}, "best_of"),
        ({"prompt": ["a"] * 32, "n": 16}, "more than"),
        ({"prompt": [10**8]}, "vocabulary"),
        ({"prompt": [[]]}, "prompt"),
    ):
        with pytest.raises(openai.BadRequestError, match=words):
            ask(client, **fields)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": "", "stop": 7}, "stop"),
        ({"prompt": "", "stop": ["a", 7]}, "stop"),
        ({"prompt": "", "logit_bias": {"x": 1}}, "logit_bias.x"),
        ({"prompt": "", "response_format": {"type": "json_schema", "schema": 7}}, "response_format.schema"),
        ({"prompt": "", "response_format": {}}, "response_format"),
        ({"prompt": "", "structured_outputs": {"json": 7}}, "structured_outputs.json"),
    ],
)
def test_a_field_that_does_not_fit_has_the_client_s_own_name(client: OpenAI, body: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.post("/completions", body=body, cast_to=object)
    assert raised.value.param == param
    assert f"{param}: " in raised.value.message
    assert "constrained" not in raised.value.message
