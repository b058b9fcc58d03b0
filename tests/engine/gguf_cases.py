"""Tiny random networks of every kind that is read from GGUF files."""

from typing import Any

import transformers

from engine.model.families.verified_families import VERIFIED
from tests.engine.family_models import ABSENT
from tests.engine.gguf_indexed import WITH_INDEXERS
from tests.engine.gguf_states import DELTAS, EXPERTS, LATENT, SCALES, WITH_MIXERS, WITH_STATES
from tests.engine.tiny_models import BASE, MIXED, WINDOW, random_model, unlike_new

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
FALCON = {"head_dim": ABSENT, "ffn_hidden_size": 96, "new_decoder_architecture": True, "num_kv_heads": 2}
WHOLE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
LONG = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 8,
    "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0], "original_max_position_embeddings": 128,
}  # fmt: skip
MADE |= {
    "step3p5": ("step3p5", {
        **WINDOWS, **EXPERTS, "n_routed_experts": 4, "share_expert_dim": 48, "mlp_layer_types": ["dense", "sparse"],
        "num_sliding_attention_heads": 6, "moe_router_scaling_factor": 3.0, "swiglu_limits": [0.0, 0.5],
        "swiglu_limits_shared": [0.5, 1.0],
        "rope_parameters": {
            "full_attention": {
                "rope_type": "llama3", "rope_theta": 5e6, "partial_rotary_factor": 0.5, "factor": 2.0,
                "low_freq_factor": 1.0, "high_freq_factor": 32.0, "original_max_position_embeddings": 131072,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    }),
    "laguna": ("laguna", {
        **EXPERTS, "num_hidden_layers": 4, "shared_expert_intermediate_size": 48, "sliding_window": WINDOW,
        "layer_types": MIXED[1:2] + MIXED[:1] * 3, "num_attention_heads_per_layer": [4, 6, 6, 6],
        "mlp_layer_types": ["dense"] + ["sparse"] * 3, "moe_routed_scaling_factor": 2.5,
        "rope_parameters": {
            "full_attention": {**YARN, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
        },
    }),
    "laguna without windows": ("laguna", {
        **EXPERTS, "shared_expert_intermediate_size": 48, "gating": "per-element", "sliding_window": 0,
        "rope_parameters": {"full_attention": WHOLE, "sliding_attention": WHOLE},
    }),
    "muse_glimmer": ("muse_glimmer_text", {
        "num_hidden_layers": 4, "sliding_window": WINDOW, "layer_types": MIXED, "qk_scale_factor": 3.87,
        "layer_rope_theta": [10000.0, 0] * 2,
        "output_multiplier": 0.5, "final_logit_softcapping": 20.0,
    }),
    "granite_swa": ("granite_swa", {**SCALES, **WINDOWS, "layer_rope_theta": [10000.0, 0]}),
    "granite_swa of experts": ("granitemoe_swa", {
        **SCALES, **WINDOWS, "num_local_experts": 4, "shared_intermediate_size": 32,
    }),
    "qwen4_exp": ("qwen4_exp_text", {
        **DELTAS, **EXPERTS, "num_hidden_layers": 4, "shared_expert_intermediate_size": 32,
        "linear_value_head_dim": 16, "layer_types": ["linear_attention", "indexed_attention"] * 2,
        "indexer_n_heads": 32, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 8,
        "indexer_compress_ratio": 4, "hc_lowrank": 8, "eos_token_id": 25, "ple_layer_ids": [1], "ple_embed_dim": 64,
        "heads_per_ngram": 2, "ngram_vocab_size_base": 50, "make_ngram_vocab_size_divisible_by": 4,
        "split_ngram_parts": 4, "output_gate_type": "sigmoid",
    }),
    "bailing_hybrid": ("bailing_hybrid", {
        **LATENT, "q_lora_rank": ABSENT, "head_dim": 16, "layer_types": ["linear_attention", "full_attention"],
        "mlp_layer_types": ["dense", "sparse"], "num_experts": 4, "num_experts_per_token": 2, "num_expert_group": 2,
        "topk_group": 1, "moe_intermediate_size": 32, "num_mtp_layers": 0,
    }),
    "falcon 7b": ("falcon", {**FALCON, "new_decoder_architecture": False, "num_kv_heads": 1, "num_key_value_heads": 1}),
    "falcon 11b": ("falcon", {**FALCON, "num_ln_in_parallel_attn": 1}),
    "falcon 40b": ("falcon", FALCON),
    "phimoe": ("phimoe", {"num_local_experts": 4, "attention_bias": True, "lm_head_bias": True}),
    "phimoe of long texts": ("phimoe", {
        "num_local_experts": 4, "rope_parameters": {
            **LONG, "short_mscale": 1.243163121016122, "long_mscale": 1.243163121016122,
        },
    }),
    "jais2": ("jais2", {}),
    "dbrx": ("dbrx", {
        **dict.fromkeys(("head_dim", "num_key_value_heads", "intermediate_size"), ABSENT),
        "hidden_size": ABSENT, "d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 512,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10_000.0},
        "ffn_config": {"hidden_size": 64, "ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2},
    }),
    "deepseek ocr": ("deepseek_ocr2_text", {
        **ROUTED, "n_group": 1, "topk_group": 1, "head_dim": ABSENT, "norm_topk_prob": False,
        "mlp_layer_types": ["dense", "sparse"],
    }),
    "bitnet": ("bitnet", {**TIED, "hidden_act": "silu", "head_dim": ABSENT}),
    "bitnet of squares": ("bitnet", {**TIED, "head_dim": ABSENT}),
    "chameleon": ("chameleon", {"head_dim": ABSENT, "vocabulary_map": {"<image>": 130}}),
    "bloom": ("bloom", {
        **TIED, "hidden_size": 96, "num_attention_heads": 6,
        **dict.fromkeys(("head_dim", "num_key_value_heads", "intermediate_size"), ABSENT),
    }),
    "mpt": ("mpt", {
        **TIED, **dict.fromkeys(("head_dim", "num_key_value_heads", "intermediate_size", "hidden_size"), ABSENT),
        "d_model": 96, "n_layers": 2, "n_heads": 6, "max_seq_len": 512, "attn_config": {"clip_qkv": 2.0},
    }),
    "chameleon of norms behind": ("chameleon", {
        "head_dim": ABSENT, "swin_norm": True, "vocabulary_map": {"<image>": 130},
    }),
    "minicpm3": ("minicpm3", {**LATENT, "head_dim": ABSENT, "v_head_dim": 16}),
}  # fmt: skip
MADE |= WITH_MIXERS | WITH_INDEXERS
if "qwen3_5_text" in VERIFIED:  # layers with a state can hold trees
    MADE |= WITH_STATES
ALL_HEADS = {"num_key_value_heads": 4}
UNSCALED = {
    "attention_multiplier": 0.25, "embedding_multiplier": 1.0, "residual_multiplier": 1.0, "logits_scaling": 1.0
}  # fmt: skip
OTHER_NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2vl": ("qwen2", {}),
    "qwen3vl": ("qwen3", {}),
    "qwen3vlmoe": ("qwen3_moe", {"norm_topk_prob": True}),
    "mistral3": ("llama", {}),
    "internlm2": ("llama", {}),
    "exaone": ("llama", {}),
    "minicpm": ("granite", {"attention_multiplier": 0.25}),
    "xverse": ("llama", ALL_HEADS),
    "baichuan": ("llama", ALL_HEADS),
    "pangu-embedded": ("llama", {"attention_bias": True}),
    "paddleocr": ("llama", {}),
    "qwen": ("qwen2", {**ALL_HEADS, "tie_word_embeddings": False}),
    "orion": ("stablelm", {
        "use_qkv_bias": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
    }),
    "codeshell": ("starcoder2", {}),
    "hunyuan_vl": ("hunyuan dense", {
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10_000.0, "alpha": 50.0, "factor": 1.0},
    }),
    "maincoder": ("hunyuan dense", {}),
    "bailingmoe": ("granitemoeshared", {**UNSCALED, "shared_intermediate_size": 192}),
    "bailingmoe2": ("glm4_moe", {"n_group": 2, "attention_bias": False, "num_mtp_layers": 0}),
    "deepseek": ("deepseek ocr", {}),
}  # fmt: skip
"""By the name that llama.cpp has for it: a network that it is like, and what is its own."""


def make(case: str, **overrides: Any) -> Any:
    """A random model of few layers; none of its norms, biases and scales is what a new one has."""
    kind, own = {**MADE, **WITH_STATES}[case]
    said = {key: value for key, value in {**TWO, **own, **overrides}.items() if value is not ABSENT}
    return unlike_new(random_model(transformers.CONFIG_MAPPING[kind](**said)))
