"""Tiny random checkpoints of every decoder family that transformers has, saved as transformers saves them.

Nothing is known here of a family but the names by which configs call their sizes: known names get small numbers.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.auto import modeling_auto

from engine.model.families.windowed_families import heeds_window
from tests.engine.tensor_files import read_tensors
from tests.engine.tiny_models import unlike_new

MAPPINGS = (
    modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING,
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING,
)
VOCABULARY = 131
LAYERS = 4
HEADS = 8  # where their width is said: together they are wider than what goes into them
# By the names that configs use, in whatever part of the model they stand.
SMALL: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), VOCABULARY),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "dim", "embed_dim", "emb_dim", "encoder_hidden_size"), 64),
    **dict.fromkeys(
        ("embedding_size", "projection_dim", "out_hidden_size", "vision_output_dim", "hidden_size_global"), 64
    ),
    **dict.fromkeys(("projector_input_dim", "projector_output_dim", "text_hidden_size", "output_dim"), 64),
    **dict.fromkeys(("intermediate_size", "intermediate_size_mlp", "ffn_dim", "ffn_hidden_size", "d_inner"), 96),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "mlp_dim", "n_inner", "dense_intermediate_size"), 96),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), LAYERS),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "depth", "vision_layers", "num_encoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "num_swa_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_global_key_value_heads", "num_swa_key_value_heads"), 2),
    **dict.fromkeys(("swa_num_attention_heads", "swa_num_heads"), 4),
    **dict.fromkeys(("head_dim", "global_head_dim", "swa_head_dim", "attention_head_dim", "kv_channels"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length"), 512),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 8),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_k", "top_k_experts"), 2),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size"), 48),
    **dict.fromkeys(("shared_intermediate_size", "moe_shared_expert_intermediate_size"), 48),
    **dict.fromkeys(("n_group", "topk_group", "num_expert_group", "n_shared_experts", "num_shared_experts"), 1),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 16),
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    **dict.fromkeys(("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"), 1),
    "moe_layer_end_index": LAYERS - 1,
    "sliding_window": 7,
    "attention_chunk_size": 8,
    "floor_scale": 8,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "index_topk": 8,  # fewer than there are tokens, so that indexers have to choose
    "index_head_dim": 16,
    "index_n_heads": 32,  # with few heads many scores are exactly 0, and which of these are taken is nobody's promise
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "dim_model_base": 32,
    "hidden_size_per_layer_input": 8,
    "laurel_rank": 8,
    "query_pre_attn_scalar": 16,
    "image_size": 28,
    "patch_size": 14,
    "deepstack_visual_indexes": [0, 1],
    "rotary_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ABSENT = object()
# What would show nothing if it were as usual: factors of 1, groups of one, layers that are all the same.
SHOWING: dict[str, Any] = {
    "moe_router_scaling_factor": 2.5,
    **dict.fromkeys(
        ("routed_scaling_factor", "moe_routed_scaling_factor", "router_scaling_factor", "route_scale"), 2.5
    ),
    **dict.fromkeys(("attention_multiplier", "residual_multiplier", "attention_in_multiplier", "key_multiplier"), 0.4),
    **dict.fromkeys(("embedding_multiplier", "lm_head_multiplier", "ssm_out_multiplier", "time_step_scale"), 1.5),
    **dict.fromkeys(("attention_out_multiplier", "ssm_in_multiplier", "logits_scaling", "logit_scale"), 0.7),
    "mlp_multipliers": [0.6, 1.5],
    "ssm_multipliers": [0.6, 1.5, 1.2, 0.8, 1.1],
    **dict.fromkeys(("attention_bias", "mlp_bias", "use_bias", "lm_head_bias", "projectors_bias", "conv_bias"), True),
    **dict.fromkeys(("mamba_proj_bias", "use_qkv_bias", "norm_bias", "decoder_bias", "enable_bias"), True),
    **dict.fromkeys(("use_qk_norm", "qk_layernorm", "mup_enabled", "mamba_rms_norm", "use_double_wide_mlp"), True),
    **dict.fromkeys(("scale_attn_by_inverse_layer_idx", "attn_temperature_tuning"), True),
    **dict.fromkeys(("n_group", "num_expert_group", "mamba_n_groups"), 2),
    **dict.fromkeys(("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"), 2),
    "clip_qkv": 1.5,
    "moe_router_logit_softcapping": 1.0,
    "num_kv_shared_layers": 2,
    "activation_sparsity_pattern": [0.9, 0.5, 0.0, 0.0],
    "mlp_layer_types": ["dense", "sparse"] * 2,
    "indexer_types": ["full", "shared"] * 2,
}
SLIDING = {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 7, "use_sliding_window": True}
EVEN = frozenset({"helium"})  # networks of the library whose heads cannot be wider than what goes into them
ENCODER = {"hidden_size": 64, "num_key_value_heads": 4, "num_hidden_layers": 2}
# What else a family needs, in its language model or around it.
ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
SECTIONS = {"rope_parameters": {**ROPE, "mrope_section": [2, 3, 3]}}
ALPHA = {**ROPE, "rope_type": "dynamic", "alpha": 50.0, "factor": 1.0}
MIXTURE = {"n_routed_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "moe_intermediate_size": 48}
OWN: dict[str, dict[str, Any]] = {
    "axk2": {"n_group": 2, "topk_group": 1},
    "minimax": {
        "block_size": 8,
        **dict.fromkeys(("full_attn_alpha_factor", "linear_attn_beta_factor", "mlp_alpha_factor"), 1.5),
        **dict.fromkeys(("full_attn_beta_factor", "linear_attn_alpha_factor", "mlp_beta_factor"), 0.7),
    },
    "minimax_m3_vl_text": {
        "layer_types": ["full_attention", "minimax_m3_sparse"] * 2,  # as published
        "index_n_heads": 2,
        "index_block_size": 4,
        "index_topk_blocks": 2,
    },
    "glm4v_text": SECTIONS,
    "glm4v_moe_text": {"rope_parameters": {**ROPE, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}},
    "glm_ocr_text": SECTIONS,
    "qwen2_vl_text": SECTIONS,
    "qwen2_5_vl_text": SECTIONS,
    "qwen2_5_omni_text": SECTIONS,
    "hunyuan_v1_dense": {"rope_parameters": ALPHA},
    "hunyuan_v1_moe": {"rope_parameters": ALPHA},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE, "sliding_attention": ROPE}},
    "bamba": {"attn_layer_indices": [1, 3], "mamba_n_heads": 8, "mamba_d_state": 16, "mamba_chunk_size": 16},
    "granitemoehybrid": {
        "layer_types": ["linear_attention", "full_attention"] * 2,
        "mamba_n_heads": 8,
        "mamba_d_state": 16,
        "mamba_chunk_size": 16,
        "num_key_value_heads": 2,
    },
    "falcon_h1": {
        "mamba_d_ssm": 128,
        "mamba_n_heads": 8,
        "mamba_d_state": 16,
        "mamba_n_groups": 2,
        "mamba_chunk_size": 16,
    },
    "nemotron_h": {
        "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"],
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "ssm_state_size": 16,
        "chunk_size": 16,
        "n_groups": 2,
    },
    "deepseek_v4": {
        "num_key_value_heads": 1,
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 6},
        "mlp_layer_types": ["hash_moe", "moe"] * 2,
        "index_topk": 2,
        "o_groups": 2,
        "o_lora_rank": 16,
        "partial_rotary_factor": 0.5,
    },
    "glm5_next_text": {
        "linear_head_dim": 16,
        "linear_num_heads": 4,
        "index_kpool": 4,
        "qk_rope_head_dim": 0,
        "layer_types": ["linear_attention", "indexed_attention"] * 2,
        "indexer_types": ["full"] * 4,
    },
    "kimi_linear": {"linear_head_dim": 16, "linear_num_heads": 4},
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 16, "chunk_size": 16, "n_groups": 2},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "hunyuan_vl_text": {"rope_parameters": {**ALPHA, "mrope_section": [2, 2, 2, 2]}},
    "deepseek_v2": MIXTURE,
    "dots1": MIXTURE,
    "qwen4_exp_text": {
        "indexer_n_heads": 32,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 8,
        "indexer_compress_ratio": 4,
        "hc_lowrank": 8,
        "eos_token_id": 25,  # one that tests read: n-grams end there
        "ple_layer_ids": [1, 3],
        "ple_embed_dim": 32,
        "heads_per_ngram": 2,
        "ngram_vocab_size_base": 50,
        "make_ngram_vocab_size_divisible_by": 4,
        "split_ngram_parts": 4,
    },
    "dots3_note_text": {
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 24,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4,
        "swa_q_lora_rank": 24,
        "swa_kv_lora_rank": 16,
        "swa_head_dim": 24,
        "swa_qk_nope_head_dim": 16,
        "swa_v_head_dim": 16,
    },
    "dots3_note_vision_encoder": {
        "mlp_layer_types": ["dense"] * 2,
        "per_layer_config": {},
        "adapter_in_dim": 64,
        "adapter_out_dim": 64,
    },
    "dots3_note_audio_encoder": {"downsample_hidden_size": 16, "adapter_input_size": 64, "adapter_out_dim": 64},
    "mimi": {"upsample_groups": 64},
    "cosmos3_edge_text": SECTIONS,
    "ernie4_5_vl_moe_text": {
        "rope_parameters": {**ROPE, "mrope_section": [3, 3, 2]},
        "moe_intermediate_size": [48, 32],
    },
    "paddleocr_vl_text": SECTIONS,
    "qwen3_omni_moe_text": SECTIONS,
    "emu3": {"vocabulary_map": {"<image>": VOCABULARY - 1}},
    "granite4_vision": {"deepstack_layer_map": [], "downsample_rate": "1/2"},
    "step3p5": {
        "sliding_window": 7,
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "rope_parameters": {"full_attention": ROPE, "sliding_attention": ROPE},
    },
    "fun_asr_nano": {"adaptor_config": {"hidden_size": 64, "intermediate_size": 16}},
    "longcat_flash": {"num_layers": 2, "moe_topk": 2, "zero_expert_num": 4, "head_dim": 8},
    "deepseek_ocr2_text": {**MIXTURE, "mlp_layer_types": ["dense", "sparse"] * 2, "n_shared_experts": 1},
    "phi4_multimodal_audio": {
        "num_blocks": 2,
        "ext_pw_out_channel": 64,
        "depthwise_separable_out_channel": 64,
        "nemo_conv_channels": 16,
    },
    "muse_spark_audio": {"num_hidden_layers": 4, "hidden_sizes": [8, 8, 8, 8]},
    "molmo2_vision": {"image_size": [28, 28], "num_position_embeddings": 4, "num_hidden_layers": 25},
    "molmo2_adapter": {"num_attention_heads": 4},
    "kyutai_speech_to_text": {"audio_pad_token_id": 2048},
    "vibevoice_acoustic_tokenizer_encoder": {"num_filters": 2, "depths": [1] * 7, "hidden_size": 8},
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "deepseek_ocr2_sam_vision_model": {"global_attn_indexes": [1], "downsample_channels": [64, 64]},
    "qwen2_5_omni_thinker": {"vision_start_token_id": 2 * VOCABULARY},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 2 * VOCABULARY},
    "chameleon": {"vocabulary_map": {"<image>": VOCABULARY - 1}},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10_000.0},
        "ffn_config": {"hidden_size": 64, "ffn_hidden_size": 48, "moe_num_experts": 8, "moe_top_k": 2},
    },
    "reformer": {"is_decoder": True, "axial_pos_embds": False},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "window_size": 7},
    "gemma4_assistant": {"hidden_size_per_layer_input": 0},
}
# Families of which only a part answers in text, in the library as a model of its own.
THINKERS = frozenset({"qwen2_5_omni", "qwen3_omni_moe"})
# Families that were published with weights for pairs of neighbours, where the library's network turns halves of a head.
IN_PAIRS = frozenset({"hy_v4"})
# Families whose tiny models transformers saves under other names than those of the published ones.
MISNAMED = dict.fromkeys(("kimi_k25", "qianfan_ocr"), "language_model.model.")


def families() -> list[str]:
    """Every model_type that has a class for text, or for text and pictures or sound, in alphabetical order."""
    names = (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
    )
    return sorted({family for mapping in names for family in mapping})


def usual_config(family: str) -> Any:
    """The config of a family in the size in which it is published."""
    return transformers.CONFIG_MAPPING[family]()


def tiny_config(family: str) -> Any:
    """The config of a tiny model of a family; raises whatever its classes raise for numbers that do not fit."""
    return _tiny(usual_config(family))


def _tiny(usual: Any) -> Any:
    text = usual.get_text_config(decoder=True)
    parts = {name: part for name, part in vars(usual).items() if isinstance(part, transformers.PreTrainedConfig)}
    if text is usual:
        encoders = {name: _small_encoder(part) for name, part in parts.items()}
        return type(usual)(**{**encoders, **_small_text(usual)})
    made = {name: _small_text(part) if part is text else _small_encoder(part) for name, part in parts.items()}
    whole = _small(usual, ("projection_dim", "pad_token_id", "eos_token_id")) | OWN.get(usual.model_type, {})
    return type(usual)(**{**made, **whole})


def _small(config: Any, names: Iterable[str] = SMALL) -> dict[str, Any]:
    return {name: SMALL[name] for name in names if _has(config, name)}


def _has(config: Any, name: str) -> bool:
    given = not isinstance(getattr(type(config), name, None), property)
    return given and _get(config, name) not in (None, ABSENT)


def _get(config: Any, name: str) -> Any:
    """What a config says; `ABSENT` for nothing, and for what differs from layer to layer."""
    try:
        return getattr(config, name, ABSENT)
    except (AttributeError, RuntimeError):
        return ABSENT


def _small_encoder(config: Any) -> dict[str, Any]:
    own = {name: value for name, value in ENCODER.items() if _has(config, name)}
    parts = {name: part for name, part in vars(config).items() if isinstance(part, transformers.PreTrainedConfig)}
    inner = {name: _small_encoder(part) for name, part in parts.items()}
    return {**_small(config), **own, **inner, **OWN.get(config.model_type, {}), "model_type": config.model_type}


def _small_text(usual: Any) -> dict[str, Any]:
    """Sizes of a language model, with every kind of layer that it usually has."""
    made = _small(usual)
    if _get(usual, "num_key_value_heads") is None:
        made["num_key_value_heads"] = SMALL["num_key_value_heads"]
    if "head_dim" in vars(usual) and _get(usual, "head_dim") is None:
        made["head_dim"] = SMALL["head_dim"]
    elif _has(usual, "head_dim") and "head_dim" in vars(usual) and usual.model_type not in EVEN:
        made["num_attention_heads"] = HEADS
    if _has(usual, "kv_lora_rank"):  # heads share latents, and `head_dim` follows from them
        made.pop("head_dim", None)
        made["num_key_value_heads"] = made["num_attention_heads"] = SMALL["num_attention_heads"]
    if getattr(usual, "num_kv_shared_layers", 0):
        made["num_kv_shared_layers"] = 2
    for name in ("intermediate_size", "num_experts", "activation_sparsity_pattern", "moe_layer_end_index"):
        if isinstance(value := _get(usual, name), list):
            made[name] = [SMALL.get(name, value[-1])] * LAYERS
    made |= _showing(usual) | OWN.get(usual.model_type, {})
    rope = getattr(usual, "rope_parameters", None)
    if isinstance(rope, dict) and rope.get("rope_theta", 0) is None:
        made.setdefault("rope_parameters", ROPE)
    kinds = getattr(usual, "layer_types", None)
    if isinstance(kinds, list) and len(set(kinds)) > 1 and _has(usual, "layer_types"):
        made["layer_types"] = _few_layers(kinds)
    return {**made, "model_type": usual.model_type}


def _showing(usual: Any) -> dict[str, Any]:
    """What a family has of `SHOWING`, and layers with windows beside others where it knows them."""
    known = {name for name in vars(usual) if not isinstance(getattr(type(usual), name, None), property)}
    found = {name: value for name, value in SHOWING.items() if name in known}
    if {"layer_types", "sliding_window"} <= known and set(usual.layer_types or ()) == {"full_attention"}:
        found |= {name: value for name, value in SLIDING.items() if name in known}
    elif "sliding_window" in known and "layer_types" not in known and heeds_window(usual.model_type):
        found["sliding_window"] = SLIDING["sliding_window"]
    return found


def _few_layers(kinds: list[str]) -> list[str]:
    """Four layers of all kinds, the last as it usually is."""
    distinct = list(dict.fromkeys(kinds))
    return [*(distinct * LAYERS)[: LAYERS - 1], kinds[-1]]


def random_model(config: Any, seed: int = 0) -> Any:
    """A random model in float32 whose logits are spread enough that its greedy text is no constant.

    None of its weights is what a new model has.
    """
    model_class = next(mapping[type(config)] for mapping in MAPPINGS if type(config) in mapping)
    torch.manual_seed(seed)
    config._attn_implementation = "eager"
    model = model_class(config).eval().requires_grad_(False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                parameter.normal_(0, 0.25)
            elif "sinks" in name:
                parameter.normal_(0, 1.0)
    return unlike_new(model)


def save_tiny(family: str, folder: Path) -> Any:
    """Write a tiny model as transformers would; returns the model."""
    if family in MISNAMED:
        raise ValueError(f"{family} is saved under names of its own")
    if family in THINKERS:
        return _save_thinker(family, folder)
    model = random_model(tiny_config(family))
    model.save_pretrained(folder)
    if family in IN_PAIRS:
        turn_pairs(model)
    return model


@torch.no_grad()
def turn_pairs(model: Any) -> None:
    """Have a network of `IN_PAIRS` compute with pairs of neighbours what it computed with halves, by its weights."""
    for layer in model.model.layers:
        attention, indexer = layer.self_attn, layer.self_attn.indexer
        turned = attention.qk_rope_head_dim
        _put_apart(attention.q_b_proj.weight, attention.qk_head_dim, turned)
        for weight in attention.kv_a_proj_with_mqa.parameters():
            _put_apart(weight, attention.kv_lora_rank + turned, turned)
        for weight in (indexer.wq_b.weight, indexer.wk.weight, *indexer.k_norm.parameters()) if indexer else ():
            _put_apart(weight, indexer.head_dim, turned)


def _put_apart(weight: Any, width: int, turned: int) -> None:
    """Of every head's outputs, the last ones: first those that stand in even places, then the others."""
    begin = width - turned
    order = [*range(begin), *range(begin, width, 2), *range(begin + 1, width, 2)]
    weight.copy_(weight.unflatten(0, (-1, width))[:, order].flatten(0, 1).clone())


def _save_thinker(family: str, folder: Path) -> Any:
    """Write what thinks of a model that also speaks, under the names of the whole; returns the thinker."""
    model = random_model(tiny_config(f"{family}_thinker"))
    model.save_pretrained(folder)
    path = folder / "model.safetensors"
    save_file({f"thinker.{name}": tensor for name, tensor in read_tensors(path).items()}, path, {"format": "pt"})
    whole = {**usual_config(family).to_dict(), "thinker_config": model.config.to_dict()}
    (folder / "config.json").write_text(json.dumps(whole, default=str), "utf-8")
    return model


def save_language_model(family: str, folder: Path) -> Any:
    """Write the tiny language model of a family whose encoders cannot be made, under the names of the whole.

    Returns the language model. Raises `KeyError` if it is none that transformers has by itself.
    """
    usual = usual_config(family)
    text = usual.get_text_config(decoder=True)
    if text is usual or type(text) not in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING:
        raise KeyError(f"{family} has no language model of its own")
    model = random_model(type(text)(**_small_text(text)))
    tied, decoder = model.all_tied_weights_keys, MISNAMED.get(family, "model.language_model.")
    tensors = {_within(decoder, name): tensor for name, tensor in model.state_dict().items() if name not in tied}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    whole = {**usual.to_dict(), "text_config": model.config.to_dict()}
    (folder / "config.json").write_text(json.dumps(whole, default=str), "utf-8")
    return model


def _within(decoder: str, name: str) -> str:
    return decoder + name.removeprefix("model.") if name.startswith("model.") else name
