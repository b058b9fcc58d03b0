"""Tiny networks whose layers choose or compress what they attend to, and what llama.cpp's converter makes of them."""

from collections.abc import Callable
from typing import Any

import gguf
from torch import Tensor

from tests.engine.family_models import ABSENT
from tests.engine.gguf_states import LATENT

ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
CHOSEN = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 32,
    "routed_scaling_factor": 2.5, "swiglu_limit": 0.4,
}  # fmt: skip
INDEXER = {"index_topk": 8, "index_head_dim": 16, "index_n_heads": 32}
WITH_INDEXERS: dict[str, tuple[str, dict[str, Any]]] = {
    "deepseek_v4": ("deepseek_v4", {
        **CHOSEN, **INDEXER, "num_hidden_layers": 3, "num_key_value_heads": 1, "q_lora_rank": 32, "sliding_window": 7,
        "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
        "mlp_layer_types": ["hash_moe", "moe", "moe"], "index_topk": 2, "o_groups": 2, "o_lora_rank": 32,
        "partial_rotary_factor": 0.5,
        "rope_parameters": {
            "main": {**ROPE, "partial_rotary_factor": 0.5},
            "compress": {
                "rope_type": "yarn", "rope_theta": 160_000.0, "factor": 4.0, "attention_factor": 1.0,
                "original_max_position_embeddings": 128, "partial_rotary_factor": 0.5, "beta_fast": 32.0,
                "beta_slow": 1.0,
            },
        },
    }),
    "minimax_m3": ("minimax_m3_vl_text", {
        "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 32, "dense_intermediate_size": 96,
        "shared_intermediate_size": 64, "routed_scaling_factor": 2.5, "rotary_dim": 8,
        "layer_types": ["full_attention", "minimax_m3_sparse"], "mlp_layer_types": ["dense", "sparse"],
        "index_n_heads": 2, "index_head_dim": 16, "index_block_size": 4, "index_topk_blocks": 2,
        "rope_parameters": {**ROPE, "partial_rotary_factor": 0.5},
    }),
    "glm5_next": ("glm5_next_text", {
        **LATENT, **CHOSEN, **INDEXER, "n_group": 1, "topk_group": 1, "qk_rope_head_dim": 0, "qk_nope_head_dim": 16,
        "linear_head_dim": 16, "linear_num_heads": 4, "index_kpool": 4, "indexer_types": ["full"] * 2,
        "layer_types": ["linear_attention", "indexed_attention"], "mlp_layer_types": ["dense", "sparse"],
    }),
    "dots3_note": ("dots3_note_text", {
        **LATENT, **CHOSEN, **INDEXER, "swiglu_limit": ABSENT, "head_dim": 24, "q_lora_rank": 16, "kv_lora_rank": 16,
        "n_group": 1, "topk_group": 1, "layer_types": ["indexed_attention", "sliding_attention"], "sliding_window": 7,
        "mlp_layer_types": ["dense", "sparse"], "shared_experts_intermediate_size": 32, "swa_num_attention_heads": 2,
        "swa_num_key_value_heads": 2, "swa_q_lora_rank": 16, "swa_kv_lora_rank": 64, "swa_head_dim": 40,
        "swa_qk_nope_head_dim": 32, "swa_v_head_dim": 16,
        "rope_parameters": {
            "indexed_attention": {**ROPE, "rope_theta": 8e6, "partial_rotary_factor": 8 / 24},
            "sliding_attention": {**ROPE, "partial_rotary_factor": 8 / 40},
        },
    }),
    "hy_v4": ("hy_v4", {
        **LATENT, **CHOSEN, **INDEXER, "n_group": 1, "topk_group": 1, "hc_magnitude": 1.5,
        "mlp_layer_types": ["dense", "sparse"], "indexer_types": ["full", "shared"],
    }),
}  # fmt: skip
STREAMS = {f"{part}_hc.{own}": f"hc_{part}_{own}.weight" for part in ("attn", "ffn") for own in ("fn", "base", "scale")}
COMPRESSING = {"kv_proj.weight": "kv", "gate_proj.weight": "gate", "kv_norm.weight": "norm", "position_bias": "ape"}
DEEPSEEK4 = {
    **STREAMS,
    "self_attn.q_a_norm.weight": "attn_q_a_norm.weight",
    "self_attn.kv_proj.weight": "attn_kv.weight",
    "self_attn.kv_norm.weight": "attn_kv_a_norm.weight",
    "self_attn.o_a_proj.weight": "attn_output_a.weight",
    "self_attn.o_b_proj.weight": "attn_output_b.weight",
    "mlp.gate.tid2eid": "ffn_gate_tid2eid.weight",
    **{f"self_attn.compressor.{own}": f"attn_compressor_{name}.weight" for own, name in COMPRESSING.items()},
    **{f"self_attn.compressor.indexer.{own}": f"indexer_compressor_{name}.weight" for own, name in COMPRESSING.items()},
    "self_attn.compressor.indexer.q_b_proj.weight": "indexer.attn_q_b.weight",
    "self_attn.compressor.indexer.scorer.weights_proj.weight": "indexer.proj.weight",
}
GLM5 = {
    **STREAMS,
    "self_attn.indexer.wq_b.weight": "indexer.attn_q_b.weight",
    "self_attn.indexer.wk.weight": "indexer.attn_k.weight",
    "self_attn.indexer.k_norm.weight": "indexer.k_norm.weight",
    "self_attn.indexer.k_norm.bias": "indexer.k_norm.bias",
    "self_attn.indexer.weights_proj.weight": "indexer.proj.weight",
    "self_attn.indexer.index_kpool_compress_ape": "indexer_compressor_ape.weight",
    "self_attn.indexer.index_kpool_compress_gate": "indexer_compressor_gate.weight",
    "self_attn.forget_gate.dt_bias": "ssm_dt.bias",
}
DOTS3 = {
    "self_attn.k_rope_only_layernorm.weight": "attn_k_norm.weight", "self_attn.g_proj.weight": "attn_gate.weight",
}  # fmt: skip
HY4 = {**STREAMS, "self_attn.gate_proj.weight": "attn_gate.weight"}
OF_INDEX = {"q_proj": "q_proj", "k_proj": "k_proj", "q_norm": "q_norm", "k_norm": "k_norm"}
Named = list[tuple[str, Tensor]]


def _named(own: str, tensor: Tensor, names: dict[str, str]) -> Named:
    """What has a name of its own there; empty for the rest."""
    if own.startswith("model.hc_head.hc_"):
        return [(f"output_hc_{own.rpartition('_')[2]}.weight", tensor)]
    block, _, name = own.removeprefix("model.layers.").partition(".")
    return [(f"blk.{block}.{names[name]}", tensor)] if name in names else []


def of_deepseek4(own: str, tensor: Tensor, _config: Any) -> Named:
    return _named(own, tensor, DEEPSEEK4)


def of_glm5(own: str, tensor: Tensor, _config: Any) -> Named:
    if own.endswith("A_log"):
        return [(f"blk.{own.split('.')[2]}.ssm_a", -tensor.exp())]
    return _named(own, tensor, GLM5)


def of_dots3(own: str, tensor: Tensor, config: Any) -> Named:
    """Norms of latents are multiplied with what the network multiplies these with, and heads differ by layer."""
    block, _, name = own.removeprefix("model.layers.").partition(".")
    if name.endswith("_a_layernorm.weight"):
        called = name.removeprefix("self_attn.").replace("_layernorm", "_norm")
        return [(f"blk.{block}.attn_{called}", tensor * (config.hidden_size / len(tensor)) ** 0.5)]
    if name == "self_attn.kv_b_proj.weight":
        layer = config.per_layer_config[int(block)]
        heads = tensor.view(layer.num_attention_heads, -1, tensor.shape[-1])
        keys, values = heads[:, : layer.qk_nope_head_dim], heads[:, layer.qk_nope_head_dim :]
        return [
            (f"blk.{block}.attn_k_b.weight", keys.mT.contiguous()),
            (f"blk.{block}.attn_v_b.weight", values.contiguous()),
        ]
    return _named(own, tensor, DOTS3)


def of_hy4(own: str, tensor: Tensor, _config: Any) -> Named:
    return _named(own, tensor, HY4)


def of_minimax3(own: str, tensor: Tensor, _config: Any) -> Named:
    """Norms are stored with 1 added, and gates apart from what they gate."""
    block, _, name = own.removeprefix("model.layers.").partition(".")
    if name.startswith("self_attn.indexer."):
        part = name.split(".")[2]
        return [(f"blk.{block}.indexer.{part}.weight", tensor + 1 if part.endswith("norm") else tensor)]
    if name.endswith("gate_up_proj.weight"):
        ending = "_shexp" if "shared" in name else ""
        parts = zip(("gate", "up"), tensor.chunk(2), strict=True)
        return [(f"blk.{block}.ffn_{kind}{ending}.weight", part.contiguous()) for kind, part in parts]
    return []


def _entries(writer: Any, entries: dict[str, Any]) -> None:
    for key, value in entries.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}.get(
            type(value), writer.add_array
        )
        add(f"{writer.arch}.{key}", value)


def _indexer(writer: Any, config: Any) -> None:
    writer.add_indexer_head_count(config.index_n_heads)
    writer.add_indexer_key_length(config.index_head_dim)
    writer.add_indexer_top_k(config.index_topk)


def _routed(writer: Any, config: Any) -> None:
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(True)
    writer.add_swiglu_clamp_exp([config.swiglu_limit] * config.num_hidden_layers)


def _streams(config: Any) -> dict[str, Any]:
    return {"hyper_connection.count": config.hc_mult, "hyper_connection.epsilon": config.hc_eps}


def _latent(writer: Any, config: Any) -> None:
    writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    writer.add_leading_dense_block_count(config.mlp_layer_types.count("dense"))
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _deepseek4(writer: Any, config: Any) -> None:
    _routed(writer, config)
    _indexer(writer, config)
    writer.add_sliding_window(config.sliding_window)
    writer.add_q_lora_rank(config.q_lora_rank)
    compressed = config.rope_parameters["compress"]
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(compressed["factor"])
    writer.add_rope_scaling_orig_ctx_len(compressed["original_max_position_embeddings"])
    ratios = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    _entries(writer, {
        **_streams(config),
        "hyper_connection.sinkhorn_iterations": config.hc_sinkhorn_iters,
        "attention.compress_ratios": [ratios[kind] for kind in config.layer_types],
        "attention.compress_rope_freq_base": compressed["rope_theta"],
        "attention.output_lora_rank": config.o_lora_rank,
        "attention.output_group_count": config.o_groups,
        "hash_layer_count": config.mlp_layer_types.count("hash_moe"),
        "expert_gating_func": 4,
        "nextn_predict_layers": 1,  # of which the file has none
    })  # fmt: skip


def _minimax3(writer: Any, config: Any) -> None:
    writer.add_expert_shared_count(config.shared_intermediate_size // config.intermediate_size)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(True)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_leading_dense_block_count(config.mlp_layer_types.count("dense"))
    writer.add_indexer_head_count(config.index_n_heads)
    writer.add_indexer_key_length(config.index_head_dim)
    writer.add_indexer_top_k(config.index_topk_blocks)
    _entries(writer, {
        "attention.indexer.block_size": config.index_block_size,
        "attention.indexer.local_blocks": config.index_local_blocks,
    })  # fmt: skip


def _glm5(writer: Any, config: Any) -> None:
    _latent(writer, config)
    _routed(writer, config)
    _indexer(writer, config)
    writer.add_layer_norm_eps(1e-6)
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_kda_head_dim(config.linear_head_dim)
    writer.add_swiglu_clamp_shexp([config.swiglu_limit] * config.num_hidden_layers)
    _entries(writer, {
        **_streams(config),
        "hyper_connection.sinkhorn_iterations": config.hc_sinkhorn_iters,
        "kda.gate_lower_bound": config.linear_lower_bound,
        "attention.indexer.kpool": config.index_kpool,
        "attention.indexer.kpool_select_tail": config.index_kpool_always_select_tail,
        "attention.indexer.types": [kind == "full" for kind in config.indexer_types],
    })  # fmt: skip


def _dots3(writer: Any, config: Any) -> None:
    _latent(writer, config.per_layer_config[config.layer_types.index("indexed_attention")])
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(True)
    _indexer(writer, config)
    slides = [kind == "sliding_attention" for kind in config.layer_types]
    own = config.per_layer_config[slides.index(True)]
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(slides)
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    writer.add_key_length_swa(own.kv_lora_rank + own.qk_rope_head_dim)
    writer.add_value_length_swa(own.kv_lora_rank)
    _entries(writer, {
        "attention.kv_lora_rank_swa": own.kv_lora_rank,
        "attention.key_length_mla_swa": own.qk_nope_head_dim + own.qk_rope_head_dim,
        "attention.value_length_mla_swa": own.v_head_dim,
        "attention.indexer.types": [not each for each in slides],
    })  # fmt: skip


def _hy4(writer: Any, config: Any) -> None:
    _latent(writer, config)
    _routed(writer, config)
    _indexer(writer, config)
    _entries(writer, {
        **_streams(config),
        "hyper_connection.magnitude": config.hc_magnitude,
        "attention.indexer.types": [kind == "full" for kind in config.indexer_types],
    })  # fmt: skip


ENTRIES: dict[str, Callable[[Any, Any], None]] = {
    "deepseek4": _deepseek4,
    "minimax-m3": _minimax3,
    "glm5-next": _glm5,
    "hy_v4": _hy4,
    "dots3note": _dots3,
}
"""What each says of itself besides what all say, by `general.architecture`."""
