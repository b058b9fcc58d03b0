"""ModelOpt's checkpoints: what says how they are packed, and which parts of a weight share a scale."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.model.checkpoint import open_checkpoint, open_header_only
from engine.model.formats.fp8 import Fp8
from tests.engine.model.formats import checkpoints
from tests.engine.model.formats.test_table import find
from tests.engine.model.test_facts import facts_of
from tests.engine.packed_models import edit_json

BESIDE = "hf_quant_config.json"
SAID: dict[str, Any] = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}}
FP8 = {"quant_method": "modelopt", "quant_algo": "FP8"}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose config.json says how it is packed."""
    return checkpoints.modelopt(tmp_path_factory.mktemp("modelopt"), "llama")[0].folder


@pytest.fixture
def model(packed: Path, tmp_path: Path) -> Path:
    """The same, but its config.json does not say it: the file beside it does."""
    folder = Path(shutil.copytree(packed, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / BESIDE).write_text(json.dumps(SAID))
    return folder


def test_the_file_beside_config_json_says_how_it_is_packed(packed: Path, model: Path, tmp_path: Path) -> None:
    found = open_checkpoint(str(model))
    assert {weight.format.name for weight in found.packed.values()} == {"NVFP4", "FP8"}
    assert found.files[1] == model / BESIDE, "another packing makes another model of it"
    facts = open_header_only(facts_of(model, tmp_path / "facts"))
    assert (facts.packed.keys(), facts.parameters) == (found.packed.keys(), found.parameters)
    assert open_checkpoint(str(packed)).packed.keys() == found.packed.keys()
    edit_json(model / "config.json", quantization_config=SAID)
    (model / BESIDE).unlink()
    assert open_checkpoint(str(model)).packed.keys() == found.packed.keys(), "the same words in config.json"


def test_config_json_comes_first(model: Path) -> None:
    edit_json(model / "config.json", quantization_config={"quant_method": "aqlm"})
    with pytest.raises(ModelError, match="aqlm"):
        open_checkpoint(str(model))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("[]", "does not hold a JSON object"),
        ('{"quantization": {"quant_algo": "W4A8_AWQ"}}', "W4A8_AWQ"),
        ('{"quantization": {"quant_algo": ["NVFP4"]}}', "NVFP4"),
        ('{"quantization": "NVFP4"}', "quantised already"),
        ('{"quant_method": 7}', "quantised already"),
    ],
)
def test_a_file_that_says_nothing_of_use_is_refused(said: str, words: str, model: Path) -> None:
    (model / BESIDE).write_text(said)
    with pytest.raises(ModelError, match=words) as refusal:
        open_checkpoint(str(model))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("kind", "scales", "form"),
    [
        ("F32", (), Fp8(200, 300)),
        ("F32", (200,), Fp8(1, 300)),
        ("F32", (2, 3), Fp8(128, 128)),
        ("BF16", (2, 1, 3, 1), Fp8(128, 128)),
        ("U8", (200, 10), Fp8(1, 32)),
    ],
)
def test_the_scales_of_fp8_tell_what_they_are_for(kind: str, scales: tuple[int, ...], form: Fp8) -> None:
    found = find(FP8, a__weight=("F8_E4M3", (200, 300)), a__weight_scale=(kind, scales))
    assert found["a.weight"].format == form


@pytest.mark.parametrize("scales", [("F32", (3, 2)), ("U8", (200, 9)), ("I32", ()), ("F32", (300,))])
def test_scales_of_fp8_that_fit_nothing_are_refused(scales: tuple[str, tuple[int, ...]]) -> None:
    with pytest.raises(ModelError, match="has scales of the shape"):
        find(FP8, a__weight=("F8_E4M3", (200, 300)), a__weight_scale=scales)


def test_where_only_the_cache_is_packed_weights_are_as_they_are() -> None:
    assert find({**FP8, "quant_algo": None}, a__weight=("BF16", (200, 300))) == {}


def test_fused_experts_whose_scales_have_another_name_are_refused() -> None:
    """As ModelOpt exports Llama 4: their numbers alone would be other weights."""
    stacks = {"e__gate_up_proj": ("F8_E4M3", (2, 4, 8)), "e__gate_up_proj_weight_scale": ("F32", ())}
    with pytest.raises(ModelError, match="has no scales"):
        find(FP8, a__weight=("F8_E4M3", (200, 300)), a__weight_scale=("F32", ()), **stacks)
