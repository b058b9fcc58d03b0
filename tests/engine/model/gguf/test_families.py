"""GGUF files of every network that is read besides the first ones: what is opened is what the file was made of."""

import struct
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from engine.errors import ModelError
from engine.gguf_header import TYPES
from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.facts import open_facts
from engine.model.families.verified_families import VERIFIED
from engine.model.formats.packed import PackedWeight
from engine.model.gguf.config import KNOWN
from engine.model.gguf.packed_blocks import Gguf
from engine.model.gguf.settings import Settings
from engine.model.safetensors_header import TensorInfo
from engine.model.shape import model_sizes
from tests.campaigns.extent import choose
from tests.engine.gguf_families import ARCHITECTURES
from tests.engine.gguf_files import rounded, write_gguf
from tests.engine.gguf_states import DELTAS, EXPERTS, LATENT, SCALES, WITH_MIXERS, WITH_STATES
from tests.engine.model.gguf.raw_files import ARRAY, BOOL, F32, STRING, U32, RawFile, entry, tensor, text
from tests.engine.model.gguf.test_contents import logits
from tests.engine.model.test_facts import facts_of
from tests.engine.tiny_models import BASE, MIXED, WINDOW, random_model, tiny_model
from tests.engine.weights.test_packed_stream import resident, same, streamed_of

PLAIN = Gguf((next(kind for kind in TYPES if kind.name == "F32"),))
TWO: dict[str, Any] = {**BASE, "num_hidden_layers": 2, "head_dim": 16}
WINDOWS = {"sliding_window": WINDOW, "layer_types": MIXED[:2]}
ROUTED = {
    "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5,
}  # fmt: skip
INDEXER = {"index_topk": 8, "index_head_dim": 16, "index_n_heads": 32}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}
TIED = {"tie_word_embeddings": True}
BEHIND_DENSE = {
    **EXPERTS, "num_hidden_layers": 4, "num_shared_experts": 1, "sliding_window": WINDOW,
    "layer_types": ["sliding_attention"] * 3 + ["full_attention"], "mlp_layer_types": ["dense"] + ["sparse"] * 3,
}  # fmt: skip
GEMMA4 = {
    **TIED, "num_hidden_layers": 4, "layer_types": MIXED, "sliding_window": WINDOW, "global_head_dim": 32,
    "hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 131, "final_logit_softcapping": 30.0,
    "num_kv_shared_layers": 0,
}  # fmt: skip
MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma": ("gemma", TIED),
    "ministral3": (
        "ministral3",
        {"rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}},
    ),
    "gemma3n": (
        "gemma3n_text",
        {
            **TIED,
            "num_hidden_layers": 4,
            "layer_types": MIXED,
            "sliding_window": WINDOW,
            "intermediate_size": 96,
            "hidden_size_per_layer_input": 32,
            "vocab_size_per_layer_input": 131,
            "num_kv_shared_layers": 2,
            "laurel_rank": 8,
            "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0],
        },
    ),
    "gemma4 that shares keys": ("gemma4_text", {**GEMMA4, "num_kv_shared_layers": 2, "use_double_wide_mlp": True}),
    "gemma4 of experts": (
        "gemma4_text",
        {
            **GEMMA4,
            "hidden_size_per_layer_input": 0,
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
            "enable_moe_block": True,
            "num_experts": 4,
            "top_k_experts": 2,
            "moe_intermediate_size": 32,
        },
    ),
    "deepseek_v2": (
        "deepseek_v2",
        {**LATENT, **ROUTED, "norm_topk_prob": False, "topk_method": "group_limited_greedy"},
    ),
    "deepseek_v2 lite": (
        "deepseek_v2",
        {
            **LATENT,
            **ROUTED,
            "norm_topk_prob": False,
            "q_lora_rank": None,
            "n_group": 1,
            "rope_parameters": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
        },
    ),
    "deepseek_v3": (
        "deepseek_v3",
        {**LATENT, **ROUTED, "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
    ),
    "glm4_moe_lite": ("glm4_moe_lite", {**LATENT, **ROUTED}),
    "youtu": ("youtu", LATENT),
    "glm4": ("glm4", {"attention_bias": True}),
    "glm4_moe": ("glm4_moe", {**ROUTED, "n_group": 1, "use_qk_norm": True, "attention_bias": True}),
    "llama4": (
        "llama4_text",
        {"num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 64, "interleave_moe_layer_step": 2},
    ),
    "phi3 of long texts": (
        "phi3",
        {
            "original_max_position_embeddings": 128,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "short_factor": [1.0] * 8,
                "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
                "original_max_position_embeddings": 128,
            },
        },
    ),
    "seed_oss": ("seed_oss", {}),
    "cohere": ("cohere", {**TIED, "use_qk_norm": True}),
    "cohere2": ("cohere2", {**TIED, "num_hidden_layers": 4, "sliding_window": WINDOW}),
    "starcoder2": ("starcoder2", {}),
    "exaone4": ("exaone4", WINDOWS),
    "exaone4 without windows": ("exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 2}),
    "ernie4_5": ("ernie4_5", TIED),
    "ernie4_5_moe": (
        "ernie4_5_moe",
        {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32, "moe_num_shared_experts": 2},
    ),
    "hunyuan dense": ("hunyuan_v1_dense", {}),
    "hunyuan of experts": ("hunyuan_v1_moe", {"num_experts": 4, "moe_topk": 2}),
    "smollm3": ("smollm3", {**TIED, "num_hidden_layers": 4}),
    "granite": ("granite", SCALES),
    "granitemoe": ("granitemoe", {**SCALES, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "granitemoeshared": (
        "granitemoeshared",
        {**SCALES, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 32},
    ),
    "nemotron": ("nemotron", {}),
    "stablelm": ("stablelm", {"use_qkv_bias": True}),
    "stablelm in parallel": ("stablelm", {"use_parallel_residual": True}),
    "dots1": ("dots1", {**ROUTED, "sliding_window": None}),
    "minimax_m2": ("minimax_m2", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "olmo3": ("olmo3", WINDOWS),
    "olmoe": ("olmoe", {"num_experts": 4, "num_experts_per_tok": 2}),
    "arcee": ("arcee", {"mlp_bias": True}),
}
MADE |= {
    "solar_open": ("solar_open", {**ROUTED, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 0}),
    "internlm3": ("internlm3", {}),
    "glm": ("glm", {"attention_bias": True}),
    "olmo": ("olmo", {"clip_qkv": 1.5}),
    "exaone_moe": ("exaone_moe", {**BEHIND_DENSE, "routed_scaling_factor": 2.5}),
    "afmoe": ("afmoe", {**BEHIND_DENSE, "num_dense_layers": 1, "route_scale": 2.8, "mup_enabled": True}),
    "cohere2_moe": ("cohere2_moe", {
        **BEHIND_DENSE, **TIED, "num_shared_experts": 2, "moe_intermediate_size": 96, "expert_selection_fn": "sigmoid",
        "prefix_dense_intermediate_size": 48,
    }),
    "apertus": ("apertus", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
    "qwen2_moe": ("qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 32}),
    "gptneox": ("gpt_neox", {"num_key_value_heads": 4, "use_parallel_residual": False}),
    "phi2": ("phi", {}),
    "gpt2": ("gpt2", {**TIED, "n_inner": 96, "num_key_value_heads": 4}),
    "starcoder": ("gpt_bigcode", {**TIED, "n_inner": 96}),
    "hy_v3": ("hy_v3", {**EXPERTS, "num_shared_experts": 1, "mlp_layer_types": ["dense", "sparse"]}),
    "mimo_v2_flash": ("mimo_v2_flash", {
        **ROUTED, **WINDOWS, "n_group": 1, "topk_group": 1, "v_head_dim": 32, "routed_scaling_factor": 1.0,
        "mlp_layer_types": ["dense", "sparse"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
        },
    }),
    "deepseek_v32": ("deepseek_v32", {
        **LATENT, **ROUTED, **INDEXER, "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
    }),
    "mistral4": ("mistral4", {
        **LATENT, **ROUTED, "head_dim": 24,
        "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1},
    }),
    "glm_moe_dsa": ("glm_moe_dsa", {
        **LATENT, **ROUTED, **INDEXER, "n_group": 1, "topk_group": 1, "indexer_types": ["full", "shared"],
    }),
    "mellum": ("mellum", {
        **WINDOWS, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "rope_parameters": {
            "full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    }),
}  # fmt: skip
MADE |= WITH_MIXERS
if "qwen3_5_text" in VERIFIED:  # layers with a state can hold trees
    MADE |= WITH_STATES
FEW = (
    "ministral3", "gemma4 that shares keys", "gemma4 of experts", "deepseek_v2", "deepseek_v3", "glm4", "glm4_moe",
    "llama4", "cohere2", "starcoder2", "ernie4_5_moe", "granitemoeshared", "nemotron", "olmo3", "glm", "olmo", "afmoe",
    "deepseek_v32", "cohere2_moe", "mellum", "lfm2moe", "granite hybrid", "nemotron_h of latents",
    "falcon-h1 with norms", "gpt2", "gptneox", "mistral4",
)  # fmt: skip
# What configs have that decides how a network computes.
TOLD = (
    "hidden_act", "rms_norm_eps", "layer_types", "no_rope_layers", "use_qk_norm", "norm_topk_prob",
    "routed_scaling_factor", "logit_scale", "logits_scaling", "attention_chunk_size", "kv_sharing_modes",
    "indexer_types", "activation_sparsity_pattern",
)  # fmt: skip


def make(case: str, **overrides: Any) -> Any:
    """A random model of few layers; none of its norms, biases and scales is what a new one has."""
    kind, own = {**MADE, **WITH_STATES}[case]
    model = random_model(transformers.CONFIG_MAPPING[kind](**{**TWO, **own, **overrides}))
    random = torch.Generator().manual_seed(1)
    for name, weight in model.state_dict().items():
        if weight.ndim == 1 or name.endswith(("bias", "layernorm.weight")):
            weight.add_(torch.randn(weight.shape, generator=random), alpha=0.1)
    return model


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
    kind = {"F32": torch.float32, "F16": torch.float16, "U8": torch.uint8}[part.dtype]
    return torch.frombuffer(content, dtype=kind).view(part.shape)


@pytest.mark.parametrize(
    ("case", "kind"),
    choose(
        [("deepseek_v3", "Q8_0"), ("apertus", "Q8_0")],
        [(case, "Q8_0") for case in ("deepseek_v3", "llama4", "gemma4 of experts", "apertus")],
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


OTHER_NAMES = {
    "qwen2vl": "qwen2", "qwen3vl": "qwen3", "qwen3vlmoe": "qwen3_moe", "mistral3": "llama", "internlm2": "llama",
    "exaone": "llama", "minicpm": "granite",
}  # fmt: skip


@pytest.mark.parametrize("architecture", OTHER_NAMES)
def test_networks_of_another_name_are_the_ones_that_they_are_like(architecture: str, tmp_path: Path) -> None:
    own: dict[str, Any] = {"norm_topk_prob": True} if architecture == "qwen3vlmoe" else {}
    kind = OTHER_NAMES[architecture]
    model = make(kind, attention_multiplier=0.25) if kind in MADE else tiny_model(kind, num_hidden_layers=2, **own)
    path = write_gguf(tmp_path / "m.gguf", model, architecture=architecture)
    checkpoint = open_checkpoint(str(path))
    assert checkpoint.config["model_type"] == model.config.model_type
    assert same(resident(checkpoint, torch.float32), logits(model))


def test_a_deepseek_whose_scores_depend_on_positions_is_a_mistral(tmp_path: Path) -> None:
    model = make("mistral4")
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, architecture="deepseek2")))
    assert checkpoint.config["model_type"] == "mistral4"
    assert same(resident(checkpoint, torch.float32), logits(model))


def test_every_architecture_that_is_read_is_tried() -> None:
    assert {*ARCHITECTURES.values(), *OTHER_NAMES, "nemotron_h_moe"} == KNOWN.keys()


def raw(kind: str, *tensors: bytes, **entries: object) -> RawFile:
    """The least that says it is a network of this kind; `__` in names of entries stands for a dot."""
    least: dict[str, object] = {
        "context_length": 64, "embedding_length": 32, "block_count": 2, "attention__head_count": 2,
        "feed_forward_length": 32, "attention__layer_norm_rms_epsilon": 1e-5, "expert_count": 4, "expert_used_count": 2,
        "expert_feed_forward_length": 32, "expert_shared_count": 1,
    }  # fmt: skip
    made = [entry("general.architecture", STRING, text(kind))]
    for name, value in {**least, **entries}.items():
        key = f"{kind}.{name.replace('__', '.')}"
        if isinstance(value, list):
            made.append(entry(key, ARRAY, struct.pack(f"<IQ{len(value)}I", U32, len(value), *value)))
        elif isinstance(value, bool):
            made.append(entry(key, BOOL, bytes([value])))
        else:
            is_real = isinstance(value, float)
            made.append(entry(key, F32 if is_real else U32, struct.pack("<f" if is_real else "<I", value)))
    table = [tensor("token_embd.weight", (32, 8), 0), *tensors]
    return RawFile(entries=made, tensors=table, data=bytes(1 << 14))


LATENT_ENTRIES: dict[str, object] = {
    "attention__kv_lora_rank": 16, "rope__dimension_count": 8, "attention__key_length": 24,
    "attention__value_length": 16, "expert_gating_func": 2,
}  # fmt: skip
STATE_ENTRIES: dict[str, object] = {
    "attention__head_count_kv": [0, 1], "ssm__time_step_rank": 4, "ssm__inner_size": 64, "ssm__group_count": 1,
    "ssm__state_size": 8, "ssm__conv_kernel": 4, "rope__scaling__finetuned": False,
}  # fmt: skip
INDEXER_ENTRIES: dict[str, object] = {
    "attention__indexer__top_k": 8, "attention__indexer__key_length": 16, "attention__indexer__head_count": 4,
}  # fmt: skip
GEMMA4_ENTRIES: dict[str, object] = {"attention__sliding_window": 8, "attention__key_length_swa": 16}
IMPOSSIBLE: dict[str, tuple[RawFile, str]] = {
    "more layers that predict than layers": (raw("glm4moe", nextn_predict_layers=2), "nextn_predict_layers"),
    "layers without end and windows": (raw("exaone4", block_count=3_000_000), r"exaone4\.block_count"),
    "layers without end of experts": (raw("dots1", block_count=3_000_000), r"dots1\.block_count"),
    "layers without end and states": (raw("qwen35", block_count=3_000_000), r"qwen35\.block_count"),
    "queries permuted for pictures": (raw("glm4", rope__dimension_sections=[8, 12, 12, 0]), "dimension_sections"),
    "experts chosen in no known way": (raw("deepseek2", **{**LATENT_ENTRIES, "expert_gating_func": 4}), "gating_func"),
    "experts chosen as by another network": (raw("glm4moe", expert_gating_func=1), "expert_gating_func"),
    "keys narrower than what turns": (
        raw("deepseek2", **{**LATENT_ENTRIES, "attention__key_length": 8}),
        r"attention\.key_length",
    ),
    "no shared experts": (raw("dots1", expert_shared_count=[1, 2]), "expert_shared_count"),
    "Llama 4 without chunks": (raw("llama4", attention__sliding_window=0), "sliding_window"),
    "positions that do not count": (raw("granite", rope__scaling__finetuned=False), "finetuned"),
    "a temperature without a length": (raw("mistral3", attention__temperature_scale=0.5), "temperature_scale"),
    "a truth that is a number": (raw("glm4moe", expert_weights_norm=1), "expert_weights_norm"),
    "heads that differ by layer": (raw("lfm2", attention__head_count_kv=[2, 1]), "head_count_kv"),
    "fewer heads than layers": (raw("nemotron_h", **{**STATE_ENTRIES, "attention__head_count_kv": [0]}), "count_kv"),
    "no heads of states": (raw("granitehybrid", **{**STATE_ENTRIES, "ssm__time_step_rank": 0}), "time_step_rank"),
    "states of no multiple of the width": (raw("granitehybrid", **{**STATE_ENTRIES, "ssm__inner_size": 40}), "inner"),
    "positions that count beside states": (
        raw("granitehybrid", **{**STATE_ENTRIES, "rope__scaling__finetuned": True}),
        "finetuned",
    ),
    "attention that comes irregularly": (
        raw("jamba", **{**STATE_ENTRIES, "block_count": 6, "attention__head_count_kv": [0, 1, 0, 0, 1, 1]}),
        "head_count_kv",
    ),
    "attention that comes late": (
        raw("jamba", **{**STATE_ENTRIES, "block_count": 4, "attention__head_count_kv": [0, 0, 1, 1]}),
        "head_count_kv",
    ),
    "latent keys narrower than what turns": (
        raw("kimi-linear", **{**LATENT_ENTRIES, **STATE_ENTRIES, "attention__key_length_mla": 8}),
        "key_length_mla",
    ),
    "frequencies that are not there": (raw("gemma4", **GEMMA4_ENTRIES), r"rope\.dimension_count"),
    "keys without values": (
        raw(
            "deepseek2",
            tensor("blk.0.attn_k_b.weight", (16, 16, 2), 1024),
            **LATENT_ENTRIES,
        ),
        r"lacks the weights model\.layers\.0\.attn_k_b, attn_v_b",
    ),
    "keys of other heads than values": (
        raw(
            "deepseek2",
            tensor("blk.0.attn_k_b.weight", (16, 16, 2), 1024),
            tensor("blk.0.attn_v_b.weight", (16, 16, 1), 3072),
            **LATENT_ENTRIES,
        ),
        "impossible shape",
    ),
    "gates and ups of other widths": (
        raw("llama4", tensor("blk.0.ffn_gate_exps.weight", (8, 4, 2), 1024),
            tensor("blk.0.ffn_up_exps.weight", (8, 2, 2), 1280), interleave_moe_layer_step=1),
        "impossible shape",
    ),
    "a bias of latent keys": (
        raw(
            "deepseek2",
            tensor("blk.0.attn_k_b.bias", (16,), 1024),
            tensor("blk.0.attn_v_b.bias", (16,), 1088),
            **LATENT_ENTRIES,
        ),
        "impossible shape",
    ),
    "experts whose shares are not made one": (raw("afmoe", attention__sliding_window=8), "expert_weights_norm"),
    "shares of experts that are not made one": (
        raw("hy_v3", expert_weights_norm=False, expert_shared_feed_forward_length=32),
        "expert_weights_norm",
    ),
    "a softmax for a sigmoid": (raw("exaone-moe", expert_gating_func=1), "expert_gating_func"),
    "heads that are not twice as many": (
        raw("mimo2", attention__sliding_window=8, attention__head_count_kv=[1, 1], attention__key_length=16),
        r"attention\.head_count_kv",
    ),
    "too few kinds of indexers": (
        raw("glm-dsa", **{**LATENT_ENTRIES, **INDEXER_ENTRIES, "attention__indexer__types": [1]}),
        r"attention\.indexer\.types",
    ),
    "a Mistral that is not stretched": (
        raw("mistral4", **{**LATENT_ENTRIES, "expert_gating_func": 1}),
        r"rope\.scaling\.type",
    ),
    "no left side of a laurel": (raw("gemma3n", attention__sliding_window=8), "activation_sparsity_scale"),
    "no numbers of an activation": (raw("apertus"), r"lacks the weights xielu\.alpha_p"),
    "queries, keys and values that do not fit": (
        raw("chatglm", tensor("blk.0.attn_qkv.weight", (32, 47), 1024)),
        "impossible shape",
    ),
    "a scale of a matrix": (raw("glm4", tensor("blk.0.attn_q.scale", (1,), 1024)), "which are not known"),
}  # fmt: skip


@pytest.mark.parametrize("fault", IMPOSSIBLE)
def test_what_cannot_be_meant_is_refused_in_a_sentence(fault: str, tmp_path: Path) -> None:
    made, words = IMPOSSIBLE[fault]
    with pytest.raises(ModelError, match=words):
        open_checkpoint(str(made.write(tmp_path / "m.gguf")))


UNEVEN: dict[str, tuple[str, tuple[int, ...]]] = {
    "heads that differ by layer": ("attention.head_count_kv", (2, 1, 2, 2)),
    "widths that differ by layer": ("feed_forward_length", (96, 192, 96, 96)),
    "too few widths": ("feed_forward_length", (96, 96)),
}


@pytest.mark.parametrize("fault", UNEVEN)
def test_layers_of_gemma_4_differ_only_as_they_can(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, value = UNEVEN[fault]
    usual = Settings.several
    monkeypatch.setattr(Settings, "several", lambda self, asked: value if asked == key else usual(self, asked))
    path = write_gguf(tmp_path / "m.gguf", make("gemma4 that shares keys"))
    with pytest.raises(ModelError, match=key):
        open_checkpoint(str(path))


@pytest.mark.parametrize("kind", ["rwkv7", "plamo2", "bailingmoe2"])
def test_others_are_refused_in_a_sentence(kind: str, tmp_path: Path) -> None:
    path = RawFile(entries=[entry("general.architecture", STRING, text(kind))]).write(tmp_path / "m.gguf")
    with pytest.raises(ModelError, match=f"architecture '{kind}', which is not read from GGUF files"):
        open_checkpoint(str(path))
