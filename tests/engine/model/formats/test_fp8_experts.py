"""DeepSeek V4 as it is published: FP8, and experts in MXFP4 beside it, under the names of its own checkpoints."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.shape import model_sizes
from tests.engine.family_models import random_model, tiny_config
from tests.engine.family_proof import loaded
from tests.engine.speculation.pairs import random_prompt
from tests.engine.tensor_files import read_tensors

LEVELS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])
GROUP = 32


def in_four_bits(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Bytes [rows, columns / 2] with the first number low, their exponents, and the numbers that they stand for."""
    grouped = weight.unflatten(1, (-1, GROUP))  # type: ignore[no-untyped-call]
    scales = (grouped.abs().amax(-1) / 6).log2().ceil().exp2().to(torch.float8_e8m0fnu)
    codes = (grouped / scales.float()[..., None]).unsqueeze(-1).sub(LEVELS).abs().argmin(-1)
    numbers = (LEVELS[codes] * scales.float()[..., None]).flatten(1)
    low, high = codes.flatten(1)[:, ::2], codes.flatten(1)[:, 1::2]
    return (low | high << 4).to(torch.uint8).view(torch.int8), scales, numbers


def in_eight_bits(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers in e4m3 and a scale of the whole matrix, and the numbers that they stand for."""
    scale = (weight.abs().max() / 448).log2().ceil().exp2().view(1, 1)
    stored = (weight / scale).to(torch.float8_e4m3fn)
    return stored, scale.to(torch.float8_e8m0fnu), stored.float() * scale


def test_experts_of_four_bits_beside_matrices_of_eight_are_what_they_stand_for(tmp_path: Path) -> None:
    packed, plain = tmp_path / "packed", tmp_path / "plain"
    config = tiny_config("deepseek_v4")
    config.moe_intermediate_size = 64
    random_model(config).save_pretrained(packed)
    stored, meant = {}, {}
    for name, tensor in read_tensors(packed / "model.safetensors").items():
        stored[name] = meant[name] = tensor
        is_expert, is_projection = ".experts." in name, name.endswith((".wq_a.weight", ".wo_b.weight"))
        if is_expert or is_projection:
            pack = in_four_bits if is_expert else in_eight_bits
            stored[name], stored[name.removesuffix("weight") + "scale"], meant[name] = pack(tensor)
    assert sum(".experts." in name and name.endswith(".scale") for name in stored) == 4 * 8 * 3
    plain.mkdir()
    save_file(meant, plain / "model.safetensors", {"format": "pt"})
    save_file(stored, packed / "model.safetensors", {"format": "pt"})
    said = json.loads((packed / "config.json").read_text("utf-8"))
    (plain / "config.json").write_text(json.dumps(said), "utf-8")
    said["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}
    said["expert_dtype"] = "fp4"
    (packed / "config.json").write_text(json.dumps(said), "utf-8")
    checkpoint = open_checkpoint(str(packed))
    assert set(model_sizes(checkpoint).formats) == {"MXFP4", "FP8"}
    text = random_prompt(12, seed=0)
    found, expected = (
        Context(loaded(each), 16).score(text, list(range(-1, len(text) - 1)))
        for each in (checkpoint, open_checkpoint(str(plain)))
    )
    assert torch.equal(found, expected)
