"""Pictures for models in GGUF files: what their encoders make of them, and whole answers, as from safetensors."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import mkdtemp

import pytest
import torch

from engine.engine import Engine, load
from engine.errors import Cancellation, ModelError
from engine.loading.pair import open_pair
from engine.model.pictures.encoder import Features
from engine.model.pictures.reader import PictureReader, open_reader
from engine.picture_tokens import is_row
from engine.protocol.messages import ChatMessage, Finished, Round
from engine.protocol.options import GenerateOptions, LoadOptions, SpeculationOptions
from tests.engine.gguf_pictures import CONVERTERS, save_picture_gguf, write_encoder
from tests.engine.picture_models import picture

KINDS = [*CONVERTERS]
ANSWERED = ("gemma3", "gemma4", "mistral3", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5")
CHAT = (ChatMessage("user", "What is it?", pictures=(picture(0), replace(picture(1, 84, 56), at=5))),)


@cache
def both(kind: str) -> tuple[Path, Path]:
    """The same model, in safetensors and in GGUF files with an encoder beside."""
    return save_picture_gguf(kind, Path(mkdtemp()))


def copied(kind: str, folder: Path) -> Path:
    """The language model's file in a folder of its own, with its encoder beside."""
    path = both(kind)[1]
    return Path(copytree(path.parent, folder / "copied")) / path.name


def reader_of(path: Path) -> PictureReader:
    pair = open_pair(LoadOptions(target=str(path), draft="none"))
    return open_reader(pair.target, pair.tokenizer.library, torch.float32, torch.device("cpu"), lambda: None)


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        reader_of(path)
    return f"{caught.value.message} {caught.value.hint}"


def features(reader: PictureReader) -> Features:
    shown = picture(0)
    first = reader.written(shown).rows[0]
    return reader._features_of([first], {first: shown.data}, [])[first]


@cache
def features_of_safetensors(kind: str) -> Features:
    return features(reader_of(both(kind)[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_the_safetensors(kind: str) -> None:
    found, expected = features(reader_of(both(kind)[1])), features_of_safetensors(kind)
    assert torch.equal(found.rows, expected.rows)
    assert len(found.deeper) == len(expected.deeper)
    assert all(map(torch.equal, found.deeper, expected.deeper))
    assert float(expected.rows.std()) > 1e-4, "random, not nothing"


@pytest.mark.parametrize("kind", ["gemma3", "mistral3", "qwen3_vl"])
def test_features_of_halves_are_as_near_as_halves_can_be(kind: str, tmp_path: Path) -> None:
    path = copied(kind, tmp_path)
    (path.parent / "mmproj-F16.gguf").unlink()
    write_encoder(kind, both(kind)[0], path.parent / "mmproj-F16.gguf", "F16")
    found, expected = features(reader_of(path)).rows, features_of_safetensors(kind).rows
    assert 0 < float((found - expected).norm() / expected.norm()) < 1e-2


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    opened: list[Engine] = []
    yield opened
    for each in opened:
        each.close()


def loaded(path: Path, opened: list[Engine]) -> Engine:
    steps = load(1, open_pair(LoadOptions(target=str(path), draft="none", context_tokens=500)), Cancellation())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            opened.append(end.value)
            return opened[-1]


def chat_for(kind: str) -> tuple[ChatMessage, ...]:
    """With two pictures, or one where a picture has many rows."""
    (message,) = CHAT
    return (replace(message, pictures=message.pictures[: 1 if kind == "gemma4" else 2]),)


def answered(engine: Engine, kind: str, method: str) -> str:
    options = GenerateOptions(
        max_new_tokens=12, ignore_eos=True, speculation=SpeculationOptions(method=method, budget=8)
    )
    events = engine.generate(1, engine.prompt(chat_for(kind)), options)
    return "".join(event.text for event in events if isinstance(event, Round | Finished))


@pytest.mark.parametrize("kind", ANSWERED)
def test_answers_are_those_of_the_safetensors(kind: str, engines: list[Engine]) -> None:
    ours, theirs = (loaded(path, engines) for path in reversed(both(kind)))
    prompts = [engine.prompt(chat_for(kind)).tokens for engine in (ours, theirs)]
    assert [*map(is_row, prompts[0])] == [*map(is_row, prompts[1])]
    assert sum(map(is_row, prompts[0])) > 2
    expected = answered(theirs, kind, "none")
    assert answered(ours, kind, "none") == expected
    assert answered(ours, kind, "lookup") == expected
