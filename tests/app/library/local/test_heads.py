"""Heads are told from the names in model files, and never from what config.json promises alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.library.local.heads import NO_HEADS, HeadFacts, read_candidate, read_target
from app.library.local.models import Home, read_model
from tests.app.hub.ggufs import gguf
from tests.app.hub.repositories import REST, safetensors, shapes, sharded, tiny
from tests.app.library.local.folders import write

BRINGS = HeadFacts(hidden=64, vocabulary=131, brings_heads=True)
BRINGS_NONE = HeadFacts(hidden=64, vocabulary=131)
EAGLE: dict[str, Any] = {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}


def with_tensor(name: str, **config: Any) -> dict[str, bytes]:
    """A model in one file, with a further tensor."""
    weights = safetensors(shapes(range(2)) | REST | {name: [64, 128]})
    return tiny(**config) | {"model.safetensors": weights}


def knows_heads(folder: Path) -> bool:
    """What the engine says."""
    from engine.model.checkpoint import open_checkpoint
    from engine.model.heads.multi_token import has_heads

    return has_heads(open_checkpoint(str(folder)))


@pytest.mark.parametrize(
    "name",
    [
        "mtp.fc.weight",
        "mtp.fc.qweight",
        "model.layers.2.eh_proj.weight",
        "model.mtp.layers.0.eh_proj.weight",
    ],
)
def test_heads_are_told_by_the_projection_in_front_of_them(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path, with_tensor(name))
    assert read_target(folder) == BRINGS
    assert knows_heads(folder) or "qweight" in name  # which is packed only where config.json says so


@pytest.mark.parametrize("name", ["model.layers.1.eh_proj.weight", "visual.mtp.fc.weight", "mtp.norm.weight"])
def test_other_names_are_no_heads(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path, with_tensor(name, num_nextn_predict_layers=1))
    assert read_target(folder) == BRINGS_NONE
    assert not knows_heads(folder)


def test_of_several_files_the_index_tells(tmp_path: Path) -> None:
    files = sharded()
    folder = write(tmp_path, files)
    assert read_target(folder) == BRINGS_NONE
    index = json.loads(files["model.safetensors.index.json"])
    index["weight_map"]["mtp.fc.weight"] = "model-00003-of-00003.safetensors"
    write(folder, {"model.safetensors.index.json": json.dumps(index).encode()})
    assert read_target(folder) == BRINGS


def test_the_language_model_inside_a_wrapper_counts(tmp_path: Path) -> None:
    inside = {"num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 131}
    files = with_tensor("model.language_model.layers.2.eh_proj.weight", text_config=inside, hidden_size=7)
    assert read_target(write(tmp_path, files)) == BRINGS


def test_nothing_is_known_of_what_cannot_be_read(tmp_path: Path) -> None:
    folder = write(tmp_path, with_tensor("mtp.fc.weight"))
    for damaged in (b"", (1 << 40).to_bytes(8, "little"), (9).to_bytes(8, "little") + b"{" * 9):
        assert read_target(write(folder, {"model.safetensors": damaged})) == NO_HEADS
    for place in (tmp_path / "none", tmp_path / "model.safetensors"):
        assert read_target(place) == read_candidate(place) == NO_HEADS


def test_of_a_gguf_file_the_width_is_known(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf())
    assert read_target(path) == HeadFacts(hidden=256)
    path.write_bytes(gguf()[:99])
    assert read_target(path) == NO_HEADS


def test_a_head_of_the_library_speculators_describes_its_layer_inside(tmp_path: Path) -> None:
    layer = {"model_type": "llama", "hidden_size": 64, "vocab_size": 131}
    config = {"architectures": ["Eagle3Speculator"], "transformer_layer_config": layer}
    folder = write(tmp_path, tiny() | {"config.json": json.dumps(config).encode()})
    assert read_target(folder) == HeadFacts(hidden=64, vocabulary=131, is_head=True)
    assert not read_model(folder, Home.FOLDER, "head", str(folder), folder).problem


@pytest.mark.parametrize("name", ["LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3Qwen3ForCausalLM"])
def test_an_eagle_head_is_a_head_and_no_model(name: str, tmp_path: Path) -> None:
    config = EAGLE | {"architectures": [name], "hidden_size": 32, "target_hidden_size": 64}
    folder = write(tmp_path, with_tensor("fc.weight", **config))
    head = read_target(folder)
    assert read_candidate(folder) == head
    assert head == HeadFacts(hidden=64, vocabulary=131, is_head=True)
    assert read_model(folder, Home.FOLDER, "head", str(folder), folder).is_head
    assert head.fits(BRINGS)
    assert not head.fits(head)
    assert head.fits(HeadFacts(hidden=64)), "a GGUF file does not tell its vocabulary here"
    assert not head.fits(HeadFacts(hidden=64, vocabulary=132))
    assert not head.fits(HeadFacts(hidden=32, vocabulary=131))
    assert not BRINGS.fits(BRINGS)
