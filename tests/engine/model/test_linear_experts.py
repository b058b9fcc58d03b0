"""Experts that were made linear layers to be quantised: read into networks that hold all of them in one tensor."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.model.checkpoint import open_checkpoint
from engine.model.families.linear_experts import converters_for
from tests.engine.packed_models import FILE, fp8, pack
from tests.engine.tiny_models import BASE, HEAD, tiny_model
from tests.engine.weights.test_packed_stream import resident, same, streamed_of

FUSED: dict[str, dict[str, Any]] = {
    "Llama4TextConfig": {
        "num_local_experts": 4, "num_experts_per_tok": 2, "attention_chunk_size": 8, "intermediate_size_mlp": 96,
        "interleave_moe_layer_step": 2,
    },
    "Gemma4TextConfig": {
        "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 48,
        "hidden_size_per_layer_input": 0, "global_head_dim": 16, "num_global_key_value_heads": 2,
    },
}  # fmt: skip


def made_linear(tensors: dict[str, Tensor], turned: bool) -> dict[str, Tensor]:
    """Every expert's own gate, up and down, outputs first."""
    found = {}
    for name, tensor in tensors.items():
        stem, _, weight = name.rpartition(".")
        if weight not in ("gate_up_proj", "down_proj"):
            found[name] = tensor
            continue
        for expert, own in enumerate(tensor.transpose(1, 2) if turned else tensor):
            parts = dict(zip(("gate_proj", "up_proj"), own.chunk(2), strict=True)) if "up" in weight else {weight: own}
            found |= {f"{stem}.{expert}.{part}.weight": matrix for part, matrix in parts.items()}
    return {name: tensor.contiguous() for name, tensor in found.items()}


@pytest.mark.parametrize("family", FUSED)
def test_experts_stored_one_by_one_are_those_of_the_fused_network(family: str, tmp_path: Path) -> None:
    sizes = {**BASE, **HEAD, "num_hidden_layers": 2, "tie_word_embeddings": True}
    config = getattr(transformers, family)(**{**sizes, **FUSED[family]})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for each in ("fused", "linear"):
        model.save_pretrained(tmp_path / each)
    tied = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    save_file(made_linear(tied, "Llama4" in family), tmp_path / "linear" / FILE, {"format": "pt"})
    fused, linear = (open_checkpoint(str(tmp_path / each)) for each in ("fused", "linear"))
    assert same(resident(linear, torch.float32), resident(fused, torch.float32))
    packed, plain = pack(tmp_path / "linear", tmp_path / "packed", *fp8("row"), lambda name: ".experts." in name)
    expected = resident(plain, torch.float32)
    assert same(resident(packed, torch.float32), expected)
    assert same(streamed_of(packed, ["ram", "ssd"], cache_bytes=1 << 20), expected)


class Experts(nn.Module):
    """Gates and ups, and downs, of these shapes."""

    def __init__(self, up: tuple[int, ...], down: tuple[int, ...], **more: object) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(up, device="meta"))
        self.down_proj = nn.Parameter(torch.empty(down, device="meta"))
        for name, value in more.items():
            setattr(self, name, value)


@pytest.mark.parametrize(
    "experts",
    [
        Experts((4, 64, 96), (4, 64, 48)),
        Experts((4, 96), (4, 64)),
        Experts((4, 96, 64), (4, 64, 48), is_concatenated=False),
        Experts((4, 96, 64), (4, 64, 48), bias=nn.Parameter(torch.empty(4, device="meta"))),
    ],
)
def test_experts_that_belong_together_in_another_way_are_left_alone(experts: Experts) -> None:
    model = nn.ModuleDict({"experts": experts})
    assert converters_for(model, []) == []


def test_what_the_library_knows_is_left_to_it() -> None:
    from transformers.conversion_mapping import get_model_conversion_mapping

    model = tiny_model("qwen3_moe")
    assert converters_for(model, get_model_conversion_mapping(model)) == []
    assert len(converters_for(model, [])) == 2
