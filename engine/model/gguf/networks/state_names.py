"""What llama.cpp calls the weights of networks with Mamba, short convolutions and other states, see `names`."""

from collections.abc import Mapping

from engine.model.gguf.networks.mixture_names import MIXTURES
from engine.model.gguf.networks.names import (
    BLOCK,
    GATES,
    MIXTURE,
    NGRAM_TABLE,
    OUTSIDE,
    PLAIN,
    QWEN_SHARED,
    SHARED_GATE,
    SHARED_UP,
    UPS,
    Change,
    Family,
    Merged,
    experts,
    stacked,
)


def _outside(embedding: str, norm: str) -> dict[str, str]:
    return {**OUTSIDE, "token_embd.weight": embedding, "output_norm.weight": norm}


def _attention(module: str = "self_attn", output: str = "o_proj") -> dict[str, str]:
    projections = {"attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": output}
    return {name: f"{module}.{own}" for name, own in projections.items()}


def _mamba2(module: str) -> dict[str, str]:
    return {
        "ssm_in": f"{module}.in_proj",
        "ssm_conv1d": f"{module}.conv1d",
        "ssm_norm": f"{module}.norm",
        "ssm_out": f"{module}.out_proj",
        "ssm_a.weight": f"{module}.A_log",
        "ssm_d.weight": f"{module}.D",
        "ssm_dt.bias": f"{module}.dt_bias",
    }


def _mamba1(module: str) -> dict[str, str]:
    names = {name: own for name, own in _mamba2(module).items() if name not in ("ssm_norm", "ssm_dt.bias")}
    return {**names, "ssm_x": f"{module}.x_proj", "ssm_dt": f"{module}.dt_proj"}


_CHANGES: Mapping[str, Change] = {
    "ssm_conv1d": "channels", "shortconv.conv": "channels", "ssm_a": "log", "ssm_d": "flat", "ssm_norm": "flat",
}  # fmt: skip
_PERMUTED: Mapping[str, Change] = {**_CHANGES, "attn_q": "query", "attn_k": "key"}

_QWEN35 = (
    BLOCK
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
        "ssm_dt.weight": "linear_attn.dt_bias",  # in files of Ollama
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
    | experts()
    | {
        "ssm_in": "linear_attn.in_proj_qkvz",
        "ssm_ba": "linear_attn.in_proj_ba",
    }  # `ssm_in`: in its first files
)
_OF_NEXT: Mapping[str, Change] = {
    "ssm_conv1d": "values behind keys", "ssm_a": "decay", "ssm_norm": "", "ffn_gate_inp_shexp": "row",
}  # fmt: skip
_NEXT_MERGED = (
    *stacked(),
    Merged("linear_attn.in_proj_qkvz.weight", ("attn_qkv", "attn_gate"), "by key heads"),
)
_HYPER = {
    f"hc_{part}_{name}": f"{module}.{own}"
    for part, module in (("attn", "attn_hyper_connection"), ("ffn", "mlp_hyper_connection"))
    for name, own in (
        ("norm", "hc_norm"), ("down", "input_mix_weight_down"), ("up", "input_mix_weight_up"),
        ("inject", "block_inject_weight"),
    )
}  # fmt: skip
_QWEN4 = (
    _QWEN35
    | experts()
    | QWEN_SHARED
    | _HYPER
    | {
        "indexer.q_norm": "self_attn.indexer.q_layernorm",
        "indexer.k_norm": "self_attn.indexer.k_layernorm",
        "ple_key": "ple.key_proj",
        "ple_value": "ple.value_proj",
        "ple_conv1d": "ple.conv1d",
        "ple_norm_key": "ple.norm_key",
        "ple_norm_query": "ple.norm_query",
        "ple_norm_conv": "ple.norm_conv",
    }
)
_OF_QWEN4: Mapping[str, Change] = {
    **_OF_STATES, "ffn_gate_inp_shexp": "row", "ple_conv1d": "channels", "output_hc_norm": "norm",
    **dict.fromkeys(("ple_norm_key", "ple_norm_query", "ple_norm_conv"), "norm"),
}  # fmt: skip
_OUTSIDE_QWEN4 = {
    "token_embd.weight": OUTSIDE["token_embd.weight"],
    "output.weight": OUTSIDE["output.weight"],
    "output_hc_norm.weight": "model.hyper_connection_mixer.hc_norm.weight",
    "output_hc_down.weight": "model.hyper_connection_mixer.input_mix_weight_down.weight",
    "output_hc_up.weight": "model.hyper_connection_mixer.input_mix_weight_up.weight",
    "per_layer_token_embd.weight": f"model.layers.{{layer}}.{NGRAM_TABLE}",
}
_INDEXER = Merged("self_attn.indexer.index_qk_proj.weight", ("indexer.q_proj", "indexer.k_proj"), "behind")
_LFM2 = _attention(output="out_proj") | {
    "attn_norm": "operator_norm",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.conv": "conv.conv",
    "shortconv.out_proj": "conv.out_proj",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
}
_LFM2_MOE = _LFM2 | {
    "ffn_gate_inp": "feed_forward.gate",
    "ffn_down_exps.weight": "feed_forward.experts.down_proj",
    "exp_probs_b.bias": "feed_forward.expert_bias",
}
_LFM2_NORM = "model.embedding_norm.weight"
_LFM2_OUTSIDE = {**OUTSIDE, "output_norm.weight": _LFM2_NORM, "token_embd_norm.weight": _LFM2_NORM}
_GRANITE = (
    _attention()
    | _mamba2("mamba")
    | {
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate_inp": "block_sparse_moe.router",
        "ffn_down_exps.weight": "block_sparse_moe.experts.down_proj",
        "ffn_down_shexp": "shared_mlp.output_linear",
        "ffn_down": "shared_mlp.output_linear",
    }
)
_GRANITE_MERGED = (
    Merged("block_sparse_moe.experts.gate_up_proj", (GATES, UPS), "joined"),
    Merged("shared_mlp.input_linear.weight", (SHARED_GATE, SHARED_UP), "joined"),
    Merged("shared_mlp.input_linear.weight", ("ffn_gate", "ffn_up"), "joined"),  # of those without experts
)
_NEMOTRON = (
    _attention("mixer")
    | _mamba2("mixer")
    | {
        "attn_norm": "norm",
        "ffn_up": "mixer.up_proj",
        "ffn_down": "mixer.down_proj",
        "ffn_gate_inp": "mixer.gate",
        "ffn_up_exps.weight": "mixer.experts.up_proj",
        "ffn_down_exps.weight": "mixer.experts.down_proj",
        "exp_probs_b.bias": "mixer.gate.e_score_correction_bias",
        SHARED_UP: "mixer.shared_experts.up_proj",
        "ffn_down_shexp": "mixer.shared_experts.down_proj",
        "ffn_latent_down": "mixer.fc1_latent_proj",
        "ffn_latent_up": "mixer.fc2_latent_proj",
        "ffn_latent_in": "mixer.fc1_latent_proj",  # in files of Ollama, as the next one
        "ffn_latent_out": "mixer.fc2_latent_proj",
    }
)
_NEMOTRON_FAMILY = Family(
    "nemotron_h",
    _NEMOTRON,
    _PERMUTED,
    layers_differ=True,
    outside=_outside("model.embeddings.weight", "model.norm_f.weight"),
    turns=False,
)
_BESIDE_MAMBA = _attention() | {
    "attn_norm": "input_layernorm",
    "ffn_norm": "pre_ff_layernorm",
    "ffn_gate": "feed_forward.gate_proj",
    "ffn_up": "feed_forward.up_proj",
    "ffn_down": "feed_forward.down_proj",
}
_JAMBA = (
    _BESIDE_MAMBA
    | _mamba1("mamba")
    | {
        "ssm_dt_norm": "mamba.dt_layernorm",
        "ssm_b_norm": "mamba.b_layernorm",
        "ssm_c_norm": "mamba.c_layernorm",
        "ffn_gate_inp": "feed_forward.router",
        "ffn_down_exps.weight": "feed_forward.experts.down_proj",
    }
)
_FINAL = _outside("model.embed_tokens.weight", "model.final_layernorm.weight")
_BACKBONE = _outside("backbone.embeddings.weight", "backbone.norm_f.weight")
_KIMI = {
    **MIXTURES["deepseek2"].names,
    "ssm_conv1d_q": "self_attn.q_conv1d",  # as its checkpoints call them: the library puts the three together
    "ssm_conv1d_k": "self_attn.k_conv1d",
    "ssm_conv1d_v": "self_attn.v_conv1d",
    "ssm_a.weight": "self_attn.forget_gate.A_log",
    "ssm_dt.bias": "self_attn.forget_gate.dt_bias",
    "ssm_f_a": "self_attn.forget_gate.f_a_proj",
    "ssm_f_b": "self_attn.forget_gate.f_b_proj",
    "ssm_beta": "self_attn.b_proj",
    "ssm_g_a": "self_attn.g_a_proj",
    "ssm_g_b": "self_attn.g_b_proj",
    "ssm_norm": "self_attn.o_norm",
}
_BAILING = _KIMI | {
    "attn_gate": "self_attn.g_proj",
    "ssm_g_a": "self_attn.g_proj",
    "ssm_f_a": "self_attn.forget_gate.f_proj",
}
_OF_KIMI: Mapping[str, Change] = {
    **dict.fromkeys(("ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"), "channels"), "ssm_a": "log of heads",
}  # fmt: skip


def _alone(model_type: str, names: Mapping[str, str]) -> Family:
    """A network whose layers are a norm and a mixer each, and none of them attends."""
    return Family(
        model_type,
        {**names, "attn_norm": "norm"},
        _CHANGES,
        layers_differ=True,
        outside=_BACKBONE,
        layers="backbone.layers",
        attends=False,
    )


_MINIMAX = MIXTURE | {
    "attn_qkv": "self_attn.qkv_proj",
    "attn_gate": "self_attn.output_gate",
    "attn_norm_2": "self_attn.norm",
}
_STACKED = (Merged("feed_forward.experts.gate_up_proj", (GATES, UPS), "joined"),)

BAMBA = Family("bamba", _BESIDE_MAMBA | _mamba2("mamba"), _PERMUTED, layers_differ=True, outside=_FINAL)
"""Written as a Granite whose attention counts positions."""

STATES: Mapping[str, Family] = {
    "qwen35": Family("qwen3_5_text", _QWEN35, _OF_STATES, norms_plus_one=True),
    "qwen35moe": Family(
        "qwen3_5_moe_text",
        _QWEN35 | experts() | QWEN_SHARED,
        {**_OF_STATES, "ffn_gate_inp_shexp": "row"},
        stacked(),
        norms_plus_one=True,
    ),
    "qwen3next": Family("qwen3_next", _QWEN3_NEXT | QWEN_SHARED, _OF_NEXT, _NEXT_MERGED, norms_plus_one=True),
    "qwen4exp": Family(
        "qwen4_exp_text", _QWEN4, _OF_QWEN4, (*stacked(), _INDEXER), norms_plus_one=True, outside=_OUTSIDE_QWEN4
    ),
    "lfm2": Family("lfm2", _LFM2, _CHANGES, layers_differ=True, outside=_LFM2_OUTSIDE),
    "lfm2moe": Family(
        "lfm2_moe",
        _LFM2_MOE,
        _CHANGES,
        _STACKED,
        layers_differ=True,
        outside=_LFM2_OUTSIDE,
    ),
    "granitehybrid": Family("granitemoehybrid", _GRANITE, _PERMUTED, _GRANITE_MERGED, layers_differ=True, turns=False),
    "nemotron_h": _NEMOTRON_FAMILY,
    "nemotron_h_moe": _NEMOTRON_FAMILY,
    "falcon-h1": Family("falcon_h1", _BESIDE_MAMBA | _mamba2("mamba"), _CHANGES, outside=_FINAL),
    "jamba": Family(
        "jamba",
        _JAMBA,
        _CHANGES,
        _STACKED,
        layers_differ=True,
        outside=_FINAL,
        turns=False,
    ),
    "kimi-linear": Family("kimi_linear", _KIMI, _OF_KIMI, MIXTURES["deepseek2"].merged, layers_differ=True),
    "bailingmoe3": Family(
        "bailing_hybrid",
        _BAILING,
        {**_OF_KIMI, "ssm_a": "log of rates"},
        MIXTURES["deepseek2"].merged,
        layers_differ=True,
    ),
    "minimax-01": Family(
        "minimax", _MINIMAX, PLAIN, stacked(), layers_differ=True, of_states={"attn_output": "self_attn.out_proj"}
    ),
    "mamba": _alone("mamba", _mamba1("mixer")),
    "mamba2": _alone("mamba2", _mamba2("mixer")),
}
"""By `general.architecture`."""
