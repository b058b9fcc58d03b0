"""What config.json says of mixtures of experts alone, from a GGUF file's metadata."""

from engine.model.gguf.dense_configs import Config, granite_scales, qwen35
from engine.model.gguf.header import GgufHeader
from engine.model.gguf.settings import Settings
from engine.model.gguf.windows import FULL, windows

SOFTMAX, SIGMOID = 1, 2  # as `gguf.ExpertGatingFuncType` numbers what makes probabilities of scores
# GLM-4.7-Flash, whose first files do not say what makes its probabilities: its layers, and its vocabulary.
GLM_FLASH_LAYERS, GLM_FLASH_VOCABULARY = (47, 48), 154_880
LLAMA4_CHUNK = 8192  # tokens that its layers see; in no file
LLAMA4_WITHOUT_NORM = 128  # experts of the one that does not norm queries and keys


def _experts(settings: Settings) -> int:
    count = settings.whole("expert_count")
    if not count:
        raise settings.refused("expert_count")
    return count


def _llama(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    """Mixtral is written as a Llama with experts."""
    if not settings.whole("expert_count", 0):
        return {}
    return {
        "model_type": "mixtral",
        "num_local_experts": _experts(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
    }


def _llama4(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    if settings.has("attention.sliding_window"):  # files without chunks say 0
        raise settings.refused("attention.sliding_window")
    return {
        "num_local_experts": _experts(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "intermediate_size_mlp": config["intermediate_size"],
        "intermediate_size": settings.whole("expert_feed_forward_length"),
        "interleave_moe_layer_step": settings.whole("interleave_moe_layer_step"),
        "attention_chunk_size": LLAMA4_CHUNK,
        "use_qk_norm": settings.whole("expert_count") != LLAMA4_WITHOUT_NORM,
    }


def _qwen_moe(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    own: Config = {
        "num_experts": _experts(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "norm_topk_prob": config["model_type"] == "qwen3_moe",  # neither is said in the file
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }
    if config["model_type"] == "qwen2_moe":
        own["shared_expert_intermediate_size"] = settings.whole("expert_shared_feed_forward_length")
    return own


def _qwen35_moe(header: GgufHeader, settings: Settings, config: Config) -> Config:
    return {
        **qwen35(header, settings, config),
        "num_experts": _experts(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "shared_expert_intermediate_size": settings.whole("expert_shared_feed_forward_length"),
    }


def _qwen3_next(header: GgufHeader, settings: Settings, config: Config) -> Config:
    return {
        **_qwen35_moe(header, settings, config),
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _gpt_oss(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    return {
        "num_local_experts": _experts(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "intermediate_size": settings.whole("expert_feed_forward_length", settings.whole("feed_forward_length", 0)),
        **windows(settings, 2),
    }


def _routed(settings: Settings) -> Config:
    """What DeepSeek's mixtures and those after them have in common; without groups all experts are one."""
    return {
        "n_routed_experts": _experts(settings),
        "n_shared_experts": settings.whole("expert_shared_count"),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "first_k_dense_replace": settings.whole("leading_dense_block_count", 0),
        "n_group": settings.whole("expert_group_count", 0) or 1,
        "topk_group": settings.whole("expert_group_used_count", 0) or 1,
        "norm_topk_prob": settings.flag("expert_weights_norm"),
        "routed_scaling_factor": settings.real("expert_weights_scale", 0.0) or 1.0,
    }


def sigmoid_routed(settings: Settings) -> Config:
    if settings.whole("expert_gating_func", SIGMOID) not in (0, SIGMOID):
        raise settings.refused("expert_gating_func")
    return _routed(settings)


def _deepseek2(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    """V3 and what follows it choose experts by a sigmoid, V2 by a softmax, and Youtu has none."""
    turned = settings.whole("rope.dimension_count")
    keys = settings.whole("attention.key_length_mla", settings.whole("attention.key_length"))
    if keys <= turned:
        raise settings.refused("attention.key_length")
    own: Config = {
        "kv_lora_rank": settings.whole("attention.kv_lora_rank"),
        "q_lora_rank": settings.whole("attention.q_lora_rank", 0) or None,
        "qk_rope_head_dim": turned,
        "qk_nope_head_dim": keys - turned,
        "v_head_dim": settings.whole("attention.value_length_mla", settings.whole("attention.value_length")),
        "attention_bias": False,
    }
    if not settings.whole("expert_count", 0):
        return {**own, "first_k_dense_replace": config["num_hidden_layers"]}
    if _deepseek_gating(settings, config) == SIGMOID:
        return {**own, **_routed(settings)}
    routed = _routed(settings)
    method = "greedy" if routed["n_group"] == 1 else "group_limited_greedy"
    return {**own, **routed, "model_type": "deepseek_v2", "topk_method": method}


def _deepseek_gating(settings: Settings, config: Config) -> int:
    said = settings.whole("expert_gating_func", 0)
    if said not in (0, SOFTMAX, SIGMOID):
        raise settings.refused("expert_gating_func")
    is_flash = settings.whole("block_count") in GLM_FLASH_LAYERS and config["vocab_size"] == GLM_FLASH_VOCABULARY
    return said or (SIGMOID if is_flash else SOFTMAX)


def _glm4_moe(header: GgufHeader, settings: Settings, _config: Config) -> Config:
    return {**sigmoid_routed(settings), "use_qk_norm": "blk.0.attn_q_norm.weight" in header.tensors}


def _dots1(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    layers = config["num_hidden_layers"]
    assert isinstance(layers, int)
    return {**sigmoid_routed(settings), "sliding_window": None, "layer_types": [FULL] * layers}


def _minimax_m2(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    if settings.whole("expert_gating_func", SIGMOID) != SIGMOID:
        raise settings.refused("expert_gating_func")
    return {
        "num_local_experts": _experts(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "intermediate_size": settings.whole("expert_feed_forward_length"),
    }


def _ernie_moe(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    return {
        "moe_num_experts": _experts(settings),
        "moe_k": settings.whole("expert_used_count"),
        "moe_num_shared_experts": settings.whole("expert_shared_count", 0),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "moe_layer_start_index": settings.whole("leading_dense_block_count", 0),
        "moe_layer_interval": settings.whole("interleave_moe_layer_step", 1),
        "use_bias": config["attention_bias"],
    }


def _hunyuan_moe(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    return {
        "num_experts": _experts(settings),
        "moe_topk": settings.whole("expert_used_count"),
        "intermediate_size": settings.whole("expert_feed_forward_length"),
    }


def _granite_moe(header: GgufHeader, settings: Settings, config: Config) -> Config:
    own: Config = {
        **granite_scales(header, settings, config),
        "num_local_experts": _experts(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
    }
    if shared := settings.whole("expert_shared_feed_forward_length", 0):
        own |= {"model_type": "granitemoeshared", "shared_intermediate_size": shared}
    return own


def _olmoe(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    return {
        "num_experts": _experts(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "norm_topk_prob": False,
    }


MIXTURES = {
    "llama": _llama,
    "llama4": _llama4,
    "qwen2moe": _qwen_moe,
    "qwen3moe": _qwen_moe,
    "qwen3vlmoe": _qwen_moe,
    "qwen35moe": _qwen35_moe,
    "qwen3next": _qwen3_next,
    "gpt-oss": _gpt_oss,
    "deepseek2": _deepseek2,
    "glm4moe": _glm4_moe,
    "dots1": _dots1,
    "minimax-m2": _minimax_m2,
    "ernie4_5-moe": _ernie_moe,
    "hunyuan-moe": _hunyuan_moe,
    "granitemoe": _granite_moe,
    "olmoe": _olmoe,
}
"""By `general.architecture`."""
