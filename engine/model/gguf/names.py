"""What llama.cpp calls the weights of each kind of network, what transformers calls them, and how they differ.

The names are those of `gguf.constants.MODEL_TENSORS`; what llama.cpp's converter does to weights is undone elsewhere
(`contents`, `packed_blocks`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Change = Literal[
    "", "query", "key", "norm", "turned", "row", "flat", "channels", "log", "log of heads", "by kind",
    "values", "values behind keys", "of values", "decay",
]  # fmt: skip
"""What the converter did: nothing; permuted the rows of a query or key; added 1; nothing, but transformers has the
matrix turned; took the first of two dimensions away, of length 1, or left it; made a matrix of a vector; took the
middle one of a convolution's dimensions away, of length 1; took the negative of exponentials, and may have added
dimensions of length 1; did so, where heads are the third of four dimensions; put the queries of all heads before their
keys and values. In layers with a state, whose key heads have several value heads each, it put the first value heads of
all keys before the second ones: among the rows; among those behind queries and keys; among the columns; among numbers,
of whose exponentials it took the negative."""

Merge = Literal["joined", "halves", "woven", "latent", "by key heads"]
"""How several tensors make one weight: behind each other in the first dimension (of a matrix) or the second (of a
stack); behind each other in the last one, turned; alternating there, turned; as keys and values of latent attention; as
queries, keys and values of a layer with a state, and what gates it, for one key head after the other."""

IN_BLOCK = re.compile(r"blk\.(?P<index>\d{1,5})\.(?P<name>.+?)(\.(?P<kind>weight|bias|scale))?", re.ASCII)
GATES, UPS = "ffn_gate_exps", "ffn_up_exps"
SHARED_GATE, SHARED_UP = "ffn_gate_shexp", "ffn_up_shexp"
KEYS_OF_LATENTS, VALUES_OF_LATENTS = "attn_k_b", "attn_v_b"
OUTPUT = "output.weight"
FREQUENCIES = "rope_freqs.weight"
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"
NOT_WEIGHTS = frozenset({FREQUENCIES, LONG_FACTORS, SHORT_FACTORS})
NOT_WEIGHTS_OF_BLOCKS = frozenset({"attn_rot_embd"})

OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output_norm.bias": "model.norm.bias",
    OUTPUT: "lm_head.weight",
    "per_layer_token_embd.weight": "model.embed_tokens_per_layer.weight",
    "per_layer_model_proj.weight": "model.per_layer_model_projection.weight",
    "per_layer_proj_norm.weight": "model.per_layer_projection_norm.weight",
}
STACKS = {
    "altup_proj.weight": "model.altup_projections.{}.weight",
    "altup_unembd_proj.weight": "model.altup_unembed_projections.{}.weight",
}
"""Matrices that are one tensor, by its name there: they are one weight each."""
ACTIVATIONS = {
    "xielu.alpha_p": "mlp.act_fn.alpha_p", "xielu.alpha_n": "mlp.act_fn.alpha_n", "xielu.beta": "mlp.act_fn.beta",
    "xielu.eps": "mlp.act_fn.eps",
}  # fmt: skip
"""Weights that are no tensors, but stand in metadata, as lists with a number for each layer."""
_NORM = {"attn_norm": "input_layernorm"}
_ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}
_MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_BLOCK = {**_NORM, **_ATTENTION, "ffn_norm": "post_attention_layernorm", **_MLP}
_NORMS_BEHIND = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
_NORMS_AROUND = {**_NORMS_BEHIND, "ffn_norm": "pre_feedforward_layernorm"}
_HEAD_NORMS_HUNYUAN = {"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"}


def _experts(router: str = "mlp.gate", module: str = "mlp.experts") -> dict[str, str]:
    """Router and stacked experts; a stack is a parameter of its module, whose name has nothing behind it."""
    return {
        "ffn_gate_inp": router,
        "ffn_gate_up_exps.weight": f"{module}.gate_up_proj",
        "ffn_down_exps.weight": f"{module}.down_proj",
        "ffn_down_exps.bias": f"{module}.down_proj_bias",
    }


def _shared(module: str = "mlp.shared_experts") -> dict[str, str]:
    return {
        SHARED_GATE: f"{module}.gate_proj",
        SHARED_UP: f"{module}.up_proj",
        "ffn_down_shexp": f"{module}.down_proj",
    }


@dataclass(frozen=True, slots=True)
class Merged:
    """A weight inside a layer that llama.cpp keeps in several tensors."""

    name: str
    parts: tuple[str, ...]
    merge: Merge


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of network: its `model_type` in transformers, and its weights inside a layer.

    `names`: by llama.cpp's names, or by these with their kind (`x.bias`) for whole names of transformers' parameters.
    `layers_differ`: in the number of their heads and the width of what follows; config.json says how in its own way.
    `epsilon` is what config.json calls that of the norms: of root mean squares, or else of all of a layer's numbers.
    `outside`: whole names of weights outside the layers; `layers`: what the names of those inside begin with.
    `attends`: whether any layer has attention; `turns`: whether positions turn its queries and keys.
    """

    model_type: str
    names: Mapping[str, str]
    changes: Mapping[str, Change]
    merged: tuple[Merged, ...] = ()
    norms_plus_one: bool = False
    layers_differ: bool = False
    epsilon: str = "rms_norm_eps"
    outside: Mapping[str, str] = field(default_factory=lambda: OUTSIDE)
    layers: str = "model.layers"
    attends: bool = True
    turns: bool = True


def _stacked(name: str = "mlp.experts.gate_up_proj", merge: Merge = "joined") -> tuple[Merged, ...]:
    return (Merged(name, (GATES, UPS), merge),)


_PERMUTED: Mapping[str, Change] = {"attn_q": "query", "attn_k": "key"}
_PLAIN: Mapping[str, Change] = {}
_MIXTURE = _BLOCK | _experts()
_CORRECTED = {"exp_probs_b.bias": "mlp.gate.e_score_correction_bias"}
_GEMMA = _BLOCK | _NORMS_AROUND
_DEEPSEEK = (
    _MIXTURE
    | _shared()
    | _CORRECTED
    | {
        "attn_q_a": "self_attn.q_a_proj",
        "attn_q_a_norm": "self_attn.q_a_layernorm",
        "attn_q_b": "self_attn.q_b_proj",
        "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
        "attn_kv_a_norm": "self_attn.kv_a_layernorm",
        "attn_kv_b": "self_attn.kv_b_proj",
    }
)
_INDEXED = _DEEPSEEK | {
    "indexer.attn_q_b": "self_attn.indexer.wq_b",
    "indexer.attn_k": "self_attn.indexer.wk",
    "indexer.k_norm": "self_attn.indexer.k_norm",
    "indexer.proj": "self_attn.indexer.weights_proj",
}
_LATENT = Merged("self_attn.kv_b_proj.weight", (KEYS_OF_LATENTS, VALUES_OF_LATENTS), "latent")
_PER_LAYER = {
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
}
_GEMMA3N = (
    _GEMMA
    | _PER_LAYER
    | {
        "altup_correct_coef": "altup.correction_coefs",
        "altup_correct_scale.weight": "altup.correct_output_scale",
        "altup_predict_coef": "altup.prediction_coefs",
        "altup_router": "altup.modality_router",
        "altup_router_norm": "altup.router_norm",
        "laurel_l": "laurel.linear_left",
        "laurel_r": "laurel.linear_right",
        "laurel_post_norm": "laurel.post_laurel_norm",
    }
)
_GEMMA4 = (
    _GEMMA
    | _PER_LAYER
    | _experts("router.proj", "experts")
    | {
        "layer_output_scale.weight": "layer_scalar",
        "ffn_gate_inp.scale": "router.scale",
        "ffn_down_exps.scale": "router.per_expert_scale",
        "post_ffw_norm_1": "post_feedforward_layernorm_1",
        "post_ffw_norm_2": "post_feedforward_layernorm_2",
        "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
    }
)
_LLAMA4 = (
    _BLOCK
    | {"ffn_gate": "feed_forward.gate_proj", "ffn_up": "feed_forward.up_proj", "ffn_down": "feed_forward.down_proj"}
    | _experts("feed_forward.router", "feed_forward.experts")
    | _shared("feed_forward.shared_expert")
)
_GPT_OSS = _BLOCK | _experts("mlp.router") | _NORMS_BEHIND | {"attn_sinks.weight": "self_attn.sinks"}
_GRANITE_MOE = (
    _BLOCK
    | _experts("block_sparse_moe.router", "block_sparse_moe.experts")
    | {"ffn_down_shexp": "shared_mlp.output_linear"}
)
_GRANITE_MERGED = (
    *_stacked("block_sparse_moe.experts.gate_up_proj"),
    Merged("shared_mlp.input_linear.weight", (SHARED_GATE, SHARED_UP), "joined"),
)
_QWEN35 = (
    _BLOCK
    | {"post_attention_norm": "post_attention_layernorm"}
    | {
        "attn_qkv": "linear_attn.in_proj_qkv",
        "attn_gate": "linear_attn.in_proj_z",
        "ssm_alpha": "linear_attn.in_proj_a",
        "ssm_beta": "linear_attn.in_proj_b",
        "ssm_conv1d": "linear_attn.conv1d",
        "ssm_norm": "linear_attn.norm",
        "ssm_out": "linear_attn.out_proj",
        "ssm_a.weight": "linear_attn.A_log",
        "ssm_dt.bias": "linear_attn.dt_bias",
    }
)
_OF_STATES: Mapping[str, Change] = {
    "attn_qkv": "values behind keys",
    "ssm_conv1d": "values behind keys",
    "attn_gate": "values",
    "ssm_alpha": "values",
    "ssm_beta": "values",
    "ssm_dt": "values",
    "ssm_out": "of values",
    "ssm_a": "decay",
    "ssm_norm": "",
}
_QWEN3_NEXT = (
    _QWEN35
    | _experts()
    | {
        "ssm_in": "linear_attn.in_proj_qkvz",
        "ssm_ba": "linear_attn.in_proj_ba",
    }  # `ssm_in`: in its first files
)
_OF_NEXT: Mapping[str, Change] = {
    "ssm_conv1d": "values behind keys", "ssm_a": "decay", "ssm_norm": "", "ffn_gate_inp_shexp": "row",
}  # fmt: skip
_NEXT_MERGED = (
    *_stacked(),
    Merged("linear_attn.in_proj_qkvz.weight", ("attn_qkv", "attn_gate"), "by key heads"),
)
_QWEN_SHARED = _shared("mlp.shared_expert") | {"ffn_gate_inp_shexp": "mlp.shared_expert_gate"}
_OLMO2 = _ATTENTION | _MLP | _NORMS_BEHIND
_GPT2 = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_OUTSIDE_GPT2 = {
    "token_embd.weight": "transformer.wte.weight",
    "position_embd.weight": "transformer.wpe.weight",
    "output_norm.weight": "transformer.ln_f.weight",
    "output_norm.bias": "transformer.ln_f.bias",
    OUTPUT: "lm_head.weight",
}
_OUTSIDE_NEOX = {
    "token_embd.weight": "gpt_neox.embed_in.weight",
    "output_norm.weight": "gpt_neox.final_layer_norm.weight",
    "output_norm.bias": "gpt_neox.final_layer_norm.bias",
    OUTPUT: "lm_head.weight",
}
_NEOX = {
    "attn_norm": "input_layernorm",
    "attn_qkv": "attention.query_key_value",
    "attn_output": "attention.dense",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
_OUTSIDE_PHI2 = OUTSIDE | {
    "output_norm.weight": "model.final_layernorm.weight",
    "output_norm.bias": "model.final_layernorm.bias",
    "output.bias": "lm_head.bias",
}
_AFMOE = (
    _BLOCK
    | _experts("mlp.router.gate")
    | _shared()
    | {
        "attn_gate": "self_attn.gate_proj",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_mlp_layernorm",
        "post_ffw_norm": "post_mlp_layernorm",
        "exp_probs_b.bias": "mlp.expert_bias",
    }
)
FAMILIES: Mapping[str, Family] = {
    "llama": Family("llama", _MIXTURE, _PERMUTED, _stacked()),
    "mistral3": Family("llama", _MIXTURE, _PERMUTED, _stacked()),
    "llama4": Family(
        "llama4_text", _LLAMA4, {"ffn_down_exps": "turned"}, _stacked("feed_forward.experts.gate_up_proj", "halves")
    ),
    "qwen2": Family("qwen2", _BLOCK, _PLAIN),
    "qwen2vl": Family("qwen2", _BLOCK, _PLAIN),  # its text alone: all axes of a position are the same
    "qwen3": Family("qwen3", _BLOCK, _PLAIN),
    "qwen3vl": Family("qwen3", _BLOCK, _PLAIN),
    "qwen2moe": Family(
        "qwen2_moe",
        _MIXTURE | _QWEN_SHARED,
        {"ffn_gate_inp_shexp": "row"},
        _stacked(),
    ),
    "qwen3moe": Family("qwen3_moe", _MIXTURE, _PLAIN, _stacked()),
    "qwen3vlmoe": Family("qwen3_moe", _MIXTURE, _PLAIN, _stacked()),
    "qwen35": Family("qwen3_5_text", _QWEN35, _OF_STATES, norms_plus_one=True),
    "qwen35moe": Family(
        "qwen3_5_moe_text",
        _QWEN35 | _experts() | _QWEN_SHARED,
        {**_OF_STATES, "ffn_gate_inp_shexp": "row"},
        _stacked(),
        norms_plus_one=True,
    ),
    "qwen3next": Family("qwen3_next", _QWEN3_NEXT | _QWEN_SHARED, _OF_NEXT, _NEXT_MERGED, norms_plus_one=True),
    "gemma": Family("gemma", _BLOCK, _PLAIN, norms_plus_one=True),
    "gemma2": Family("gemma2", _GEMMA, _PLAIN, norms_plus_one=True),
    "gemma3": Family("gemma3_text", _GEMMA, _PLAIN, norms_plus_one=True),
    "gemma3n": Family("gemma3n_text", _GEMMA3N, _PLAIN),
    "gemma4": Family("gemma4_text", _GEMMA4, _PLAIN, _stacked("experts.gate_up_proj"), layers_differ=True),
    "gpt-oss": Family("gpt_oss", _GPT_OSS, {"ffn_down_exps": "turned"}, _stacked("mlp.experts.gate_up_proj", "woven")),
    "deepseek2": Family("deepseek_v3", _DEEPSEEK, _PLAIN, (*_stacked(), _LATENT)),
    "glm4": Family(
        "glm4",
        _BLOCK
        | {
            "ffn_up": "mlp.gate_up_proj",
            "post_attention_norm": "post_self_attn_layernorm",
            "post_ffw_norm": "post_mlp_layernorm",
        },
        _PLAIN,
    ),
    "glm4moe": Family("glm4_moe", _MIXTURE | _shared() | _CORRECTED | _NORMS_BEHIND, _PLAIN, _stacked()),
    "dots1": Family("dots1", _MIXTURE | _shared() | _CORRECTED, _PLAIN, _stacked()),
    "minimax-m2": Family(
        "minimax_m2", _MIXTURE | {"exp_probs_b.bias": "mlp.e_score_correction_bias"}, _PLAIN, _stacked()
    ),
    "ernie4_5": Family("ernie4_5", _BLOCK, _PLAIN),
    "ernie4_5-moe": Family(
        "ernie4_5_moe",
        _MIXTURE | _shared() | {"exp_probs_b.bias": "mlp.gate.moe_statics.e_score_correction_bias"},
        {"exp_probs_b": "row"},
        _stacked(),
    ),
    "hunyuan-dense": Family("hunyuan_v1_dense", _BLOCK | _HEAD_NORMS_HUNYUAN, _PLAIN),
    "hunyuan-moe": Family(
        "hunyuan_v1_moe",
        _BLOCK | _HEAD_NORMS_HUNYUAN | _experts("mlp.gate.wg") | _shared("mlp.shared_mlp"),
        _PLAIN,
        _stacked(),
    ),
    "granite": Family("granite", _BLOCK, _PERMUTED),
    "granitemoe": Family("granitemoe", _GRANITE_MOE, _PERMUTED, _GRANITE_MERGED),
    "olmoe": Family("olmoe", _MIXTURE, _PLAIN, _stacked()),
    "olmo2": Family("olmo2", _OLMO2, _PLAIN),
    "exaone4": Family("exaone4", _OLMO2, _PLAIN),
    "seed_oss": Family("seed_oss", _BLOCK | _NORMS_BEHIND, _PLAIN),
    "smollm3": Family("smollm3", _BLOCK, _PERMUTED),
    "arcee": Family("arcee", _BLOCK, _PERMUTED),
    "phi3": Family("phi3", _BLOCK | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}, _PLAIN),
    "command-r": Family("cohere", _BLOCK, _PLAIN, epsilon="layer_norm_eps"),
    "cohere2": Family("cohere2", _BLOCK, _PLAIN, epsilon="layer_norm_eps"),
    "starcoder2": Family(
        "starcoder2", _BLOCK | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}, _PLAIN, epsilon="norm_epsilon"
    ),
    "nemotron": Family("nemotron", _BLOCK, _PLAIN, norms_plus_one=True, epsilon="norm_eps"),
    "stablelm": Family("stablelm", _BLOCK, _PLAIN, epsilon="layer_norm_eps"),
    "internlm2": Family("llama", _BLOCK, _PERMUTED),
    "exaone": Family("llama", _BLOCK, _PLAIN),
    "minicpm": Family("granite", _BLOCK, _PERMUTED),
    "chatglm": Family("glm", _BLOCK | {"ffn_up": "mlp.gate_up_proj"}, _PLAIN),
    "phi2": Family(
        "phi",
        _BLOCK | {"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"},
        _PLAIN,
        epsilon="layer_norm_eps",
        outside=_OUTSIDE_PHI2,
    ),
    "gpt2": Family(
        "gpt2",
        _GPT2,
        dict.fromkeys(("attn_qkv", "attn_output", "ffn_up", "ffn_down"), "turned"),
        epsilon="layer_norm_epsilon",
        layers="transformer.h",
        outside=_OUTSIDE_GPT2,
    ),
    "starcoder": Family(
        "gpt_bigcode", _GPT2, _PLAIN, epsilon="layer_norm_epsilon", layers="transformer.h", outside=_OUTSIDE_GPT2
    ),
    "gptneox": Family(
        "gpt_neox",
        _NEOX,
        {"attn_qkv": "by kind"},
        epsilon="layer_norm_eps",
        layers="gpt_neox.layers",
        outside=_OUTSIDE_NEOX,
    ),
    "apertus": Family(
        "apertus", _BLOCK | {"attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}, _PLAIN
    ),
    "olmo": Family("olmo", _ATTENTION | _MLP, _PERMUTED, epsilon="layer_norm_eps"),
    "exaone-moe": Family("exaone_moe", _MIXTURE | _shared() | _CORRECTED, _PLAIN, _stacked()),
    "afmoe": Family("afmoe", _AFMOE, _PLAIN, _stacked()),
    "cohere2moe": Family("cohere2_moe", _MIXTURE | _shared(), _PLAIN, _stacked(), epsilon="layer_norm_eps"),
    "mistral4": Family("mistral4", _DEEPSEEK, _PLAIN, (*_stacked(), _LATENT)),
    "deepseek32": Family("deepseek_v32", _INDEXED, _PLAIN, (*_stacked(), _LATENT)),
    "glm-dsa": Family("glm_moe_dsa", _INDEXED, _PLAIN, (*_stacked(), _LATENT)),
    "hy_v3": Family(
        "hy_v3",
        _MIXTURE | _shared() | dict.fromkeys(("exp_probs_b.bias", "exp_probs_b.weight"), "mlp.e_score_correction_bias"),
        _PLAIN,
        _stacked(),
    ),
    "mimo2": Family(
        "mimo_v2_flash",
        _MIXTURE | _CORRECTED | {"attn_sinks.weight": "self_attn.sinks"},
        _PLAIN,
        _stacked(),
        layers_differ=True,
    ),
    "mellum": Family("mellum", _MIXTURE, _PLAIN, _stacked()),
}
"""By `general.architecture`."""


def in_transformers(family: Family, name: str, kind: str) -> str:
    """What transformers calls a weight or bias inside a layer; empty for an unknown one."""
    if whole := family.names.get(f"{name}.{kind}"):
        return whole
    own = family.names.get(name, "")
    return f"{own}.{kind}" if own and kind != "scale" else ""
