"""A plan counts on experts one by one only where the stream can bring them so."""

from pathlib import Path

import pytest
import torch

from engine.loading.pair import mixture_of
from engine.loading.planning import needs_of
from engine.model.checkpoint import open_checkpoint
from engine.model.families.own_modules import WHOLE, multiplies_all_experts
from engine.model.shape import model_sizes
from engine.model.streamable_network import build_streamable
from engine.weights.streaming.experts.binding import find_experts
from tests.campaigns.extent import choose
from tests.engine.family_models import save_tiny

# A mixture of every kind of module that holds experts, and in the proofs more of them.
OTHERS = choose(
    ("gpt_oss", "qwen3_moe"),
    ("afmoe", "deepseek_v3", "ernie4_5_moe", "glm4_moe", "gpt_oss", "granitemoe", "mixtral", "olmoe", "qwen3_moe"),
)


@pytest.mark.parametrize("family", [*sorted(WHOLE), *OTHERS])
@pytest.mark.parametrize("weights", ["auto", "nf4"])
def test_experts_are_planned_one_by_one_where_they_come_so(tmp_path: Path, family: str, weights: str) -> None:
    save_tiny(family, tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    sizes = model_sizes(checkpoint)
    cpu = torch.device("cpu")
    planned = [layer.expert_bytes > 0 for layer in needs_of(checkpoint, sizes, weights, cpu).layers]
    built = build_streamable(checkpoint, torch.float32, cpu)
    assert planned == [find_experts(layer) is not None for layer in built.network.layers]
    assert any(planned) == (family not in WHOLE)
    assert (mixture_of(checkpoint, checkpoint) is None) == (family in WHOLE)


def test_all_experts_cost_arithmetic_where_all_are_multiplied(tmp_path: Path) -> None:
    for family in ("llama4_text", "dbrx"):
        folder = tmp_path / family
        folder.mkdir()
        save_tiny(family, folder)
        layer = model_sizes(open_checkpoint(str(folder))).layers[-1]
        is_whole = layer.active_elements == layer.elements
        assert is_whole == multiplies_all_experts({"model_type": family})
