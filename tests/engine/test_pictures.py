"""Answers to questions with pictures: transformers' own text, whatever drafts, and clear words where it cannot be."""

import json
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import save_file

from engine.engine import Engine, load
from engine.errors import Cancellation, InputError, ModelError
from engine.loading.kept import texts_on_disk
from engine.loading.pair import open_pair
from engine.model.checkpoint import open_checkpoint
from engine.model.pictures import reader
from engine.model.pictures.reader import open_reader
from engine.observing import watcher
from engine.picture_tokens import is_row
from engine.protocol.messages import ChatMessage, Count, Event, Finished, Prefilled, Reading, Round, Statistics
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.protocol.pictures import MOST_PICTURES, Picture
from engine.text.prompt import Prompt, count_tokens
from tests.engine.family_models import random_model
from tests.engine.head_models import save_with_head
from tests.engine.picture_models import TOKEN, picture, picture_config, random_image, save_picture_model, tokenizer_of
from tests.engine.tensor_files import read_tensors
from tests.engine.tiny_models import save_tiny_model

LENGTH = 14
KINDS = ("gemma3", "qwen3_5", "qwen3_vl")
WORDS = "What is it?"
CHAT = (ChatMessage("user", WORDS, pictures=(picture(0), replace(picture(1, 84, 56), at=5))),)


@cache
def folder_of(kind: str, seed: int = 0) -> str:
    folder = Path(mkdtemp())
    save_picture_model(kind, folder, seed)
    return str(folder)


@cache
def text_draft() -> str:
    """A model of text alone, with the same tokens."""
    folder = Path(mkdtemp())
    save_tiny_model("llama", folder)
    tokenizer_of("qwen3_vl").save_pretrained(folder)
    return str(folder)


@pytest.fixture
def engine() -> Iterator[Callable[..., Engine]]:
    """Loads pairs, and closes them."""
    opened: list[Engine] = []

    def made(target: str, draft: str = "none", **options: Any) -> Engine:
        opened.append(loaded(target, draft, **options))
        return opened[-1]

    yield made
    for each in opened:
        each.close()


def loaded(target: str, draft: str = "none", keeps_texts: bool = False, **options: Any) -> Engine:
    pair = open_pair(LoadOptions(target=target, draft=draft, context_tokens=400, **options))
    return ended(load(1, pair, Cancellation(), keeps_texts))


def ended(steps: Generator[Event, None, Engine]) -> Engine:
    """The engine, once it is loaded."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Engine = end.value
            return found


def answered(engine: Engine, prompt: Prompt, **options: Any) -> tuple[str, Statistics]:
    """The text, and its figures."""
    chosen = GenerateOptions(**{"max_new_tokens": LENGTH, "ignore_eos": True, **options})
    events = list(engine.generate(1, prompt, chosen))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.statistics
    return "".join(event.text for event in events if isinstance(event, Round | Finished)), finished.statistics


@cache
def expected(kind: str) -> tuple[list[int], str]:
    """The prompt and the greedy text of transformers' own model and processor."""
    tokenizer = tokenizer_of(kind)
    model = random_model(picture_config(kind, tokenizer.convert_tokens_to_ids(TOKEN)))
    engine = loaded(folder_of(kind))
    processor = engine._loaded.pictures._target._processor._processor  # type: ignore[union-attr]
    parts = [{"type": "image"}, {"type": "text", "text": WORDS[:5]}, {"type": "image"}]
    turns = [{"role": "user", "content": [*parts, {"type": "text", "text": WORDS[5:]}]}]
    written = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    images = [random_image(0), random_image(1, 84, 56)]
    given = processor(images=images, text=[written], return_tensors="np", add_special_tokens=False)
    tensors = {name: torch.as_tensor(value) for name, value in given.items()}
    found = model.generate(**tensors, max_new_tokens=LENGTH, min_new_tokens=LENGTH, do_sample=False)
    prompt = tensors["input_ids"][0].tolist()
    engine.close()
    return prompt, tokenizer.decode(found[0, len(prompt) :], skip_special_tokens=True)


@pytest.mark.parametrize("kind", KINDS)
def test_prompt_and_greedy_text_are_those_of_transformers(kind: str, engine: Callable[..., Engine]) -> None:
    its = engine(folder_of(kind))
    prompt, text = expected(kind)
    token = its.tokenizer.vocabulary[TOKEN]
    assert [token if is_row(each) else each for each in its.prompt(CHAT).tokens] == prompt
    assert answered(its, its.prompt(CHAT))[0] == text


@pytest.mark.parametrize("method", ["auto", "specexec", "lookup"])
def test_a_draft_of_text_changes_nothing(method: str, engine: Callable[..., Engine]) -> None:
    its = engine(folder_of("qwen3_vl"), text_draft())
    speculation = SpeculationOptions(method=method, budget=12)
    assert answered(its, its.prompt(CHAT), speculation=speculation)[0] == expected("qwen3_vl")[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_that_reads_pictures_is_shown_them(kind: str, engine: Callable[..., Engine]) -> None:
    """It is the target itself here, and guesses all that comes as long as it sees what the target sees."""
    its = engine(folder_of(kind), folder_of(kind))
    speculation = SpeculationOptions(method="specexec", budget=12)
    text, figures = answered(its, its.prompt(CHAT), speculation=speculation)
    assert text == expected(kind)[1]
    assert figures.passes < LENGTH / 2
    if kind == "gemma3":  # its random text is the same without
        return
    its._loaded.pictures._draft = None
    blind, fewer = answered(its, its.prompt(CHAT), speculation=speculation)
    assert blind == text
    assert fewer.passes > figures.passes


def test_layers_that_draft_for_themselves_stand_where_the_text_does(engine: Callable[..., Engine]) -> None:
    its = engine(folder_of("qwen3_vl"), "self", place="ssd")
    text, _ = answered(its, its.prompt(CHAT), speculation=SpeculationOptions(method="specexec", budget=12))
    assert text == expected("qwen3_vl")[1]


def test_the_next_turn_reads_what_is_new(engine: Callable[..., Engine]) -> None:
    its = engine(folder_of("qwen3_vl"))
    text, _ = answered(its, its.prompt(CHAT))
    longer = (*CHAT, ChatMessage("assistant", text), ChatMessage("user", "And?"))
    prompt = its.prompt(longer)
    events = list(its.generate(2, prompt, GenerateOptions(max_new_tokens=4, ignore_eos=True)))
    prefilled = next(event for event in events if isinstance(event, Prefilled))
    assert prefilled.cached_tokens >= len(its.prompt(CHAT).tokens) - 1
    other = engine(folder_of("qwen3_vl"))
    assert answered(other, prompt, max_new_tokens=4)[0] == "".join(
        event.text for event in events if isinstance(event, Round | Finished)
    )
    plain = (ChatMessage("user", WORDS),)
    assert answered(its, its.prompt(plain))[0] == answered(other, other.prompt(plain))[0], "pictures of before are gone"


def test_another_picture_is_another_text(engine: Callable[..., Engine]) -> None:
    its = engine(folder_of("qwen3_vl"))
    others = (ChatMessage("user", WORDS, pictures=(picture(7), replace(picture(8, 84, 56), at=5))),)
    one, two = its.prompt(CHAT).tokens, its.prompt(others).tokens
    assert len(one) == len(two)
    assert [is_row(token) for token in one] == [is_row(token) for token in two]
    assert answered(its, its.prompt(CHAT))[0] != answered(its, its.prompt(others))[0]
    assert answered(its, its.prompt(CHAT))[0] == expected("qwen3_vl")[1]


@pytest.mark.parametrize("method", ["sequoia", "specinfer", "chain", "none"])
def test_sampling_and_penalties_know_text_alone(method: str, engine: Callable[..., Engine]) -> None:
    its = engine(folder_of("qwen3_vl"), text_draft())
    sampling = SamplingOptions(temperature=0.8, seed=3, repetition_penalty=1.2, presence_penalty=0.3)
    speculation = SpeculationOptions(method=method, budget=8)
    text, figures = answered(its, its.prompt(CHAT), sampling=sampling, speculation=speculation)
    assert figures.new_tokens == LENGTH
    assert text


def test_a_typed_mark_is_text(engine: Callable[..., Engine]) -> None:
    its = engine(folder_of("qwen3_vl"))
    chat = (ChatMessage("user", f"{TOKEN} is a mark", pictures=(picture(0),)),)
    tokens = its.prompt(chat).tokens
    assert sum(map(is_row, tokens)) == 6
    assert its.tokenizer.vocabulary[TOKEN] not in tokens


def test_pictures_count_as_the_tokens_that_they_take(engine: Callable[..., Engine]) -> None:
    its = engine(folder_of("qwen3_vl"))
    counted = count_tokens(its.tokenizer, Count(1, CHAT), 400, its.write_pictures)
    assert counted.tokens == len(its.prompt(CHAT).tokens)
    broken = (ChatMessage("user", "?", pictures=(Picture(b"no picture"),)),)
    assert count_tokens(its.tokenizer, Count(2, broken), 400, its.write_pictures).tokens == 0


def test_what_cannot_be_read_is_said(engine: Callable[..., Engine]) -> None:
    its = engine(folder_of("qwen3_vl"))
    for pictures, words in (
        ((Picture(b"no picture"),), "not a picture"),
        ((Picture(picture(0).data[:200]),), "damaged"),
        ((picture(0),) * (MOST_PICTURES + 1), "at most 64"),
    ):
        with pytest.raises(InputError, match=words):
            its.prompt((ChatMessage("user", "?", pictures=pictures),))


def test_a_model_that_reads_text_alone_says_so(engine: Callable[..., Engine]) -> None:
    its = engine("embedded")
    told = its.describe(1, 0.0)
    assert not told.reads_pictures
    assert "text alone" in told.no_pictures
    with pytest.raises(InputError, match="reads no pictures"):
        its.prompt(CHAT)
    assert engine(folder_of("qwen3_vl")).describe(1, 0.0).reads_pictures


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "preprocessor_config.json").unlink(), "preprocessor_config.json is missing"),
        (lambda folder: rename(folder, "model_type", "aya_vision"), "not compared"),
    ],
)
def test_why_a_models_pictures_are_not_read(change: Callable[[Path], None], words: str, tmp_path: Path) -> None:
    save_picture_model("llava", tmp_path)
    change(tmp_path)
    with pytest.raises(InputError, match=words):
        open_reader(open_checkpoint(str(tmp_path)), None, torch.float32, torch.device("cpu"), lambda: None)


def rename(folder: Path, key: str, value: str) -> None:
    """Change an entry of a config.json."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {key: value}))


def test_what_was_read_of_pictures_is_there_tomorrow(
    tmp_path: Path, engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts_on_disk, "LEAST_TOKENS", 1)
    monkeypatch.setattr(texts_on_disk, "LEAST_SECONDS", 0.0)
    turns = []
    for chat in (CHAT, (*CHAT, ChatMessage("assistant", "Well."), ChatMessage("user", "And?"))):
        its = engine(folder_of("qwen3_vl"), keeps_texts=True)
        its.keep_on_disk(str(tmp_path), 1 << 30)
        prompt = its.prompt(chat)
        turns.append((answered(its, prompt, conversation="one"), prompt))
        its.rest(lambda: None)
        its.close()
    (text, figures), prompt = turns[-1]
    assert figures.cached_tokens >= len(turns[0][1].tokens) - 1
    assert answered(engine(folder_of("qwen3_vl")), prompt)[0] == text


def test_heads_that_draft_read_pictures_with_their_target(tmp_path: Path, engine: Callable[..., Engine]) -> None:
    save_picture_model("qwen3_5", tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    head = read_tensors(save_with_head("qwen3_5_text", tmp_path / "head") / "model.safetensors")
    own = {name: tensor for name, tensor in head.items() if name.startswith("mtp.")}
    save_file({**read_tensors(weights), **own}, weights, {"format": "pt"})
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["text_config"]["mtp_num_hidden_layers"] = 1
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    its = engine(str(tmp_path / "model"), "heads")
    text, figures = answered(its, its.prompt(CHAT), speculation=SpeculationOptions(method="specexec", budget=8))
    assert text == expected("qwen3_5")[1]
    assert figures.drafted_nodes > 0


def test_looking_at_pictures_is_told_and_the_time_of_it_is_not_that_of_reading(
    engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "LONG_READING", 0.0)
    monkeypatch.setattr(watcher, "READ_APART", 0.0)
    now = iter(range(0, 10**9, 1000))
    monkeypatch.setattr(reader, "perf_counter", lambda: float(next(now)))
    its = engine(folder_of("qwen3_vl"), keeps_texts=True)
    learned = Mock()
    assert its._loaded.texts.on_disk is not None
    monkeypatch.setattr(its._loaded.texts.on_disk, "learn", learned)
    told: list[Event] = []
    for chat in (CHAT, (*CHAT, ChatMessage("user", "And?", pictures=(picture(0), replace(picture(2), at=2))))):
        del told[:]
        options = GenerateOptions(max_new_tokens=2, ignore_eos=True)
        list(its.generate(1, its.prompt(chat), options, watcher.Watcher(told.append)))
        looks = [(each.picture, each.pictures) for each in told if isinstance(each, Reading) and each.picture]
        assert list(dict.fromkeys(looks)) == ([(1, 2), (2, 2)] if chat is CHAT else [(1, 1)])
        assert len(looks) > len(set(looks)), "at every layer"
        assert its._loaded.pictures.seconds == 1000 * (len(looks) + 1)
        assert learned.call_args.args[1] == 0.0, "encoding took longer than all of it, by this clock"


@pytest.mark.parametrize("kind", ["gemma3", "qwen3_vl", "mistral3"])
def test_looking_at_a_picture_ends_before_the_next_layer(kind: str, engine: Callable[..., Engine]) -> None:
    cancellation = Cancellation()
    cancellation.begin(1)
    steps = load(1, open_pair(LoadOptions(target=folder_of(kind), draft="none", context_tokens=400)), cancellation)
    its = ended(steps)
    layers: list[tuple[int, int]] = []

    def stop(picture: int, pictures: int) -> None:
        layers.append((picture, pictures))
        cancellation.cancel(1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watcher.Watcher, "look", lambda _, *args: stop(*args))
        events = list(its.generate(1, its.prompt(CHAT), GenerateOptions(max_new_tokens=2)))
    its.close()
    assert len(layers) == 1
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "cancelled"


def test_a_template_that_parts_pictures_by_nothing_is_refused_in_words(engine: Callable[..., Engine]) -> None:
    its = engine(folder_of("qwen3_vl"))
    chat = (ChatMessage("user", "?", pictures=(picture(0), picture(2))),)
    with pytest.raises(ModelError, match=r"pictures of .* cannot be read"):
        list(its.generate(1, its.prompt(chat), GenerateOptions()))


def test_why_no_pictures_are_read_holds_nothing_that_was_loaded(engine: Callable[..., Engine]) -> None:
    reason = engine("embedded")._loaded.pictures._target
    assert isinstance(reason, ModelError)
    assert reason.__traceback__ is None
