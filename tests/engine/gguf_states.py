"""Tiny networks with Mamba, short convolutions and other states, and what llama.cpp's converter makes of them."""

from collections.abc import Callable
from typing import Any

import gguf
import torch
from torch import Tensor

MAMBA2 = {"granitehybrid", "nemotron_h", "nemotron_h_moe", "falcon-h1", "mamba2"}
MIXING = MAMBA2 | {"jamba", "mamba", "kimi-linear", "bailingmoe3", "glm5-next", "lfm2", "lfm2moe"}
BY_LAYER = MIXING - {"falcon-h1", "mamba", "mamba2"}  # some have attention, the others a state
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {
    "kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 32,
    "num_key_value_heads": 4, "head_dim": 8,
}  # fmt: skip
SCALES = {
    "attention_multiplier": 0.125, "embedding_multiplier": 3.0, "residual_multiplier": 0.5, "logits_scaling": 2.0
}  # fmt: skip
CONVOLUTIONS = {
    "tie_word_embeddings": True,
    "layer_types": ["conv", "full_attention"],
    "block_auto_adjust_ff_dim": False,
}
ALTERNATING = ["linear_attention", "full_attention"]
MAMBA = {"mamba_n_heads": 8, "mamba_d_state": 16}
GRANITE = {**SCALES, **MAMBA, "layer_types": ALTERNATING, "shared_intermediate_size": 96}
NEMOTRON = {
    "layers_block_type": ["linear_attention", "moe", "full_attention"], "mamba_num_heads": 8, "mamba_head_dim": 16,
    "head_dim": 32, "ssm_state_size": 16, "n_groups": 2, "n_routed_experts": 4, "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 64, "n_group": 1, "topk_group": 1, "time_step_min": 1e-30,
}  # fmt: skip
FALCON = {  # multipliers are powers of 2: those that the converter multiplies with change no bit
    **MAMBA, "mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_n_groups": 2, "mamba_norm_before_gate": False,
    "embedding_multiplier": 4.0, "lm_head_multiplier": 0.5, "mlp_multipliers": [0.5, 2.0], "key_multiplier": 0.5,
    "attention_in_multiplier": 2.0, "attention_out_multiplier": 0.25, "ssm_in_multiplier": 2.0,
    "ssm_out_multiplier": 0.5, "ssm_multipliers": [0.5, 2.0, 0.25, 4.0, 0.5],
}  # fmt: skip
ALONE: dict[str, Any] = {"num_attention_heads": 0, "head_dim": None, "hidden_size": 256, "intermediate_size": 512}
WITH_MIXERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lfm2": ("lfm2", CONVOLUTIONS),
    "lfm2moe": ("lfm2_moe", {**CONVOLUTIONS, **EXPERTS, "num_dense_layers": 1}),
    "granite hybrid": ("granitemoehybrid", {**GRANITE, "num_local_experts": 0}),
    "granite hybrid of experts": ("granitemoehybrid", {**GRANITE, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "bamba": ("bamba", {**MAMBA, "attn_layer_indices": [1]}),
    "nemotron_h": (
        "nemotron_h",
        {**NEMOTRON, "layers_block_type": ["linear_attention", "mlp", "full_attention"], "n_routed_experts": 0},
    ),
    "nemotron_h of experts": ("nemotron_h", {**NEMOTRON, "routed_scaling_factor": 2.5}),
    "nemotron_h of latents": ("nemotron_h", {**NEMOTRON, "moe_latent_size": 32}),
    "falcon-h1": ("falcon_h1", FALCON),
    "falcon-h1 with norms": ("falcon_h1", {**FALCON, "mamba_rms_norm": True}),
    "jamba": (
        "jamba",
        {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, "num_experts": 4, "num_hidden_layers": 4},
    ),
    "jamba without experts": (
        "jamba",
        {
            "attn_layer_period": 3,
            "attn_layer_offset": 1,
            "mamba_d_state": 8,
            "num_experts": 1,
            "num_experts_per_tok": 1,
        },
    ),
    "mamba": ("mamba", {**ALONE, "tie_word_embeddings": True}),
    "falcon_mamba": ("falcon_mamba", ALONE),
    "mamba2": ("mamba2", {**ALONE, "num_heads": 16, "head_dim": 32, "state_size": 16, "n_groups": 2}),
    "kimi-linear": (
        "kimi_linear",
        {
            **LATENT,
            **EXPERTS,
            "q_lora_rank": None,
            "linear_head_dim": 16,
            "linear_num_heads": 4,
            "layer_types": ALTERNATING,
            "mlp_layer_types": ["dense", "sparse"],
        },
    ),
}
WITH_MIXERS["minimax"] = ("minimax", {
    "layer_types": ALTERNATING, "num_local_experts": 4, "num_experts_per_tok": 2, "block_size": 8, "rotary_dim": 8,
    **dict.fromkeys(("full_attn_alpha_factor", "linear_attn_alpha_factor", "mlp_alpha_factor"), 1.5),
    **dict.fromkeys(("full_attn_beta_factor", "linear_attn_beta_factor", "mlp_beta_factor"), 1.0),
})  # fmt: skip
DELTAS = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"], "head_dim": 32,
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    },
}  # fmt: skip
PLAIN_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}}
WITH_STATES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen35": ("qwen3_5_text", DELTAS),
    "qwen35moe": ("qwen3_5_moe_text", {**DELTAS, **EXPERTS, "shared_expert_intermediate_size": 32}),
    "qwen3next": ("qwen3_next", {**DELTAS, **EXPERTS, **PLAIN_ROPE, "shared_expert_intermediate_size": 32}),
}


DECAYS = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")  # of MiniMax: they follow from its config
QWEN4 = {
    ".attn_hyper_connection.": ".hc_attn_", ".mlp_hyper_connection.": ".hc_ffn_",
    "hyper_connection_mixer.": "output_hc_", "hc_norm.": "norm.", "input_mix_weight_": "",
    "block_inject_weight.": "inject.", ".ple.key_proj.": ".ple_key.", ".ple.value_proj.": ".ple_value.",
    ".ple.": ".ple_", ".self_attn.indexer.q_layernorm.": ".indexer.q_norm.",
    ".self_attn.indexer.k_layernorm.": ".indexer.k_norm.",
}  # fmt: skip
"""What the parameters are called that no earlier Qwen has, part by part."""


def of_qwen4(own: str, tensor: Tensor, config: Any) -> list[tuple[str, Tensor]]:
    """Of hyper-connections, indexers and n-grams; empty for what is that of an earlier Qwen."""
    if own.endswith("ngram_embedding.weight"):
        return [("per_layer_token_embd.weight", tensor)]
    if own.endswith("index_qk_proj.weight"):
        rows = config.indexer_n_heads * config.indexer_head_dim
        block = own.split(".")[2]
        parts = zip("qk", (tensor[:rows], tensor[rows:]), strict=True)
        return [(f"blk.{block}.indexer.{part}_proj.weight", made.contiguous()) for part, made in parts]
    if not any(part in own for part in ("hyper_connection", ".ple.", ".indexer.")):
        return []
    name = own.removeprefix("model.").replace("layers.", "blk.", 1)
    for part, called in QWEN4.items():
        name = name.replace(part, called, 1)
    is_norm = own.endswith("norm.weight") or ".ple.norm_" in own
    made = tensor.float() + 1 if is_norm else tensor.squeeze(1) if "conv1d" in own else tensor
    return [(name, made)]


def of_bailing(own: str, tensor: Tensor, config: Any) -> list[tuple[str, Tensor]]:
    """Of Ling 3 what is not as in Kimi Linear; empty for the rest."""
    block, _, name = own.removeprefix("model.layers.").partition(".self_attn.")
    if name == "forget_gate.A_log":
        return [(f"blk.{block}.ssm_a", tensor.exp().view(-1, 1))]
    if name == "forget_gate.f_proj.weight":
        return [(f"blk.{block}.ssm_f_a.weight", tensor)]
    if name == "g_proj.weight":
        called = "ssm_g_a" if config.layer_types[int(block)] == "linear_attention" else "attn_gate"
        return [(f"blk.{block}.{called}.weight", tensor)]
    return []


def of_state(own: str, tensor: Tensor, config: Any, architecture: str) -> tuple[str, Tensor]:
    """Of networks with Mamba or short convolutions: other names and shapes, decays as used, and multipliers."""
    own = own.replace(".forget_gate.", ".")
    parts = ("mamba", "mixer", "conv", "self_attn")
    name = next((behind for part in parts if (behind := own.partition(f".{part}.")[2])), "")
    if name == "A_log":
        tensor = -tensor.exp()
    if architecture in MAMBA2 and name in ("A_log", "D"):
        tensor = tensor.view(-1, 1)
    elif name in ("conv1d.weight", "conv.weight"):
        tensor = tensor.squeeze(1)
    elif name == "norm.weight":
        tensor = tensor.view(getattr(config, "mamba_n_groups", 0) or config.n_groups, -1)
    elif name == "dt_bias":
        own = own.replace("dt_bias", "dt.bias" if architecture == "nemotron_h_moe" else "dt_proj.bias")
    if architecture == "falcon-h1":
        tensor = _multiplied(own, tensor, config)
    return (own.replace("model.", "backbone.", 1) if architecture.startswith("nemotron_h") else own), tensor


def _multiplied(own: str, tensor: Tensor, config: Any) -> Tensor:
    factors = {
        "feed_forward.gate_proj": config.mlp_multipliers[0],
        "feed_forward.down_proj": config.mlp_multipliers[1],
        "self_attn.q_proj": config.attention_in_multiplier,
        "self_attn.k_proj": config.attention_in_multiplier * config.key_multiplier,
        "self_attn.v_proj": config.attention_in_multiplier,
        "self_attn.o_proj": config.attention_out_multiplier,
        "mamba.out_proj": config.ssm_out_multiplier,
        "mamba.in_proj": config.ssm_in_multiplier,
        "lm_head": config.lm_head_multiplier,
        "embed_tokens": config.embedding_multiplier,
    }
    tensor = tensor * next((factor for name, factor in factors.items() if name in own), 1.0)
    if "mamba.in_proj" in own:
        inner, state = config.mamba_d_ssm, config.mamba_n_groups * config.mamba_d_state
        parts = torch.split(tensor, [inner, inner, state, state, config.mamba_n_heads])
        tensor = torch.cat([part * factor for part, factor in zip(parts, config.ssm_multipliers, strict=True)])
    return tensor


def granite(writer: Any, config: Any) -> None:
    """What all of Granite multiply with."""
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)
    if shared := getattr(config, "shared_intermediate_size", 0):
        writer.add_expert_shared_feed_forward_length(shared)


def _lfm2(writer: Any, config: Any) -> None:
    writer.add_shortconv_l_cache(config.conv_L_cache)


def _lfm2_moe(writer: Any, config: Any) -> None:
    _lfm2(writer, config)
    writer.add_leading_dense_block_count(config.num_dense_layers)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _mamba2(writer: Any, config: Any) -> None:
    def entry(*names: str) -> int:
        return next(int(getattr(config, name)) for name in names if hasattr(config, name))

    heads = entry("mamba_n_heads", "mamba_num_heads", "num_heads")
    writer.add_ssm_conv_kernel(entry("mamba_d_conv", "conv_kernel"))
    writer.add_ssm_state_size(entry("mamba_d_state", "ssm_state_size", "state_size"))
    writer.add_ssm_group_count(entry("mamba_n_groups", "n_groups"))
    writer.add_ssm_inner_size(heads * entry("mamba_d_head", "mamba_head_dim", "head_dim"))
    writer.add_ssm_time_step_rank(heads)


def _mamba(writer: Any, config: Any) -> None:
    own = "mamba_d_state", "mamba_d_conv", "mamba_dt_rank", "mamba_expand"
    names = own if config.model_type == "jamba" else ("state_size", "conv_kernel", "time_step_rank", "expand")
    state, reach, rank, expand = (getattr(config, name) for name in names)
    writer.add_ssm_state_size(state)
    writer.add_ssm_conv_kernel(reach)
    writer.add_ssm_time_step_rank(rank)
    writer.add_ssm_inner_size(expand * config.hidden_size)
    if config.model_type != "jamba":
        writer.add_ssm_dt_b_c_rms(config.model_type == "falcon_mamba")


def _kimi(writer: Any, config: Any) -> None:
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_kda_head_dim(config.linear_head_dim)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_leading_dense_block_count(config.mlp_layer_types.count("dense"))
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _bailing(writer: Any, config: Any) -> None:
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_kda_head_dim(config.linear_head_dim)
    writer.add_bool("bailingmoe3.kda.safe_gate", config.kda_safe_gate)
    writer.add_float32("bailingmoe3.kda.gate_lower_bound", config.kda_lower_bound)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    writer.add_expert_group_count(config.num_expert_group)
    writer.add_expert_group_used_count(config.topk_group)
    writer.add_expert_shared_count(config.num_shared_experts)
    writer.add_expert_weights_norm(config.moe_renormalize)
    writer.add_leading_dense_block_count(config.mlp_layer_types.count("dense"))
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _granite_hybrid(writer: Any, config: Any) -> None:
    is_bamba = config.model_type == "bamba"
    if not is_bamba:
        granite(writer, config)
    _mamba2(writer, config)
    writer.add_rope_scaling_finetuned(is_bamba)


def _nemotron_h(writer: Any, config: Any) -> None:
    _mamba2(writer, config)
    writer.add_rope_scaling_finetuned(False)
    if "moe" not in config.layer_types:
        return
    writer.add_expert_shared_feed_forward_length(config.moe_shared_expert_intermediate_size)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_group_count(config.n_group)
    if config.moe_latent_size:
        writer.add_moe_latent_size(config.moe_latent_size)


def of_minimax(own: str, tensor: Tensor, _config: Any) -> list[tuple[str, Tensor]]:
    """Of MiniMax Text 01 what is in layers with a state alone; empty for the rest, and nothing for its decays."""
    names = {
        "norm": "attn_norm_2", "qkv_proj": "attn_qkv", "out_proj": "attn_output", "output_gate": "attn_gate",
    }  # fmt: skip
    block, _, name = own.removeprefix("model.layers.").partition(".self_attn.")
    called = names.get(name.removesuffix(".weight"))
    return [(f"blk.{block}.{called}.weight", tensor)] if called else []


def _minimax(writer: Any, config: Any) -> None:
    writer.add_residual_scale(config.mlp_alpha_factor)
    writer.add_array(
        f"{writer.arch}.attention.recurrent_layers", [kind != "full_attention" for kind in config.layer_types]
    )


STATES: dict[str, Callable[[Any, Any], None]] = {
    "minimax-01": _minimax,
    "lfm2": _lfm2,
    "lfm2moe": _lfm2_moe,
    "granitehybrid": _granite_hybrid,
    "nemotron_h": _nemotron_h,
    "nemotron_h_moe": _nemotron_h,
    "falcon-h1": _mamba2,
    "jamba": _mamba,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "kimi-linear": _kimi,
    "bailingmoe3": _bailing,
}
"""What each says of itself besides what all say, by `general.architecture`."""
