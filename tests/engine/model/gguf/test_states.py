"""GGUF files of networks with states, packed, streamed and planned for; `test_families` reads them in 32 bits."""

import itertools
from pathlib import Path

import pytest
import torch
import transformers

from engine.model.checkpoint import open_checkpoint
from engine.model.shape import model_sizes
from engine.model.streamable_network import build_streamable
from engine.weights.planning.arrangement import Tier
from tests.campaigns.extent import choose
from tests.engine.gguf_cases import TWO, make
from tests.engine.gguf_files import rounded, write_gguf
from tests.engine.gguf_states import GRANITE, WITH_MIXERS
from tests.engine.model.gguf.test_contents import logits
from tests.engine.tiny_models import random_model
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_packed_stream import CPU, resident, same, streamed, streamed_of


@pytest.mark.parametrize(
    ("case", "kind"),
    choose(
        [("lfm2moe", "Q8_0"), ("granite hybrid of experts", "Q4_K"), ("nemotron_h of experts", "Q4_K")],
        [*itertools.product(WITH_MIXERS, ("Q8_0", "Q4_K"))],
    ),
)
def test_packed_layers_of_state_streamed_equal_resident_equal_decoded(case: str, kind: str, tmp_path: Path) -> None:
    model = make(case, hidden_size=256)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, kind)))
    expected = resident(checkpoint, torch.float32)
    if case != "kimi-linear":  # whose latent keys are turned before they are packed
        assert same(expected, logits(rounded(model, kind)))
    tiers: list[Tier] = ["ssd"] * model.config.num_hidden_layers
    assert same(streamed_of(checkpoint, tiers), expected)
    streamable = build_streamable(checkpoint, torch.float32, CPU)
    assert same(streamed(streamable, tiers, StandInCopyStream(), cache_bytes=1 << 20)[0], expected), "experts alone"


@pytest.mark.parametrize("case", choose(("lfm2", "nemotron_h of experts"), tuple(WITH_MIXERS)))
def test_layers_of_state_are_planned_for_as_those_of_safetensors(case: str, tmp_path: Path) -> None:
    model = make(case)
    model.save_pretrained(tmp_path)
    saved = model_sizes(open_checkpoint(str(tmp_path)))
    sizes = model_sizes(open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model))))
    for key in ("vocabulary", "hidden", "heads", "query_width", "eager", "carried"):
        assert getattr(sizes, key) == getattr(saved, key), key
    for found, expected in zip(sizes.layers, saved.layers, strict=True):
        for key in ("elements", "active_elements", "kv_width", "state", "experts", "chosen", "kv_scales"):
            assert getattr(found, key) == getattr(expected, key), key


@pytest.mark.parametrize(("experts", "architecture"), [(0, "granite"), (4, "granitemoe")])
def test_granite_4_without_states_is_written_as_an_older_granite(
    experts: int, architecture: str, tmp_path: Path
) -> None:
    attending = {"layer_types": ["full_attention"] * 2, "position_embedding_type": "rope"}
    own = {**TWO, **GRANITE, **attending, "num_local_experts": experts, "num_experts_per_tok": min(2, experts)}
    model = random_model(transformers.GraniteMoeHybridConfig(**own))
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, architecture=architecture)))
    assert str(checkpoint.config["model_type"]).startswith(architecture)
    for found, expected in zip(resident(checkpoint, torch.float32), logits(model), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
