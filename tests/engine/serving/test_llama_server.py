"""llama-server's own addresses, as editors ask them."""

import itertools
import json
import queue
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx2 as httpx
import pytest

from engine.engine import Engine
from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Event, Finished, Generate, Round
from engine.protocol.options import Constraint, GenerateOptions, SamplingOptions, SpeculationOptions
from engine.serving.desk import WINDOW, Job
from engine.serving.llama_server.line_limits import LineLimits
from engine.serving.llama_server.request import CompletionFields, InfillFields
from engine.text.infill import Gap, OtherFile, write_infill
from engine.text.infill_marks import InfillMarks
from tests.engine.serving.conftest import PATIENCE_SECONDS, STORY, Running, Wait, until_the_end
from tests.engine.serving.played_engines import Hearing, break_after_the_first_round

PROMPT = "Once upon a time there was a"
GREEDY = {"temperature": 0, "n_predict": 12}
GAP = {"input_prefix": "Once upon", "input_suffix": "The end.", "prompt": " a time"}
END = "<|end|>"


@pytest.fixture(scope="module")
def http(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.address, timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture
def marks(running: Running, monkeypatch: pytest.MonkeyPatch) -> InfillMarks:
    """As if the embedded model had been made to fill in gaps."""
    tokenizer = running.engine.tokenizer
    prefix, suffix, middle = (tokenizer.special_tokens[f"<|{name}|>"] for name in ("system", "user", "assistant"))
    marks = InfillMarks(prefix, suffix, middle, None, None, False, frozenset({prefix, suffix, middle}))
    monkeypatch.setattr(tokenizer, "infill", marks)
    return marks


def ask(http: httpx.Client, path: str = "/completion", **fields: Any) -> Any:
    given = {**GREEDY, **({"prompt": PROMPT} if path == "/completion" else GAP), **fields}
    response = http.post(path, json=given)
    assert response.status_code == 200, response.text
    return response.json()


def stream(http: httpx.Client, path: str = "/completion", **fields: Any) -> list[Any]:
    """The events, up to the last."""
    given = {**GREEDY, **({"prompt": PROMPT} if path == "/completion" else GAP), "stream": True, **fields}
    with http.stream("POST", path, json=given) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


# ---- /completion -----------------------------------------------------------------------------------------------------


def test_a_greedy_text_is_that_of_raw_generation_streamed_or_not(running: Running, http: httpx.Client) -> None:
    engine, heard = running.engine, queue.SimpleQueue[Event]()
    running.desk.put(Job(Generate(1, (), GenerateOptions(max_new_tokens=12), raw=PROMPT), WINDOW, heard.put))
    expected = "".join(event.text for event in until_the_end(heard) if isinstance(event, Round | Finished))
    whole = ask(http)
    assert whole["content"] == expected
    assert ask(http, prompt=engine.tokenizer.encode_raw(PROMPT))["content"] == expected
    *told, last = stream(http)
    assert "".join(event["content"] for event in told) == expected
    assert [event["stop"] for event in told] == [False] * len(told)
    assert (last["stop"], last["content"], last["tokens"]) == (True, "", [])
    tokens = [token for event in told for token in event["tokens"]]
    assert engine.tokenizer.decode(tokens) == expected
    for end in (whole, last):
        assert (end["stop_type"], end["stopping_word"], end["truncated"]) == ("limit", "", False)
        assert end["tokens_predicted"] == end["timings"]["predicted_n"] == len(tokens) == 12
        assert end["tokens_evaluated"] == len(engine.tokenizer.encode_raw(PROMPT))
        assert end["tokens_cached"] == end["tokens_evaluated"] + 11
        assert end["model"] == engine.name
        assert end["prompt"] == PROMPT
        assert end["generation_settings"]["n_predict"] == 12
        assert end["generation_settings"]["n_ctx"] == engine.context_tokens
    assert whole["tokens"] == []
    assert ask(http, return_tokens=True)["tokens"] == tokens


def test_an_answer_has_llama_server_s_fields_of_their_types(http: httpx.Client) -> None:
    """As the server in the wheel of `xllamacpp` 2026.10 gives them; what has no meaning here is left out."""
    whole = ask(http, n_probs=1)
    kinds = {
        "index": int, "content": str, "tokens": list, "id_slot": int, "stop": bool, "model": str,
        "tokens_predicted": int, "tokens_evaluated": int, "generation_settings": dict, "prompt": str,
        "has_new_line": bool, "truncated": bool, "stop_type": str, "stopping_word": str, "tokens_cached": int,
        "timings": dict, "completion_probabilities": list,
    }  # fmt: skip
    assert {name: type(value) for name, value in whole.items()} == kinds
    likely = {"id": int, "token": str, "bytes": list, "logprob": float, "top_logprobs": list}
    assert {name: type(value) for name, value in whole["completion_probabilities"][0].items()} == likely


def test_what_ends_an_answer_is_told(http: httpx.Client) -> None:
    text = ask(http)["content"]
    word = text.split()[2]
    stopped = ask(http, stop=[word])
    assert (stopped["content"], stopped["stop_type"]) == (text[: text.index(word)], "word")
    assert stopped["stopping_word"] == word
    goodbye = "<|user|>Good night!<|end|><|assistant|>"
    assert ask(http, prompt=goodbye, n_predict=-1)["stop_type"] == "eos"


def test_several_prompts_and_answers_are_a_list(running: Running, http: httpx.Client) -> None:
    tokens = running.engine.tokenizer.encode_raw(PROMPT)
    text = ask(http, n_predict=3)["content"]
    several = ask(http, prompt=[PROMPT, tokens, {"prompt_string": PROMPT}], n_predict=3, n_cmpl=2)
    assert [each["index"] for each in several] == list(range(6))
    assert {each["content"] for each in several} == {text}
    ends = [event for event in stream(http, prompt=[PROMPT, PROMPT], n_predict=3) if event["stop"]]
    assert [each["index"] for each in ends] == [0, 1]


def test_texts_among_tokens_are_one_prompt(running: Running, http: httpx.Client) -> None:
    tokenizer = running.engine.tokenizer
    begin, rest = tokenizer.encode_raw("Once upon"), " a time there was a"
    assert ask(http, prompt=[*begin, rest])["content"] == ask(http)["content"]
    mixed = ask(http, prompt=[rest, begin[0]], n_predict=1)
    assert mixed["prompt"] == tokenizer.text_of([*tokenizer.encode_raw(rest), begin[0]])


def test_only_the_fields_that_are_wanted_are_told_by_their_paths(http: httpx.Client) -> None:
    wanted = ["content", "timings/predicted_n", "generation_settings/n_predict", "nothing", "timings/prompt_n/x"]
    told = ask(http, response_fields=wanted)
    assert told == {
        "content": ask(http)["content"],
        "timings/predicted_n": 12,
        "generation_settings/n_predict": 12,
    }
    assert ask(http, response_fields=[""]) == {}
    assert stream(http, response_fields=["stop_type"])[-1] == {"stop_type": "limit"}


def test_likelihoods_are_told_of_every_token(http: httpx.Client) -> None:
    whole = ask(http, n_probs=2, n_predict=4, return_tokens=True)
    told = whole["completion_probabilities"]
    assert [each["id"] for each in told] == whole["tokens"]
    assert "".join(each["token"] for each in told) == whole["content"]
    for each in told:
        assert bytes(each["bytes"]).decode() == each["token"] == each["top_logprobs"][0]["token"]
        assert len(each["top_logprobs"]) == 2
    streamed = [each for event in stream(http, n_probs=2, n_predict=4) if not event["stop"]
                for each in event["completion_probabilities"]]  # fmt: skip
    assert [each["id"] for each in streamed] == whole["tokens"]


def test_lines_end_where_they_are_indented_less(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of the wanted form, as a constraint writes it."""
    written = "a\n    b\n  c\n    d"
    held = {"grammar": "root ::= " + json.dumps(written)}
    assert ask(http, n_predict=-1, **held)["content"] == written
    cut = ask(http, n_predict=-1, n_indent=4, **held)
    assert (cut["content"], cut["stop_type"], cut["has_new_line"]) == ("a\n    b", "limit", True)
    assert 0 < cut["tokens_predicted"] == cut["timings"]["predicted_n"]
    assert cut["timings"]["predicted_ms"] > 0
    *told, last = stream(http, n_predict=-1, n_indent=4, **held)
    assert "".join(event["content"] for event in told) == "a\n    b"
    assert 0 < last["tokens_predicted"] == sum(len(event["tokens"]) for event in told)
    slow = partial(LineLimits, clock=itertools.count().__next__)
    monkeypatch.setattr("engine.serving.llama_server.completion.LineLimits", slow)
    late = ask(http, n_predict=-1, t_max_predict_ms=1, **held)
    assert (late["content"], late["stop_type"]) == ("a", "limit")


def test_what_is_missing_is_llama_server_s() -> None:
    drawn = CompletionFields.model_validate({"prompt": "a", "seed": 3}).generation(1)
    assert (drawn.sampling.temperature, drawn.sampling.top_k, drawn.sampling.top_p, drawn.sampling.min_p) == (
        0.8, 40, 0.95, 0.05,
    )  # fmt: skip
    assert drawn.sampling.seed == 4
    assert drawn.max_new_tokens > 1 << 30
    assert CompletionFields.model_validate({"prompt": "a", "n_predict": 0}).generation(0).max_new_tokens == 1


DRY = {
    "dry_multiplier": 0.8, "dry_base": 1.5, "dry_allowed_length": 3, "dry_penalty_last_n": 64,
    "dry_sequence_breakers": ["|", ". "], "xtc_probability": 0.5, "xtc_threshold": 0.2,
}  # fmt: skip


def test_dry_and_xtc_have_llama_server_s_names() -> None:
    drawn = CompletionFields.model_validate({"prompt": "a", **DRY}).generation(0).sampling
    assert {name: getattr(drawn, name) for name in DRY} == {**DRY, "dry_sequence_breakers": ("|", ". ")}
    for missing in ({}, dict.fromkeys(DRY), {"dry_base": 0.5}):
        drawn = CompletionFields.model_validate({"prompt": "a", **missing}).generation(0).sampling
        plain = SamplingOptions()
        assert [getattr(drawn, name) for name in DRY] == [getattr(plain, name) for name in DRY]
    bare = CompletionFields.model_validate({"prompt": "a", "dry_sequence_breakers": []}).generation(0)
    assert bare.sampling.dry_sequence_breakers == ()


def test_dry_keeps_a_text_from_repeating_itself(running: Running, http: httpx.Client) -> None:
    prompt = "<|user|>Hi<|end|><|assistant|>"
    dry: dict[str, Any] = {"dry_multiplier": 3.0, "dry_allowed_length": 2, "dry_sequence_breakers": ["*"]}
    held: dict[str, Any] = {"prompt": prompt, "n_predict": 60, "min_tokens": 40}
    plain, changed = ask(http, **held), ask(http, **held, **dry)
    question = "What would you like to talk about?"
    assert plain["content"].count(question) > 1 == changed["content"].count(question)
    settings = changed["generation_settings"]
    assert {name: settings[name] for name in dry} == dry
    assert settings["samplers"].index("dry") == 1
    options = GenerateOptions(
        SamplingOptions(dry_multiplier=3.0, dry_sequence_breakers=("*",)),
        SpeculationOptions("none"), max_new_tokens=60, min_new_tokens=40,
    )  # fmt: skip
    heard = queue.SimpleQueue[Event]()
    running.desk.put(Job(Generate(1, (), options, raw=prompt), WINDOW, heard.put))
    expected = "".join(event.text for event in until_the_end(heard) if isinstance(event, Round | Finished))
    assert changed["content"] == expected


def test_a_stream_tells_how_much_of_the_prompt_was_read_if_it_is_asked_to(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.observing.watcher.LONG_READING", 0.0)
    monkeypatch.setattr("engine.observing.watcher.READ_APART", 0.0)
    long = "A cat and a dog and nobody else. " * 30
    events = stream(http, prompt=long, return_progress=True, n_predict=3)
    told = [each["prompt_progress"] for each in events if "prompt_progress" in each]
    assert len(told) > 3
    assert [each["processed"] for each in told] == sorted(each["processed"] for each in told)
    assert {each["total"] for each in told} == {events[-1]["tokens_evaluated"]}
    assert all(0 <= each["cache"] <= each["processed"] <= each["total"] for each in told)
    assert (told[-1]["processed"], type(told[-1]["time_ms"])) == (told[-1]["total"], int)
    assert all((each["content"], each["tokens"], each["stop"]) == ("", [], False) for each in events[: len(told)])
    again = stream(http, prompt=long, return_progress=True, n_predict=3)
    assert again[0]["prompt_progress"]["cache"] > told[-1]["total"] / 2, "it is there by now"
    assert not any("prompt_progress" in each for each in stream(http, prompt=long, n_predict=3))
    assert "prompt_progress" not in ask(http, prompt=long, return_progress=True, n_predict=3)


def test_every_event_has_figures_if_it_is_asked_to(http: httpx.Client) -> None:
    *told, last = stream(http, timings_per_token=True)
    written = [each["timings"]["predicted_n"] for each in told]
    assert written == sorted(written)
    assert written[0] > 0
    assert written[-1] == last["timings"]["predicted_n"] == 12
    assert told[-1]["timings"]["passes"] == last["timings"]["passes"]
    assert last["generation_settings"]["timings_per_token"] is True
    assert not any("timings" in each for each in stream(http)[:-1])


def test_no_end_comes_before_so_many_tokens(http: httpx.Client) -> None:
    goodbye = "<|user|>Good night!<|end|><|assistant|>"
    short, longer = (ask(http, prompt=goodbye, n_predict=60, min_tokens=least) for least in (0, 40))
    assert short["tokens_predicted"] < 40 < longer["tokens_predicted"]
    assert longer["content"].startswith(short["content"])


def test_biases_are_pairs_or_named_by_tokens() -> None:
    for biases in ([[17, 1.5], [18, False]], {"17": 1.5, "18": -100.0}):
        asked = CompletionFields.model_validate({"prompt": "a", "logit_bias": biases})
        assert asked.generation(0).sampling.bias == ((17, 1.5), (18, -100.0))


def test_an_editor_s_filter_takes_the_likeliest_token_unless_a_temperature_is_asked_for() -> None:
    named = {**GAP, "samplers": ["top_k", "top_p", "infill"]}
    for fields, temperature in ((named, 0.0), ({**named, "temperature": 0.3}, 0.3), (GAP, 0.8)):
        assert InfillFields.model_validate(fields).generation(0).sampling.temperature == temperature


def test_a_constraint_holds(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    mood = {"mood": {"enum": ["merry", "grim"]}}
    schema = {"type": "object", "properties": mood, "required": ["mood"], "additionalProperties": False}
    assert json.loads(ask(http, json_schema=schema, n_predict=-1)["content"])["mood"]
    hearing = Hearing(monkeypatch)
    assert ask(http, grammar='root ::= "yes"')["generation_settings"]["grammar"] == 'root ::= "yes"'
    assert hearing.asked[-1].options.constraint == Constraint("gbnf", 'root ::= "yes"')


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("/completion", {"prompt": ""}, "empty"),
        ("/completion", {"prompt": []}, "prompt"),
        ("/completion", {"prompt": ["a"] * 33}, "more than"),
        ("/completion", {"prompt": ["a"] * 8, "n": 16}, "more than"),
        ("/completion", {"prompt": ["Once", ""]}, "empty"),
        ("/completion", {"prompt": [10**8]}, "vocabulary"),
        ("/completion", {"prompt": [1, *["a"] * 4097]}, "texts among"),
        ("/completion", {"prompt": {"prompt_string": "a", "multimodal_data": ["aGVsbG8="]}}, "cannot show pictures"),
        ("/completion", {"prompt": "a", "n_probs": 2, "post_sampling_probs": True}, "post_sampling_probs"),
        ("/completion", {"prompt": "a", "logit_bias": [["Hello", 1]]}, "logit_bias"),
        ("/completion", {"prompt": "a", "coppice": {"rounds": True}}, "Rounds"),
        ("/completion", {"prompt": "a", "dry_sequence_breakers": [""]}, "dry_sequence_breakers"),
        ("/completion", {"prompt": "a", "dry_multiplier": -1}, "dry_multiplier"),
        ("/completion", {"prompt": "a", "xtc_probability": 1.5}, "xtc_probability"),
        ("/completion", {"prompt": "a", "n_predict": 3, "min_tokens": 4}, "Min new tokens"),
        ("/completion", {"prompt": "a", "model": "llama3"}, "no model"),
        ("/infill", {"input_prefix": "a"}, "input_suffix"),
        ("/infill", {"input_prefix": "a", "input_suffix": "b"}, "fill in"),
    ],
)
def test_what_cannot_be_done_is_said(http: httpx.Client, path: str, fields: dict[str, Any], words: str) -> None:
    refused = http.post(path, json=fields)
    assert refused.status_code == (404 if "model" in fields else 400)
    assert words in refused.json()["error"]["message"]


def test_a_failure_amid_a_stream_is_its_last_event(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    break_after_the_first_round(monkeypatch)
    assert "unexpected error" in stream(http)[-1]["error"]["message"]


def test_an_answer_ends_when_its_client_leaves(
    running: Running, http: httpx.Client, trace: list[Event], until: Wait
) -> None:
    asked = {"prompt": PROMPT, "stream": True, "coppice": {"method": "none"}}
    with http.stream("POST", "/completion", json=asked) as response:
        assert next(response.iter_lines())
    until(lambda: bool(trace) and running.desk._answering is None)
    assert not any(isinstance(event, Finished) and event.reason == "stop" for event in trace)


# ---- /infill ---------------------------------------------------------------------------------------------------------


def test_a_gap_is_read_between_the_model_s_marks(
    running: Running, http: httpx.Client, marks: InfillMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    hearing, tokenizer = Hearing(monkeypatch), running.engine.tokenizer
    extra = [{"text": "Another story.", "filename": "other.txt"}]
    whole = ask(http, "/infill", input_extra=extra)
    gap = Gap("Once upon a time", "The end.", (OtherFile("other.txt", "Another story."),))
    prompt = write_infill(tokenizer, gap)
    asked = hearing.asked[-1]
    assert asked.raw == tuple(prompt)
    assert asked.options.end_tokens == marks.ends
    assert whole["prompt"] == tokenizer.text_of(prompt)
    assert whole["tokens_evaluated"] == len(prompt)
    *told, _ = stream(http, "/infill", input_extra=extra)
    assert "".join(event["content"] for event in told) == whole["content"]


@pytest.mark.usefixtures("marks")
def test_an_editor_s_own_request_is_answered(http: httpx.Client) -> None:
    """As llama.vim sends it while one types, and before, to have what is around read."""
    timings = [f"timings/{name}_{of}" for name in ("prompt", "predicted") for of in ("n", "ms", "per_second")]
    fields = ["content", *timings, "truncated", "tokens_cached"]
    editor = {
        "id_slot": 0, "input_extra": [], "cache_prompt": True, "stream": False, "n_indent": 4, "top_k": 40,
        "top_p": 0.9, "samplers": ["top_k", "top_p", "infill"], "t_max_prompt_ms": 500, "t_max_predict_ms": 1000000000,
    }  # fmt: skip
    told = http.post("/infill", json={**GAP, **editor, "n_predict": 12, "response_fields": fields}).json()
    assert set(told) == set(fields)
    assert told["content"] == ask(http, "/infill")["content"], "the likeliest tokens, as no temperature is sent"
    before = {**GAP, "input_suffix": "", "n_predict": 0, "samplers": [], "t_max_predict_ms": 1, "response_fields": [""]}
    assert http.post("/infill", json=before).json() == {}


@pytest.mark.usefixtures("marks")
def test_what_does_not_fit_is_left_out(running: Running, http: httpx.Client) -> None:
    extra = [{"text": "Once upon a time. " * 400}]
    whole = ask(http, "/infill", input_prefix="a b c " * 2000, input_extra=extra)
    assert whole["tokens_evaluated"] == running.engine.context_tokens - GREEDY["n_predict"]
    assert not whole["truncated"]


def test_a_mark_ends_what_is_filled_in(
    running: Running, http: httpx.Client, marks: InfillMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ask(http, "/infill", return_tokens=True)
    ended = InfillMarks(
        marks.prefix, marks.suffix, marks.middle, None, None, False, frozenset({said["tokens"][3]})
    )  # fmt: skip
    monkeypatch.setattr(running.engine.tokenizer, "infill", ended)
    short = ask(http, "/infill", return_tokens=True)
    first = said["tokens"].index(said["tokens"][3])
    assert short["tokens"] == said["tokens"][: first + 1]
    assert (short["stop_type"], said["content"].startswith(short["content"])) == ("eos", True)


# ---- what is loaded --------------------------------------------------------------------------------------------------


def test_properties_are_those_of_the_loaded_model(running: Running, http: httpx.Client) -> None:
    told = http.get("/props?model=whatever&autoload=false").json()
    tokenizer = running.engine.tokenizer
    assert told["default_generation_settings"]["n_ctx"] == running.engine.context_tokens
    assert told["default_generation_settings"]["params"]["temperature"] == 0.8
    params = told["default_generation_settings"]["params"]
    assert (params["dry_multiplier"], params["dry_base"], params["dry_penalty_last_n"]) == (0.0, 1.75, -1)
    assert (params["xtc_probability"], params["xtc_threshold"]) == (0.0, 0.1)
    assert told["total_slots"] == 1
    assert told["model_alias"] == told["model_path"] == running.engine.name, "no path of this computer"
    assert told["chat_template"] == tokenizer.chat_template
    assert tokenizer.special_tokens[told["eos_token"]] in running.engine.end_tokens
    assert told["modalities"] == {"vision": False, "audio": False, "video": False}


def test_the_slot_is_busy_while_an_answer_is_written(
    running: Running, http: httpx.Client, until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: not running.desk.is_busy)
    (slot,) = http.get("/slots").json()
    assert (slot["id"], slot["is_processing"], slot["speculative"]) == (0, False, True)
    generate, was_seen = Engine.generate, threading.Event()

    def held(engine: Engine, *arguments: Any) -> Iterator[Event]:
        for event in generate(engine, *arguments):
            yield event
            assert not isinstance(event, Round) or was_seen.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(Engine, "generate", held)
    with http.stream("POST", "/completion", json={"prompt": PROMPT, "stream": True, "n_predict": 2}) as response:
        until(lambda: running.desk.is_busy)
        assert http.get("/slots").json()[0]["is_processing"]
        was_seen.set()
        assert response.read()


@pytest.mark.parametrize("begun", ["", "Once upon a time"])
def test_a_written_template_reads_as_its_conversation(running: Running, http: httpx.Client, begun: str) -> None:
    messages = [{"role": "user", "content": STORY}, *([{"role": "assistant", "content": begun}] if begun else [])]
    prompt = http.post("/apply-template", json={"messages": messages}).json()["prompt"]
    chat = [ChatMessage("user", STORY), *([ChatMessage("assistant", begun)] if begun else [])]
    assert running.engine.tokenizer.encode_raw(prompt) == running.engine.tokenizer.encode_chat(chat)
    said = http.post("/v1/chat/completions", json={"messages": messages, "temperature": 0, "max_tokens": 12}).json()
    assert ask(http, prompt=prompt)["content"] == said["choices"][0]["message"]["content"]


def test_texts_may_be_told_as_they_stand(running: Running, http: httpx.Client) -> None:
    tokenizer, text = running.engine.tokenizer, f"Good night!{END}"
    typed = http.post("/tokenize", json={"content": text, "parse_special": False}).json()["tokens"]
    assert typed == tokenizer.encode_typed(text)
    assert tokenizer.special_tokens[END] not in typed
    assert tokenizer.decode(typed) == text
    assert http.post("/tokenize", json={"content": text}).json()["tokens"][-1] == tokenizer.special_tokens[END]
    halves = http.post("/tokenize", json={"content": "🌳", "with_pieces": True}).json()["tokens"]
    assert bytes(byte for each in halves for byte in each["piece"] if isinstance(each["piece"], list)).decode() == "🌳"


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([[1]] * 33, "more than 64 answers"),
        ([{"prompt_string": "a"}] * 33, "more than 64 answers"),
        ([1] * 32 + [{"prompt_string": "a"}], "more than 64 answers"),
        (["a"] * 33, "more than 64 answers"),
        ([1, "a"] * 4097, "more than 4096 texts"),
        ([[1, *["a"] * 4097]], "more than 4096 texts"),
    ],
)
def test_too_many_prompts_are_refused_before_each_is_looked_at(prompt: list[Any], words: str) -> None:
    """To try every kind for each of a hundred thousand holds all other clients for seconds."""
    with pytest.raises(InputError, match=words):
        CompletionFields.model_validate({"prompt": prompt})
    asked = CompletionFields.model_validate({"prompt": [1] * 5000})
    asked.check()
    assert len(asked.prompts) == 1
