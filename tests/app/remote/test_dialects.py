"""Every kind of server: what it is taken for, what it is asked, and what becomes of its answers."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.engine.remote.addresses import COPPICE, LLAMA, LM_STUDIO, OLLAMA, OTHER, SGLANG, VLLM, Place, place_of
from app.engine.remote.constraints import constraint_fields, unheld_by
from app.engine.remote.figures import DRAFTED, PLAIN, UNTOLD
from app.engine.remote.questions import messages
from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Finished, Prefilled, Queued, Reading, Steps, Wrote
from engine.protocol.options import Constraint, GenerateOptions, SamplingOptions, SpeculationOptions
from engine.protocol.pictures import Picture
from engine.protocol.watching import Watch
from tests.app.remote.fake_servers import (
    ENDING,
    ROUNDS,
    WORDS,
    Script,
    another,
    coppice,
    llama_server,
    lm_studio,
    ollama,
    serving,
    sglang,
    vllm,
)
from tests.app.remote.listener import CHAT, listening

STORY = "".join(WORDS)


@pytest.mark.parametrize(
    ("make", "kind", "context", "text", "reason"),
    [
        (vllm, VLLM, 1024, STORY, "stop"),
        (llama_server, LLAMA, 2048, STORY, "stop"),
        (sglang, SGLANG, 4096, f"<think>\nA fox it is.\n</think>\n\n{STORY}", "length"),
        (ollama, OLLAMA, 0, f"<think>\nHm.\n</think>\n\n{STORY}", "stop"),
        (lm_studio, LM_STUDIO, 0, STORY, "stop"),
        (another, OTHER, 0, STORY, "stop"),
    ],
)
def test_servers_of_every_kind_answer(
    make: Callable[[], Script], kind: str, context: int, text: str, reason: str, qtbot: QtBot
) -> None:
    script = make()
    with serving(script) as address, listening(address, qtbot) as engine:
        server = engine.connect()
        assert (server.kind, server.models[0].context_tokens) == (kind, context)
        ending = engine.ask()
        assert isinstance(ending, Finished), ending
        assert (engine.text, ending.reason) == (text, reason)
        assert [type(each) for each in engine.events].count(Prefilled) == 1
        assert not engine.engine._going
        (asked,) = script.questions
        assert asked["messages"] == [{"role": "user", "content": CHAT[0].content}]
        assert asked["model"] == script.models[0]["id"]
        assert not {"top_k", "min_p", "repetition_penalty", "presence_penalty", "stop"} & asked.keys()


def test_vllm_tells_its_steps_for_each_answer(qtbot: QtBot) -> None:
    with serving(vllm()) as address, listening(address, qtbot) as engine:
        engine.connect()
        engine.ask()
        assert [each for each in engine.events if isinstance(each, Steps)] == [Steps(1, (2, 2), (2, 0))]
        assert sum(each.tokens for each in engine.events if isinstance(each, Wrote)) == 5
        told = engine.statistics
        assert (told.method, told.passes, told.drafted_nodes, told.new_tokens) == (DRAFTED, 3, 4, 5)
        assert (told.prompt_tokens, told.cached_tokens) == (9, 4)
        assert told.first_token_seconds > 0


def test_vllm_without_them_is_counted_by_its_counters(qtbot: QtBot) -> None:
    with serving(vllm(with_metrics=False)) as address, listening(address, qtbot) as engine:
        engine.connect()
        engine.ask()
        told = engine.statistics
        assert (told.method, told.passes, told.drafted_nodes) == (DRAFTED, 3, 12)
        assert "over all answers" in told.note


def test_llama_server_tells_its_timings(qtbot: QtBot) -> None:
    script = llama_server()
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.connect()
        engine.ask()
        told = engine.statistics
        assert (told.method, told.passes, told.drafted_nodes, told.new_tokens) == (DRAFTED, 2, 6, 5)
        assert (told.prompt_tokens, told.cached_tokens) == (12, 3)
        assert told.tokens_per_second == pytest.approx(50)
        assert script.questions[0]["timings_per_token"] is True


def test_how_much_of_a_long_prompt_llama_server_has_read_is_told(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.remote.answer.LONG_READING", 0.0)
    script = llama_server(has_long_prompt=True)
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.connect()
        engine.ask()
        told = [each for each in engine.events if isinstance(each, Reading)]
        assert [(each.part, each.prompt_tokens, each.cached_tokens) for each in told] == [
            (0.0, 12, 3), (pytest.approx(1 / 3), 12, 3), (pytest.approx(2 / 3), 12, 3),
        ]  # fmt: skip
        assert all(0 <= each.seconds < 100 for each in told), "a time of day is no time that was taken"
        assert engine.events.index(told[-1]) < [type(each) for each in engine.events].index(Prefilled)
        assert script.questions[0]["return_progress"] is True


def test_who_tells_nothing_of_speculation_is_not_said_to_have_none(qtbot: QtBot) -> None:
    with serving(ollama()) as address, listening(address, qtbot) as engine:
        engine.connect()
        engine.ask()
        assert (engine.statistics.method, engine.statistics.passes, engine.statistics.new_tokens) == (UNTOLD, 0, 8)
        assert PLAIN != UNTOLD


def test_a_coppice_tells_its_rounds_as_the_local_engine_would(qtbot: QtBot) -> None:
    script = coppice()
    with serving(script) as address, listening(address, qtbot) as engine:
        assert engine.connect().kind == COPPICE
        engine.engine.look(Watch(verdicts=True))
        ending = engine.ask(replace(GenerateOptions(), speculation=SpeculationOptions("sequoia", budget=9)))
        assert engine.events[:3] == [Queued(1, 2), Queued(1, 0), Prefilled(1, 8, 0, 0.5)]
        assert engine.events[3:-1] == [replace(each, id=1) for each in ROUNDS]
        assert ending == replace(ENDING, id=1)
        assert engine.text == f"{STORY}!"
        assert script.questions[0]["coppice"] == {"rounds": True, "verdicts": True, "method": "sequoia", "budget": 9}


def test_what_was_set_is_sent_under_the_names_that_the_server_knows(qtbot: QtBot) -> None:
    sampling = SamplingOptions(temperature=0.7, top_k=5, min_p=0.1, repetition_penalty=1.2, seed=11)
    options = replace(GenerateOptions(), sampling=sampling, stop=("END",), max_new_tokens=33)
    for make, penalty in ((vllm, "repetition_penalty"), (llama_server, "repeat_penalty")):
        script = make()
        with serving(script) as address, listening(address, qtbot) as engine:
            engine.connect()
            engine.ask(options)
            (asked,) = script.questions
            assert (asked["temperature"], asked["top_k"], asked["min_p"], asked["seed"]) == (0.7, 5, 0.1, 11)
            assert (asked[penalty], asked["stop"], asked["max_tokens"]) == (1.2, ["END"], 33)


@pytest.mark.parametrize(("make", "knows"), [(llama_server, True), (coppice, True), (another, True), (vllm, False)])
def test_who_knows_dry_and_xtc_is_told_of_them_where_they_are_on(
    make: Callable[[], Script], knows: bool, qtbot: QtBot
) -> None:
    def told(sampling: SamplingOptions) -> dict[str, object]:
        script = make()
        with serving(script) as address, listening(address, qtbot) as engine:
            engine.connect()
            engine.ask(replace(GenerateOptions(), sampling=sampling))
        return {name: value for name, value in script.questions[0].items() if name[:4] in ("dry_", "xtc_")}

    on = SamplingOptions(dry_multiplier=0.8, xtc_probability=0.5, dry_sequence_breakers=("|",), xtc_threshold=0.2)
    expected = {
        "dry_multiplier": 0.8, "dry_sequence_breakers": ["|"], "dry_penalty_last_n": 1 << 17,
        "xtc_probability": 0.5, "xtc_threshold": 0.2,
    }  # fmt: skip
    assert told(on) == (expected if knows else {})
    assert told(SamplingOptions(dry_base=2.0, xtc_threshold=0.2)) == {}


def test_a_server_that_refuses_an_option_is_asked_without_it(qtbot: QtBot) -> None:
    script = lm_studio()
    options = replace(GenerateOptions(), sampling=SamplingOptions(min_p=0.1))
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.connect()
        assert isinstance(engine.ask(options), Finished)
        assert ["min_p" in each for each in script.questions] == [True, False]


_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


@pytest.mark.parametrize("make", [vllm, llama_server, sglang, ollama, lm_studio, another, coppice])
def test_every_server_is_told_of_a_schema(make: Callable[[], Script], qtbot: QtBot) -> None:
    script = make()
    options = replace(GenerateOptions(), constraint=Constraint("json_schema", json.dumps(_SCHEMA)))
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.connect()
        engine.ask(options)
    wrapped = {"name": "answer", "strict": True, "schema": _SCHEMA}
    assert script.questions[-1]["response_format"] == {"type": "json_schema", "json_schema": wrapped}


def test_who_refuses_an_option_is_asked_again_with_the_schema(qtbot: QtBot) -> None:
    script = lm_studio()
    options = replace(GenerateOptions(), sampling=SamplingOptions(min_p=0.1), constraint=Constraint("json"))
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.connect()
        assert isinstance(engine.ask(options), Finished)
    formats = [each["response_format"] for each in script.questions]
    assert len(formats) == 2
    assert formats[0] == formats[1], "an answer that is held to nothing was not asked for"
    assert formats[0]["json_schema"]["schema"] == {"type": "object"}, "it refuses json_object"


def test_other_forms_are_sent_to_who_knows_them_and_said_of_who_does_not() -> None:
    pattern, grammar = Constraint("regex", "a+"), Constraint("gbnf", 'root ::= "a"')
    assert constraint_fields(VLLM, pattern) == {"structured_outputs": {"regex": "a+"}}
    assert constraint_fields(SGLANG, pattern) == {"regex": "a+"}
    assert constraint_fields(LLAMA, grammar) == constraint_fields(COPPICE, grammar) == {"grammar": grammar.text}
    assert constraint_fields(OTHER, Constraint("json")) == {"response_format": {"type": "json_object"}}
    assert constraint_fields(OLLAMA, pattern) == constraint_fields(OLLAMA, None) == {}
    assert "regex" in unheld_by(OLLAMA)
    assert unheld_by(COPPICE) == ()
    with pytest.raises(InputError, match="no JSON"):
        constraint_fields(OTHER, Constraint("json_schema", "{"))


def test_an_answer_is_continued_and_former_thoughts_stay_here(qtbot: QtBot) -> None:
    script = vllm()
    chat = (
        *CHAT,
        ChatMessage("assistant", "<think>\nWhich fox?\n</think>\n\nA red one."),
        ChatMessage("user", "And?"),
        ChatMessage("assistant", "It"),
    )
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.connect()
        engine.ask(chat=chat)
        (asked,) = script.questions
        assert [each["content"] for each in asked["messages"]] == [CHAT[0].content, "A red one.", "And?", "It"]
        assert (asked["continue_final_message"], asked["add_generation_prompt"]) == (True, False)


@pytest.mark.parametrize(
    ("make", "tokens", "texts", "context"),
    [
        (vllm, 12, (3, 0), 1024),
        (llama_server, len("<user>" + CHAT[0].content), (2, 0), 2048),
        (coppice, 9, (2, 0), 2048),
        (ollama, 0, (0, 0), 0),
    ],
)
def test_who_counts_tokens_is_asked_and_others_are_not(
    make: Callable[[], Script], tokens: int, texts: tuple[int, ...], context: int, qtbot: QtBot
) -> None:
    script = make()
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.connect()
        counted = engine.count("ab", "")
        assert (counted.tokens, counted.texts, counted.context_tokens) == (tokens, texts, context)
        assert any(path == "/tokenize" for path, _, _ in script.asked) is bool(tokens)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("/srv/models/qwen3.gguf", "qwen3.gguf"),
        ("C:\\models\\qwen3.gguf", "qwen3.gguf"),
        ("\\\\server\\share\\qwen3.gguf", "qwen3.gguf"),
        ("org/qwen3", "org/qwen3"),
        ("qwen3:30b", "qwen3:30b"),
        ("/", "/"),
    ],
)
def test_a_model_that_is_named_by_its_file_is_called_without_its_folders(model: str, name: str) -> None:
    assert Place("http://127.0.0.1:1", model).name == name


def test_pictures_are_sent_where_they_stand_and_not_counted(qtbot: QtBot) -> None:
    chat = (ChatMessage("user", "What is it?", pictures=(Picture(b"\x89PNG"), Picture(b"\xff\xd8\xff", 5))),)
    script = vllm()
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.connect()
        engine.ask(chat=chat)
        (asked,) = script.questions
        assert asked["messages"][0]["content"] == [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            {"type": "text", "text": "What "},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/"}},
            {"type": "text", "text": "is it?"},
        ]
    assert messages(VLLM, chat) == [{"role": "user", "content": "What is it?"}]


@pytest.mark.parametrize("told", [True, False])
def test_some_servers_tell_whether_pictures_are_read(told: bool, qtbot: QtBot) -> None:
    openly, in_props = coppice(), llama_server()
    openly.models[0]["architecture"] = {"input_modalities": ["text", "image"] if told else ["text"]}
    in_props.pages["/props"] = {"modalities": {"vision": told}}
    for script in (openly, in_props):
        with serving(script) as address, listening(address, qtbot) as engine:
            server = engine.connect()
            assert place_of(address, server.kind, server.models[0]).reads_pictures is told
