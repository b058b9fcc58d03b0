"""What llama.cpp calls the weights of each kind of network, what transformers calls them, and how they differ."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Change = Literal["", "query", "key", "norm", "turned", "scalar gate"]
"""What the converter did: nothing; permuted the rows of a query or key; added 1; nothing, but transformers has the
matrix turned; took a dimension of length 1 away."""

IN_BLOCK = re.compile(r"blk\.(?P<index>\d{1,5})\.(?P<name>.+)\.(?P<kind>weight|bias)", re.ASCII)
GATES, UPS = "ffn_gate_exps", "ffn_up_exps"
OUTPUT = "output.weight"
FREQUENCIES = "rope_freqs.weight"
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"
NOT_WEIGHTS = frozenset({FREQUENCIES, LONG_FACTORS, SHORT_FACTORS})
NOT_WEIGHTS_OF_BLOCKS = frozenset({"attn_rot_embd"})

OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    OUTPUT: "lm_head.weight",
}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_EXPERTS = {"ffn_gate_inp": "mlp.gate", "ffn_down_exps": "mlp.experts.down_proj"}
_NORMS_AROUND = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of network: its `model_type` in transformers, and its weights inside a layer by llama.cpp's names."""

    model_type: str
    names: Mapping[str, str]
    changes: Mapping[str, Change]
    norms_plus_one: bool = False
    experts_woven: bool = False  # gates and ups alternate, and all matrices of experts are turned


_LLAMA: Mapping[str, Change] = {"attn_q": "query", "attn_k": "key"}
_GEMMA = _BLOCK | _NORMS_AROUND
_PLAIN: Mapping[str, Change] = {}
FAMILIES: Mapping[str, Family] = {
    "llama": Family("llama", _BLOCK | _EXPERTS, _LLAMA),
    "qwen2": Family("qwen2", _BLOCK, _PLAIN),
    "qwen3": Family("qwen3", _BLOCK, _PLAIN),
    "qwen2moe": Family(
        "qwen2_moe",
        _BLOCK
        | _EXPERTS
        | {
            "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
            "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
            "ffn_up_shexp": "mlp.shared_expert.up_proj",
            "ffn_down_shexp": "mlp.shared_expert.down_proj",
        },
        {"ffn_gate_inp_shexp": "scalar gate"},
    ),
    "qwen3moe": Family("qwen3_moe", _BLOCK | _EXPERTS, _PLAIN),
    "gemma2": Family("gemma2", _GEMMA, _PLAIN, norms_plus_one=True),
    "gemma3": Family("gemma3_text", _GEMMA, _PLAIN, norms_plus_one=True),
    "gpt-oss": Family(
        "gpt_oss",
        _BLOCK
        | {
            "post_attention_norm": "post_attention_layernorm",
            "attn_sinks": "self_attn.sinks",
            "ffn_gate_inp": "mlp.router",
            "ffn_down_exps": "mlp.experts.down_proj",
        },
        {"ffn_down_exps": "turned"},
        experts_woven=True,
    ),
    "phi3": Family("phi3", _BLOCK | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}, _PLAIN),
    "olmo2": Family(
        "olmo2",
        _BLOCK | {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"},
        _PLAIN,
    ),
}
"""By `general.architecture`."""


def in_transformers(family: Family, name: str, kind: str) -> str:
    """What transformers calls a weight or bias inside a layer; empty for an unknown one."""
    own = family.names.get(name, "")
    if own.endswith("sinks"):
        return own  # parameters of the module itself have no name behind their own
    if ".experts." in own:
        return own if kind == "weight" else f"{own}_bias"
    return f"{own}.{kind}" if own else ""
