"""GGUF files of every family that is read: the same network as transformers', resident and streamed, bit for bit."""

import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from engine.errors import ModelError
from engine.model.architecture import open_architecture
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.network import wrap
from engine.model.streamable_network import build_streamable
from engine.weights.planning.arrangement import Tier
from tests.campaigns.extent import choose
from tests.engine.gguf_files import rounded, write_gguf
from tests.engine.model.gguf.raw_files import ARRAY, F32, F64, STRING, U32, RawFile, entry, tensor, text
from tests.engine.tiny_models import MIXED, tiny_model
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_layer_stream import passes
from tests.engine.weights.test_packed_stream import resident, same, stored_layers, streamed, streamed_of

CPU = torch.device("cpu")
WIDE = {"hidden_size": 256, "intermediate_size": 256}  # rows of whole blocks of 256
TIED = {"tie_word_embeddings": True}
MADE: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama_biased": {"attention_bias": True, "mlp_bias": True},
    "qwen2": TIED,
    "qwen3": {},
    "gemma2": TIED,
    "gemma3": TIED,
    "phi3": {"original_max_position_embeddings": 512},
    "gpt_oss": {},
    "mixtral": {},
    "qwen3_moe": {"norm_topk_prob": True},
    "olmo2": {},
}
FEW: list[tuple[str, str, dict[str, Any]]] = [
    ("llama", "Q4_K", WIDE),
    ("llama_biased", "F16", {}),
    ("gemma3", "Q5_1", {}),
    ("qwen3_moe", "Q4_0", {}),
    ("gpt_oss", "MXFP4", {}),
]
OTHERS: list[tuple[str, str, dict[str, Any]]] = [
    ("llama", "BF16", {}),
    ("qwen3", "Q6_K", WIDE),
    ("mixtral", "Q8_0", {}),
    ("qwen3_moe", "F32", {}),
]
STREAMED = choose(FEW, [*FEW, *OTHERS])


def make(family: str, **overrides: Any) -> Any:
    """A model of two layers."""
    layers: dict[str, Any] = {"num_hidden_layers": 2}
    if family in ("gemma3", "gpt_oss"):
        layers["layer_types"] = MIXED[:2]
    return tiny_model(family.partition("_biased")[0], **{**MADE[family], **layers, **overrides})


def logits(model: Any) -> list[torch.Tensor]:
    """Of transformers' own model."""
    return passes(Context(wrap(model, model.config._attn_implementation, "tiny"), 96))


@pytest.mark.parametrize("family", MADE)
def test_a_file_is_the_model_that_it_was_made_of(family: str, tmp_path: Path) -> None:
    model = make(family)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model)))
    config = open_architecture(checkpoint).config
    for key in ("model_type", "vocab_size", "rms_norm_eps", "rope_parameters", "layer_types", "hidden_act"):
        if hasattr(model.config, key):
            assert getattr(config, key) == getattr(model.config, key), key
    assert same(resident(checkpoint, torch.float32), logits(rounded(model, "F32")))


def test_shared_experts_are_read(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.Qwen2MoeConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, num_experts=4,
        num_experts_per_tok=2, intermediate_size=48, moe_intermediate_size=16, shared_expert_intermediate_size=24,
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    model.requires_grad_(False)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model)))
    assert same(resident(checkpoint, torch.float32), logits(model))


@pytest.mark.parametrize(("family", "kind", "overrides"), STREAMED)
def test_streamed_equals_resident_equals_decoded(
    family: str, kind: str, overrides: dict[str, Any], tmp_path: Path
) -> None:
    model = make(family, **overrides)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, kind)))
    expected = logits(rounded(model, kind))
    assert same(resident(checkpoint, torch.float32), expected)
    streamable = build_streamable(checkpoint, torch.float32, CPU)
    found, stream = streamed(streamable, ["ssd"] * 2)
    assert same(found, expected)
    stored = stored_layers(streamable)
    held = sum(tensor.nbytes for layout in stored.layouts for tensor in layout.tensors)
    assert held == sum(weight.nbytes for name, weight in checkpoint.weights.items() if ".layers." in name)
    assert stream.bytes_streamed == (1 + len(found)) * sum(layout.nbytes for layout in stored.layouts)


@pytest.mark.parametrize(("family", "kind"), [("llama", "Q8_0"), ("qwen3_moe", "Q4_0"), ("gpt_oss", "MXFP4")])
def test_in_16_bits_they_are_rounded_once(family: str, kind: str, tmp_path: Path) -> None:
    model = make(family)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, kind)))
    for parameter in rounded(model, kind).parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    expected = logits(model)
    tiers: list[Tier] = ["ram", "ssd"]
    assert same(streamed(build_streamable(checkpoint, torch.bfloat16, CPU), tiers, StandInCopyStream())[0], expected)


@pytest.mark.parametrize(("family", "kind"), [("mixtral", "Q4_0"), ("gpt_oss", "MXFP4")])
def test_experts_are_brought_alone(family: str, kind: str, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", make(family), kind)))
    expected = resident(checkpoint, torch.float32)
    streamable = build_streamable(checkpoint, torch.float32, CPU)
    _, whole = streamed(streamable, ["ssd"] * 2, StandInCopyStream())
    found, stream = streamed(streamable, ["ssd"] * 2, StandInCopyStream(), cache_bytes=1 << 20)
    assert same(found, expected)
    assert stream.bytes_streamed < whole.bytes_streamed


def test_a_set_of_files_is_streamed(tmp_path: Path) -> None:
    model = make("llama")
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, "Q8_0", shards=3)))
    assert len(checkpoint.shards) == 3
    assert same(streamed_of(checkpoint, ["ssd"] * 2), logits(rounded(model, "Q8_0")))


ROPES = {
    "linear": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 128},
    "yarn of its own": {
        "rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 128,
        "attention_factor": 1.5, "beta_fast": 2.0, "beta_slow": 0.25,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", ROPES)
def test_scaled_rotary_embeddings(kind: str, tmp_path: Path) -> None:
    model = make("llama", rope_parameters=ROPES[kind])
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model)))
    assert same(resident(checkpoint, torch.float32), logits(model))


LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192, "rope_theta": 500000.0,
}  # fmt: skip
"""As Llama 3.1 is published."""


def frequencies(model: Any) -> torch.Tensor:
    """What llama.cpp's converter stores for Llama 3.1: what each frequency is divided by."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    plain = 1 / 500000.0 ** (torch.arange(0, 16, 2).float() / 16)
    scaled: torch.Tensor = ROPE_INIT_FUNCTIONS["llama3"](model.config, CPU)[0]
    return plain / scaled


@pytest.mark.parametrize("published", [True, False])
def test_frequencies_in_the_file(published: bool, tmp_path: Path) -> None:
    """Those of Llama 3 are known again; any others are taken as they are."""
    model = make("llama", rope_parameters=LLAMA3)
    factors = frequencies(model) if published else torch.linspace(1, 5, 8)
    path = write_gguf(tmp_path / "m.gguf", model, extra={"rope_freqs.weight": factors})
    config = open_architecture(open_checkpoint(str(path))).config
    if published:
        assert config.rope_parameters == {**LLAMA3, "rope_theta": 500000.0}
        assert same(resident(open_checkpoint(str(path)), torch.float32), logits(model))
    else:
        assert config.rope_parameters["rope_type"] == "longrope"
        assert config.rope_parameters["attention_factor"] == 1.0
        assert config.rope_parameters["long_factor"] == pytest.approx(factors.tolist())


def llama(
    *extra: bytes, without: str = "", tensors: list[bytes] | None = None, data: bytes = bytes(1 << 14)
) -> RawFile:
    """The least that is a Llama, with entries besides, or without one."""
    numbers = {
        "context_length": 64, "embedding_length": 32, "block_count": 1, "attention.head_count": 2,
        "feed_forward_length": 32,
    }  # fmt: skip
    entries = [entry(f"llama.{key}", U32, struct.pack("<I", n)) for key, n in numbers.items() if key != without]
    entries.append(entry("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)))
    entries.append(entry("general.architecture", STRING, text("llama")))
    table = tensors if tensors is not None else [tensor("token_embd.weight", (32, 8), 0)]
    return RawFile(entries=[*entries, *extra], tensors=table, data=data)


TWOS = struct.pack("<f", 2.0) * 4096

REFUSED: dict[str, tuple[RawFile, str]] = {
    "an unknown architecture": (
        RawFile(entries=[entry("general.architecture", STRING, text("rwkv7"))]),
        "architecture 'rwkv7', which is not read",
    ),
    "no architecture": (RawFile(entries=[]), "architecture '', which is not read"),
    "a missing number": (llama(without="embedding_length"), "does not say 'llama.embedding_length'"),
    "text for a number": (
        llama(entry("llama.rope.freq_base", STRING, text("x"))),
        r"does not say 'llama\.rope\.freq_base'",
    ),
    "heads that differ by layer": (
        llama(
            entry("llama.attention.head_count_kv", ARRAY, struct.pack("<IQ2I", U32, 2, 1, 2)),
        ),
        "head_count_kv",
    ),
    "a rope of no known kind": (
        llama(
            entry("llama.rope.scaling.type", STRING, text("su")),
            entry("llama.rope.scaling.factor", F32, struct.pack("<f", 2)),
        ),
        "rope.scaling.type",
    ),
    "a rope stretched by less than nothing": (
        llama(
            entry("llama.rope.scaling.type", STRING, text("yarn")),
            entry("llama.rope.scaling.factor", F32, struct.pack("<f", -2)),
            entry("llama.rope.scaling.attn_factor", F32, struct.pack("<f", 1)),
        ),
        "rope.scaling.factor",
    ),
    "a base without end": (
        llama(
            entry("llama.rope.freq_base", F32, struct.pack("<f", math.inf)),
            tensors=[tensor("token_embd.weight", (32, 8), 0), tensor("rope_freqs.weight", (8,), 1024)],
            data=TWOS,
        ),
        r"llama\.rope\.freq_base",
    ),
    "a base near nothing": (
        llama(
            entry("llama.rope.freq_base", F64, struct.pack("<d", 1e-320)),
            tensors=[tensor("token_embd.weight", (32, 8), 0), tensor("rope_freqs.weight", (8,), 1024)],
            data=TWOS,
        ),
        r"llama\.rope\.freq_base",
    ),
    "frequencies for another width": (
        replace(
            llama(
                entry("llama.rope.dimension_count", U32, struct.pack("<I", 4)),
                tensors=[tensor("token_embd.weight", (32, 8), 0), tensor("rope_freqs.weight", (1,), 1024)],
            ),
            data=struct.pack("<f", 1.0) * 4096,
        ),
        r"rope\.dimension_count",
    ),
    "no embedding": (llama(tensors=[tensor("output_norm.weight", (32,), 0)]), "lacks the weights token_embd.weight"),
    "a weight of no known name": (
        llama(tensors=[tensor("token_embd.weight", (32, 8), 0), tensor("blk.0.ssm_a.weight", (8,), 1024)]),
        r"'blk\.0\.ssm_a\.weight', which are not known",
    ),
    "the same layer by two names": (
        llama(
            tensors=[
                tensor("token_embd.weight", (32, 8), 0),
                tensor("blk.0.attn_norm.weight", (8,), 1024),
                tensor("blk.00.attn_norm.weight", (8,), 1056),
            ]
        ),
        "twice",
    ),
    "heads that do not fit": (
        llama(tensors=[tensor("token_embd.weight", (32, 8), 0), tensor("blk.0.attn_q.weight", (32, 7), 1024)]),
        "impossible shape",
    ),
    "gates without ups": (
        llama(tensors=[tensor("token_embd.weight", (32, 8), 0), tensor("blk.0.ffn_gate_exps.weight", (4, 4, 2), 1024)]),
        "lacks the weights",
    ),
    "frequencies below zero": (
        llama(tensors=[tensor("token_embd.weight", (32, 8), 0), tensor("rope_freqs.weight", (8,), 1024)]),
        "frequencies in 'rope_freqs.weight' that cannot be used",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_cannot_be_meant_is_refused_in_a_sentence(fault: str, tmp_path: Path) -> None:
    raw, words = REFUSED[fault]
    with pytest.raises(ModelError, match=words):
        open_checkpoint(str(raw.write(tmp_path / "m.gguf")))


def test_a_wave_may_be_as_long_as_both_bounds_of_llama_4(tmp_path: Path) -> None:
    path = llama(
        entry("llama.rope.freq_base", F64, struct.pack("<d", 1699887.3833431676)),  # gives one of 8192 tokens
        entry("llama.rope.dimension_count", U32, struct.pack("<I", 4)),
        tensors=[tensor("token_embd.weight", (32, 8), 0), tensor("rope_freqs.weight", (2,), 1024)],
        data=struct.pack("<256f2f", *[0.0] * 256, 2.0, 3.0) + bytes(1 << 12),
    ).write(tmp_path / "m.gguf")
    rope: Any = open_checkpoint(str(path)).config["rope_parameters"]
    assert (rope["rope_type"], rope["long_factor"]) == ("longrope", [2.0, 3.0])


def test_layers_that_are_missing_are_refused(tmp_path: Path) -> None:
    """Only the network tells how many weights a layer has."""
    path = llama().write(tmp_path / "m.gguf")
    with pytest.raises(ModelError, match="lacks the weights"):
        build_streamable(open_checkpoint(str(path)), torch.float32, CPU)


@pytest.mark.parametrize("tensor", ["blk.1.attn_q_norm.weight", "blk.0.attn_output.bias", "output_norm.bias"])
def test_weights_that_the_network_does_not_have_are_refused(tensor: str, tmp_path: Path) -> None:
    """They would change what it computes, and be passed over."""
    path = write_gguf(tmp_path / "m.gguf", make("llama"), extra={tensor: torch.ones(64)})
    with pytest.raises(ModelError, match="which are not known"):
        build_streamable(open_checkpoint(str(path)), torch.float32, CPU)
