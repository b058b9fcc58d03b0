"""Tiny random transformers models of every family, with windows narrow enough to cut through a tree."""

from pathlib import Path
from typing import Any

import torch
import transformers

from engine.model.architecture import attention_implementation
from engine.model.families.text_backbone import network_class
from engine.model.network import Network, wrap
from tests.campaigns.extent import choose
from tests.engine.made_once import copy_made_once

VOCABULARY = 131
WINDOW = 7
MIXED = ["sliding_attention", "full_attention"] * 2

BASE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
HEAD = {"head_dim": 16}
DELTA = {
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", HEAD),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", HEAD),
    "qwen3_mixed": (
        "Qwen3Config",
        {**HEAD, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2},
    ),
    "mistral_sliding": ("MistralConfig", {**HEAD, "sliding_window": WINDOW}),
    "gemma2": ("Gemma2Config", {**HEAD, "sliding_window": WINDOW, "query_pre_attn_scalar": 16}),
    "gemma3": (
        "Gemma3TextConfig",
        {**HEAD, "sliding_window": WINDOW, "query_pre_attn_scalar": 16, "layer_types": MIXED},
    ),
    "phi3": ("Phi3Config", {}),
    "gpt_oss": (
        "GptOssConfig",
        {**HEAD, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": WINDOW, "layer_types": MIXED},
    ),
    "mixtral": ("MixtralConfig", {**HEAD, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "qwen3_moe": ("Qwen3MoeConfig", {**HEAD, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}),
    "olmo2": ("Olmo2Config", {}),
    "qwen3_5": ("Qwen3_5TextConfig", {**HEAD, **DELTA, "layer_types": ["linear_attention", "full_attention"] * 2}),
}

MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "phimoe": ("PhimoeConfig", {"num_local_experts": 4, "attention_bias": True, "lm_head_bias": True}),
    "glm4_moe": (
        "Glm4MoeConfig",
        {
            **HEAD, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
            "n_shared_experts": 1, "first_k_dense_replace": 1, "moe_intermediate_size": 48, "use_qk_norm": True,
        },
    ),
}  # fmt: skip
"""For single tests, which name them."""

SOME = choose(("llama", "gemma3", "qwen3_moe", "gpt_oss"), tuple(FAMILIES))
"""Where a test of all takes seconds. One of each kind: dense, sliding layers and scaled embeddings, experts, and fused
experts with sinks."""


def tiny_config(family: str, **overrides: Any) -> Any:
    """The config of a tiny model of this family."""
    config_class, extra = {**FAMILIES, **MORE}[family]
    return getattr(transformers, config_class)(**{**BASE, **extra, **overrides})


def tiny_model(family: str, seed: int = 0, dtype: torch.dtype = torch.float32, **overrides: Any) -> Any:
    """A random model whose logits are spread enough that its greedy text is no constant."""
    return random_model(tiny_config(family, **overrides), seed, dtype)


def random_model(config: Any, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    """A model of this config whose logits are spread enough that its greedy text is no constant."""
    known = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING
    pretraining = transformers.MODEL_FOR_PRETRAINING_MAPPING
    model_class = known.get(type(config), None) or network_class(config) or pretraining[type(config)]
    attention = attention_implementation(config, model_class)
    torch.manual_seed(seed)
    model = model_class._from_config(config, attn_implementation=attention, dtype=dtype).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                parameter.normal_(0, 0.25)
            elif "sinks" in name:
                parameter.normal_(0, 1.0)
    return model.requires_grad_(False)


@torch.no_grad()
def unlike_new(model: Any) -> Any:
    """The model with none of its norms, biases and scales as a new one has them: ones and zeros would hide mistakes."""
    random = torch.Generator().manual_seed(1)
    for name, weight in model.state_dict().items():
        if weight.is_floating_point() and (weight.ndim == 1 or name.endswith(("bias", "layernorm.weight"))):
            weight.add_(torch.randn(weight.shape, generator=random), alpha=0.1)
        elif name.endswith("tid2eid"):  # which experts a token passes
            weight.copy_(torch.rand(len(weight), 4, generator=random).argsort()[:, : weight.shape[1]])
    return model


def tiny_network(family: str, seed: int = 0, dtype: torch.dtype = torch.float32, **overrides: Any) -> Network:
    """`tiny_model`, wrapped for a `Context`."""
    model = tiny_model(family, seed, dtype, **overrides)
    return wrap(model, model.config._attn_implementation, family)


def save_tiny_model(
    family: str, folder: Path, dtype: torch.dtype = torch.float32, shard_size: str = "1GB", **overrides: Any
) -> None:
    """What `tiny_model(family, 0, dtype, **overrides).save_pretrained(folder)` writes, made once for all tests."""
    copy_made_once(
        ("tiny", family, dtype, shard_size, sorted(overrides.items())),
        lambda made: tiny_model(family, 0, dtype, **overrides).save_pretrained(made, max_shard_size=shard_size),
        folder,
    )
