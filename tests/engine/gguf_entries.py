"""What llama.cpp's converter (conversion/*.py) says of single networks besides what it says of all."""

from collections.abc import Callable
from typing import Any

import gguf
import torch
from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpTextNGramEmbedding

from tests.engine.gguf_families import predicting_layers
from tests.engine.gguf_indexed import ENTRIES
from tests.engine.gguf_states import STATES, granite


def describe(writer: Any, config: Any, architecture: str) -> None:
    """The entries that a network has besides those of all."""
    _MORE.get(architecture, lambda *_: None)(writer, config)


def _windows(writer: Any, config: Any) -> None:
    if config.sliding_window:
        writer.add_sliding_window(config.sliding_window)


def _window_list(writer: Any, config: Any) -> None:
    _windows(writer, config)
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])


def _gemma2(writer: Any, config: Any) -> None:
    _windows(writer, config)
    writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)


def _gemma3n(writer: Any, config: Any) -> None:
    _window_list(writer, config)
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    writer.add_altup_active_idx(config.altup_active_idx)
    writer.add_altup_num_inputs(config.altup_num_inputs)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    sparse = torch.tensor(config.activation_sparsity_pattern)
    writer.add_activation_sparsity_scale(torch.special.ndtri(sparse).tolist())


def _gemma4(writer: Any, config: Any) -> None:
    _window_list(writer, config)
    full = next(index for index, kind in enumerate(config.layer_types) if kind == "full_attention")
    head_dim, global_head_dim = (config.per_layer_config[index].head_dim for index in (1 - full, full))
    heads = [config.per_layer_config[index].num_key_value_heads for index in range(config.num_hidden_layers)]
    writer.add_head_count_kv(heads if config.attention_k_eq_v else heads[0])
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    for width, suffix in ((global_head_dim, ""), (head_dim, "_swa")):
        getattr(writer, f"add_key_length{suffix}")(width)
        getattr(writer, f"add_value_length{suffix}")(width)
        getattr(writer, f"add_rope_dimension_count{suffix}")(width)
    first_shared = config.num_hidden_layers - config.num_kv_shared_layers
    doubled = [config.use_double_wide_mlp and index >= first_shared for index in range(config.num_hidden_layers)]
    widths = [config.intermediate_size * (1 + twice) for twice in doubled]
    writer.add_feed_forward_length(widths if any(doubled) else widths[0])
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if config.enable_moe_block:
        writer.add_expert_used_count(config.top_k_experts)


def _routed(writer: Any, config: Any) -> None:
    writer.add_leading_dense_block_count(
        next((index for index, kind in enumerate(config.mlp_layer_types) if kind == "sparse"), 0)
        if getattr(config, "mlp_layer_types", None)
        else getattr(config, "first_k_dense_replace", config.num_hidden_layers)
    )
    if not getattr(config, "n_routed_experts", 0):
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_expert_shared_count(0)
        return
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(getattr(config, "norm_topk_prob", False))
    if config.n_group:
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)
    kinds = gguf.ExpertGatingFuncType
    by_softmax = config.model_type in ("deepseek_v2", "deepseek_ocr2_text", "mistral4")
    writer.add_expert_gating_func(kinds.SOFTMAX if by_softmax else kinds.SIGMOID)


def _deepseek2(writer: Any, config: Any) -> None:
    _routed(writer, config)
    if config.q_lora_rank:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    if hasattr(config, "index_topk"):
        writer.add_indexer_head_count(config.index_n_heads)
        writer.add_indexer_key_length(config.index_head_dim)
        writer.add_indexer_top_k(config.index_topk)
    if kinds := getattr(config, "indexer_types", None):
        writer.add_array(f"{writer.arch}.attention.indexer.types", [kind == "full" for kind in kinds])
    if every := config.rope_parameters.get("mscale_all_dim"):
        writer.add_rope_scaling_yarn_log_mul(0.1 * every)
    if beta := config.rope_parameters.get("llama_4_scaling_beta"):
        writer.add_attn_temperature_scale(beta)
        writer.add_attn_temperature_length(config.rope_parameters["original_max_position_embeddings"])


def _glm4_moe(writer: Any, config: Any) -> None:
    _routed(writer, config)
    if sections := config.rope_parameters.get("mrope_section"):
        writer.add_rope_dimension_sections([*sections, 0])
    if layers := predicting_layers(config, "glm4moe"):
        writer.add_nextn_predict_layers(layers)


def _mistral3(writer: Any, config: Any) -> None:
    if config.model_type == "ministral3":
        writer.add_rope_scaling_yarn_log_mul(config.rope_parameters["mscale_all_dim"])
        writer.add_attn_temperature_scale(config.rope_parameters["llama_4_scaling_beta"])


def _sections(writer: Any, config: Any) -> None:
    sections = (getattr(config, "rope_parameters", None) or {}).get("mrope_section", [3, 3, 2])
    writer.add_rope_dimension_sections([*sections, 0])


def _hunyuan_vl(writer: Any, config: Any) -> None:
    _sections(writer, config)
    writer.add_rope_scaling_alpha(config.rope_parameters["alpha"])


def _qwen35(writer: Any, config: Any) -> None:
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_inner_size(config.linear_value_head_dim * config.linear_num_value_heads)
    writer.add_full_attention_interval(2)
    if sections := config.rope_parameters.get("mrope_section"):
        writer.add_rope_dimension_sections([*sections, 0])


def _llama4(writer: Any, config: Any) -> None:
    writer.add_interleave_moe_layer_step(config.interleave_moe_layer_step)


def _cohere2(writer: Any, config: Any) -> None:
    writer.add_logit_scale(config.logit_scale)
    _windows(writer, config)


def _ernie_moe(writer: Any, config: Any) -> None:
    writer.add_interleave_moe_layer_step(config.moe_layer_interval)
    writer.add_leading_dense_block_count(config.moe_layer_start_index)
    writer.add_expert_shared_count(config.moe_num_shared_experts)
    writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.moe_num_shared_experts)


def _hunyuan_moe(writer: Any, config: Any) -> None:
    writer.add_expert_shared_feed_forward_length(config.intermediate_size)
    writer.add_expert_used_count(config.moe_topk)


def _scales(writer: Any, config: Any) -> None:
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)


def _olmo2(writer: Any, config: Any) -> None:
    if config.model_type == "olmo3":
        _window_list(writer, config)


def _behind_dense(writer: Any, config: Any) -> None:
    writer.add_leading_dense_block_count(config.mlp_layer_types.index("sparse"))
    writer.add_expert_shared_count(config.num_shared_experts)
    writer.add_expert_weights_norm(getattr(config, "norm_topk_prob", True))
    writer.add_expert_weights_scale(getattr(config, "routed_scaling_factor", getattr(config, "route_scale", 1.0)))
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if config.model_type == "exaone_moe":
        writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.num_shared_experts)
    _windows(writer, config) if config.model_type == "afmoe" else _window_list(writer, config)


def _cohere2_moe(writer: Any, config: Any) -> None:
    _behind_dense(writer, config)
    writer.add_logit_scale(config.logit_scale)
    writer.add_expert_shared_feed_forward_length(config.intermediate_size * config.num_shared_experts)


def _mellum(writer: Any, config: Any) -> None:
    _window_list(writer, config)
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])


def _hy_v3(writer: Any, config: Any) -> None:
    writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.num_shared_experts)
    writer.add_expert_weights_norm(True)
    writer.add_expert_weights_scale(config.router_scaling_factor)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _mimo2(writer: Any, config: Any) -> None:
    _window_list(writer, config)
    heads = [config.num_key_value_heads * (1 + (kind != "full_attention")) for kind in config.layer_types]
    writer.add_head_count_kv(heads)
    writer.add_value_length(config.v_head_dim)
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    writer.add_expert_count(config.n_routed_experts)
    writer.add_float32("mimo2.attention.value_scale", config.attention_value_scale)


def _olmo(writer: Any, config: Any) -> None:
    writer.add_layer_norm_eps(1e-5)
    if config.clip_qkv:
        writer.add_clamp_kqv(config.clip_qkv)


def _step35(writer: Any, config: Any) -> None:
    _window_list(writer, config)
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_expert_shared_feed_forward_length(config.share_expert_dim)
    writer.add_expert_weights_scale(config.moe_router_scaling_factor)
    writer.add_expert_weights_norm(True)
    writer.add_leading_dense_block_count(config.mlp_layer_types.index("sparse"))
    writer.add_moe_every_n_layers(1)
    writer.add_swiglu_clamp_exp(config.swiglu_limits)
    writer.add_swiglu_clamp_shexp(config.swiglu_limits_shared)


def _bailing_moe(writer: Any, config: Any) -> None:
    writer.add_leading_dense_block_count(0)
    writer.add_expert_weights_norm(True)
    writer.add_expert_weights_scale(1.0)
    writer.add_expert_shared_count(config.shared_intermediate_size // config.intermediate_size)


def _laguna(writer: Any, config: Any) -> None:
    _windows(writer, config)
    writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    writer.add_expert_weights_scale(config.moe_routed_scaling_factor)
    writer.add_expert_weights_norm(True)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_leading_dense_block_count(config.mlp_layer_types.index("sparse"))
    local = config.rope_parameters["sliding_attention"]
    writer.add_rope_freq_base_swa(local["rope_theta"])
    writer.add_rope_dimension_count_swa(int(config.head_dim * local["partial_rotary_factor"]))


def _muse_glimmer(writer: Any, config: Any) -> None:
    _window_list(writer, config)
    writer.add_logit_scale(config.output_multiplier)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)


def _granite_swa(writer: Any, config: Any) -> None:
    granite(writer, config)
    _window_list(writer, config)
    writer.add_array("granite_swa.attention.rope_pattern", [theta > 0 for theta in config.layer_rope_theta])


def _qwen4(writer: Any, config: Any) -> None:
    _qwen35(writer, config)
    writer.add_indexer_head_count(config.indexer_n_heads)
    writer.add_indexer_key_length(config.indexer_head_dim)
    writer.add_indexer_top_k(config.indexer_budget)
    ratios = [config.indexer_compress_ratio * (kind != "linear_attention") for kind in config.layer_types]
    writer.add_array("qwen4exp.attention.compress_ratios", ratios)
    for key, value in {
        "hyper_connection.count": config.hc_count,
        "hyper_connection.low_rank": config.hc_lowrank,
        "ple.ngram_size": config.ngram_size,
        "ple.heads_per_ngram": config.heads_per_ngram,
        "ple.conv_kernel": config.ple_conv_kernel_size,
        "ple.eos_token_id": config.eos_token_id,
        "embedding_length_per_layer_input": config.ple_embed_dim // ((config.ngram_size - 1) * config.heads_per_ngram),
    }.items():
        writer.add_uint32(f"qwen4exp.{key}", value)
    writer.add_array("qwen4exp.ple.layers", [layer - 1 for layer in config.ple_layer_ids])
    with torch.device("cpu"):
        hashes = Qwen4ExpTextNGramEmbedding(config, config.ple_embed_dim, 0)
    for key, numbers in {
        "layer_multipliers": hashes.layer_multipliers,
        "head_offsets": hashes.ngram_heads_offsets,
        "head_vocab_sizes": hashes.ngram_heads_vocab_sizes,
    }.items():
        kinds = gguf.GGUFValueType
        writer.add_key_value(f"qwen4exp.ple.{key}", numbers.tolist(), kinds.ARRAY, sub_type=kinds.UINT64)


def _bitnet(writer: Any, config: Any) -> None:
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(1.0)
    if config.hidden_act != "silu":
        writer.add_string("bitnet.hidden_activation", config.hidden_act)


def _mpt(writer: Any, config: Any) -> None:
    writer.add_max_alibi_bias(config.attn_config.alibi_bias_max)
    if config.attn_config.clip_qkv:
        writer.add_clamp_kqv(config.attn_config.clip_qkv)


def _minicpm3(writer: Any, config: Any) -> None:
    writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_key_length(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)


def _dbrx(writer: Any, config: Any) -> None:
    writer.add_layer_norm_eps(1e-5)
    writer.add_clamp_kqv(float(config.attn_config.clip_qkv))
    writer.add_expert_count(config.ffn_config.moe_num_experts)
    writer.add_expert_used_count(config.ffn_config.moe_top_k)


_MORE: dict[str, Callable[[Any, Any], None]] = {
    "gemma2": _gemma2,
    "gemma3": _window_list,
    "gemma3n": _gemma3n,
    "gemma4": _gemma4,
    "gpt-oss": _windows,
    "phi3": _windows,
    "deepseek2": _deepseek2,
    "glm4moe": _glm4_moe,
    "dots1": _routed,
    "mistral3": _mistral3,
    "qwen35": _qwen35,
    "qwen35moe": _qwen35,
    "qwen3next": _qwen35,
    "qwen4exp": _qwen4,
    "qwen2vl": _sections,
    "qwen3vl": _sections,
    "qwen3vlmoe": _sections,
    "llama4": _llama4,
    "command-r": lambda writer, config: writer.add_logit_scale(config.logit_scale),
    "cohere2": _cohere2,
    "exaone4": _window_list,
    "ernie4_5-moe": _ernie_moe,
    "minimax-m2": lambda writer, _: writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID),
    "hunyuan-moe": _hunyuan_moe,
    "granite": granite,
    "granitemoe": granite,
    "olmo2": _olmo2,
    "minicpm": _scales,
    "olmo": _olmo,
    "gptneox": lambda writer, config: writer.add_parallel_residual(config.use_parallel_residual),
    "exaone-moe": _behind_dense,
    "afmoe": _behind_dense,
    "cohere2moe": _cohere2_moe,
    "mellum": _mellum,
    "hy_v3": _hy_v3,
    "mimo2": _mimo2,
    "deepseek32": _deepseek2,
    "mistral4": _deepseek2,
    "glm-dsa": _deepseek2,
    "step35": _step35,
    "minicpm3": _minicpm3,
    "bitnet": _bitnet,
    "mpt": _mpt,
    "chameleon": lambda writer, config: writer.add_swin_norm(config.swin_norm),
    "phimoe": _windows,
    "dbrx": _dbrx,
    "bailingmoe": _bailing_moe,
    "muse-glimmer": _muse_glimmer,
    "granite_swa": _granite_swa,
    "laguna": _laguna,
    "bailingmoe2": _routed,
    "deepseek": _routed,
    "deepseek2-ocr": _routed,
    "hunyuan_vl": _hunyuan_vl,
    "paddleocr": _sections,
    **STATES,
    **ENTRIES,
}
