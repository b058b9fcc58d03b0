"""What the plan keeps for pictures: enough for the encoder's weights, nothing for text alone, and less kept of them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

from engine.loading.picture_readers import feature_bytes
from engine.loading.planning import Question, plan_pair
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.pictures.picture_sizes import MOST_FEATURE_BYTES, MOST_ROWS, PictureSizes, picture_sizes
from engine.weights.planning.machine import GIB, MIB, Memory
from engine.weights.planning.needs import Layer, ModelNeeds, PassShape, Workload, fixed_bytes
from engine.weights.planning.placement import Plan
from tests.engine.picture_models import save_picture_model
from tests.engine.tiny_models import save_tiny_model


def checkpoint_of(config: Mapping[str, object], metadata: Mapping[str, object] | None = None) -> Checkpoint:
    return Checkpoint("it", "it", Path(), config, (), {}, metadata=metadata or {})


@pytest.mark.parametrize("kind", ["exaone4_5", "gemma3", "glm4v", "mistral3", "qwen2_vl", "qwen3_vl"])
def test_weights_outside_layers_and_one_layer_have_room(kind: str) -> None:
    """Of encoders of their full size."""
    config = CONFIG_MAPPING[kind]()
    config.text_config.num_hidden_layers = 1
    with torch.device("meta"):
        encoder = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING[type(config)]._from_config(config, dtype=torch.bfloat16)
    layers: dict[str, int] = {}
    outside = 0
    for name, weight in encoder.named_parameters():
        place, _, number = name.rpartition("layers.")
        block = f"{place}{number.partition('.')[0]}" if number.partition(".")[0].isdigit() else ""
        if "language_model" in name or name.startswith("lm_head"):
            continue
        if block or ".blocks." in name:
            key = block or ".".join(name.split(".blocks.")[1].split(".")[:1])
            layers[key] = layers.get(key, 0) + weight.nbytes
        else:
            outside += weight.nbytes
    found = picture_sizes(checkpoint_of(config.to_dict()), config.text_config.hidden_size, 2, 1)
    assert outside + max(layers.values()) < found.encoding < 1 * GIB


def test_what_reads_text_alone_takes_nothing_and_no_number_of_a_config_is_believed() -> None:
    assert picture_sizes(checkpoint_of({"model_type": "llama"}), 4096, 2, 8192) == PictureSizes()
    gguf = checkpoint_of({"model_type": "gemma3"}, {"general.architecture": "gemma3"})
    assert picture_sizes(gguf, 4096, 2, 8192) == PictureSizes()
    usual = picture_sizes(checkpoint_of({"model_type": "gemma3", "vision_config": {}}), 4096, 2, 8192)
    for odd in (1 << 40, -1, 0, "1152", True, [], [[1]], None):
        names = ("hidden_size", "intermediate_size", "patch_size", "image_size", "spatial_merge_size")
        config = {"model_type": "gemma3", "vision_config": dict.fromkeys(names, odd)}
        assert picture_sizes(checkpoint_of(config), 4096, 2, 8192) == usual
    assert usual.features == MOST_ROWS * 4096 * 2
    assert picture_sizes(checkpoint_of({"model_type": "gemma3"}), 4096, 2, 100).features == 100 * 4096 * 2


def test_an_encoder_is_done_before_the_pass_begins_whose_room_it_has_on_a_processor() -> None:
    shape = PassShape(vocabulary=1000, hidden=64, heads=4, query_width=64, widest=128, value_bytes=2)
    needs = ModelNeeds("plain", (Layer(MIB, MIB, MIB, MIB),), MIB, 100, shape)
    work = Workload(256)
    buffers = fixed_bytes(needs, None, work, on_gpu=False).buffers
    seeing = replace(needs, encoding_bytes=buffers + 7, feature_bytes=5)
    assert fixed_bytes(needs, None, work).pictures == 0
    assert fixed_bytes(seeing, None, work, on_gpu=False).pictures == 7 + 5
    assert fixed_bytes(replace(seeing, encoding_bytes=1), None, work, on_gpu=False).pictures == 5
    assert fixed_bytes(seeing, None, work, on_gpu=True).pictures == buffers + 7 + 5


def planned(folder: Path, ram: int) -> Plan:
    question = Question(weights="bfloat16", context_tokens=256, memory=Memory(ram))
    return plan_pair(open_checkpoint(str(folder)), None, torch.device("cpu"), question)


def test_the_plan_has_room_for_pictures_and_less_is_kept_of_them_where_less_is_left(tmp_path: Path) -> None:
    save_picture_model("qwen3_vl", tmp_path / "sees")
    save_tiny_model("llama", tmp_path / "text")
    found = planned(tmp_path / "sees", 32 * GIB)
    assert found.bytes.pictures > 0
    assert found.bytes.ram >= found.bytes.pictures
    assert planned(tmp_path / "text", 32 * GIB).bytes.pictures == 0
    assert feature_bytes(found) == MOST_FEATURE_BYTES
    least = found.bytes.device + found.bytes.ram
    assert feature_bytes(planned(tmp_path / "sees", least + 160 * MIB)) == 10 * MIB
    assert feature_bytes(planned(tmp_path / "sees", least)) == 0
    short = planned(tmp_path / "sees", found.bytes.device)
    assert not short.fits
    assert "pictures" in short.reason
