"""GGUF files of every network that is read besides the first ones: what is opened is what the file was made of."""

from pathlib import Path

import pytest
import torch
import transformers

from engine.gguf_header import TYPES
from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.facts import open_facts
from engine.model.formats.packed import PackedWeight
from engine.model.gguf.config import KNOWN
from engine.model.gguf.packed_blocks import Gguf
from engine.model.safetensors_header import TensorInfo
from engine.model.shape import model_sizes
from tests.campaigns.extent import choose
from tests.engine import gguf_ollama
from tests.engine.gguf_cases import MADE, OTHER_NAMES, make
from tests.engine.gguf_families import ARCHITECTURES
from tests.engine.gguf_files import rounded, write_gguf
from tests.engine.gguf_states import DELTAS, WITH_STATES
from tests.engine.model.gguf.test_contents import logits
from tests.engine.model.test_facts import facts_of
from tests.engine.tiny_models import WINDOW, tiny_model
from tests.engine.weights.test_packed_stream import resident, same, streamed_of

PLAIN = Gguf((next(kind for kind in TYPES if kind.name == "F32"),))
FEW = (
    "ministral3", "gemma4 that shares keys", "gemma4 of experts", "deepseek_v2", "deepseek_v3", "glm4", "glm4_moe",
    "llama4", "cohere2", "starcoder2", "ernie4_5_moe", "granitemoeshared", "nemotron", "olmo3", "glm", "olmo", "afmoe",
    "deepseek_v32", "cohere2_moe", "mellum", "lfm2moe", "granite hybrid", "nemotron_h of latents",
    "falcon-h1 with norms", "gpt2", "gptneox", "mistral4", "step3p5", "falcon 7b", "falcon 40b", "phimoe",
    "minicpm3", "bamba", "laguna", "muse_glimmer", "granite_swa of experts", "qwen4_exp", "bailing_hybrid",
    "dbrx", "deepseek_v4", "minimax_m3", "glm5_next", "hy_v4", "minimax", "chameleon", "bloom", "mpt",
)  # fmt: skip
# What configs have that decides how a network computes.
TOLD = (
    "hidden_act", "rms_norm_eps", "layer_types", "no_rope_layers", "use_qk_norm", "norm_topk_prob",
    "routed_scaling_factor", "logit_scale", "logits_scaling", "attention_chunk_size", "kv_sharing_modes",
    "indexer_types", "activation_sparsity_pattern",
)  # fmt: skip


@pytest.mark.parametrize("case", choose(FEW, tuple(MADE)))
def test_a_file_is_the_model_that_it_was_made_of(case: str, tmp_path: Path) -> None:
    model = make(case)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model)))
    config = open_architecture(checkpoint).config
    for key in TOLD:
        if hasattr(model.config, key):
            assert getattr(config, key) == getattr(model.config, key), key
    assert same(resident(checkpoint, torch.float32), logits(rounded(model, "F32")))


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
@pytest.mark.parametrize("case", WITH_STATES)
def test_weights_of_layers_with_a_state_are_those_of_the_model(case: str, kind: str, tmp_path: Path) -> None:
    """Value heads are put back to their keys, whatever blocks they are stored in."""
    model = make(case)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, kind)))
    config = transformers.CONFIG_MAPPING[checkpoint.config["model_type"]].from_dict(dict(checkpoint.config))
    for key in ("layer_types", "rope_parameters", *(key for key in DELTAS if key.startswith("linear_"))):
        assert getattr(config, key) == getattr(model.config, key), key
    assert checkpoint.weights.keys() == model.state_dict().keys()
    for name, expected in model.state_dict().items():
        found = weight_of(checkpoint, name)
        assert found.shape == expected.shape, name
        assert torch.allclose(found, expected, rtol=1e-6, atol=1e-6 if kind == "F32" else 0.01), name


def weight_of(checkpoint: Checkpoint, name: str) -> torch.Tensor:
    """A weight read from the file and decoded."""
    stored = checkpoint.weights[name]
    made = stored if isinstance(stored, PackedWeight) else PackedWeight(name, stored.shape, {"0": stored}, PLAIN)
    out = torch.empty(made.shape)
    made.format.decode({role: read(part) for role, part in made.parts.items()}, out)
    return out


def read(part: TensorInfo) -> torch.Tensor:
    content = bytearray(part.shard.read_bytes()[part.begin : part.end])
    kind = {"F32": torch.float32, "F16": torch.float16, "U8": torch.uint8, "I32": torch.int32}[part.dtype]
    return torch.frombuffer(content, dtype=kind).view(part.shape)


@pytest.mark.parametrize(
    ("case", "kind"),
    choose(
        [(case, "Q8_0") for case in ("deepseek_v3", "apertus", "falcon 40b", "qwen4_exp", "deepseek_v4")],
        [
            (case, "Q8_0")
            for case in (
                "deepseek_v3",
                "llama4",
                "gemma4 of experts",
                "apertus",
                "falcon 40b",
                "qwen4_exp",
                "laguna",
                "deepseek_v4",
                "dots3_note",
            )
        ],
    ),
)
def test_streamed_equals_resident_equals_decoded(case: str, kind: str, tmp_path: Path) -> None:
    model = make(case)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, kind)))
    expected = resident(checkpoint, torch.float32)
    assert same(
        streamed_of(checkpoint, ["ssd"] * model.config.num_hidden_layers),
        expected,
    )


ROPE_FREQS = {"rope_freqs.weight": torch.ones(8)}


@pytest.mark.parametrize(
    ("case", "extra"),
    [("arcee", ROPE_FREQS), ("phi3 of long texts", {}), ("gemma4 that shares keys", {}), ("nemotron_h of experts", {})],
)
def test_facts_do_without_frequencies(case: str, extra: dict[str, torch.Tensor], tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    path = write_gguf(tmp_path / "model/m.gguf", make(case), extra=extra)
    whole, facts = open_checkpoint(str(path)), open_facts(facts_of(path.parent, tmp_path / "facts"))
    assert (facts.bytes, facts.parameters) == (whole.bytes, whole.parameters)
    assert model_sizes(facts).layers == model_sizes(whole).layers


@pytest.mark.parametrize("architecture", OTHER_NAMES)
def test_networks_of_another_name_are_the_ones_that_they_are_like(architecture: str, tmp_path: Path) -> None:
    kind, own = OTHER_NAMES[architecture]
    model = make(kind, **own) if kind in MADE else tiny_model(kind, num_hidden_layers=2, **own)
    path = write_gguf(tmp_path / "m.gguf", model, architecture=architecture)
    checkpoint = open_checkpoint(str(path))
    assert checkpoint.config["model_type"] == model.config.model_type
    assert same(resident(checkpoint, torch.float32), logits(model))


def test_a_deepseek_whose_scores_depend_on_positions_is_a_mistral(tmp_path: Path) -> None:
    model = make("mistral4")
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, architecture="deepseek2")))
    assert checkpoint.config["model_type"] == "mistral4"
    assert same(resident(checkpoint, torch.float32), logits(model))


def test_a_llama_with_a_window_is_a_mistral(tmp_path: Path) -> None:
    """llama.cpp's converter never says one; a file that does is of a network that transformers runs with it."""
    model = tiny_model("mistral_sliding", num_hidden_layers=2)
    entries = {**gguf_ollama.text(model.config), "attention.sliding_window": WINDOW}
    weights = gguf_ollama.converted(model, gguf_ollama.USUAL, gguf_ollama.woven_heads)
    checkpoint = open_checkpoint(str(gguf_ollama.write_ollama(tmp_path / "m.gguf", "llama", entries, weights)))
    assert checkpoint.config["model_type"] == "mistral"
    assert same(resident(checkpoint, torch.float32), logits(model))
    del entries["attention.sliding_window"]
    checkpoint = open_checkpoint(str(gguf_ollama.write_ollama(tmp_path / "l.gguf", "llama", entries, weights)))
    assert checkpoint.config["model_type"] == "llama"
    assert not same(resident(checkpoint, torch.float32), logits(model))


def test_every_architecture_that_is_read_is_tried() -> None:
    assert {*ARCHITECTURES.values(), *OTHER_NAMES, "nemotron_h_moe"} == KNOWN.keys()
