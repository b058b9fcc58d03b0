"""What config.json says of mixtures of experts alone, from a GGUF file's metadata."""

from engine.model.gguf.header import GgufHeader
from engine.model.gguf.networks.dense_configs import FULL_INTERVAL, Config, granite_scales, latent_sizes, qwen35
from engine.model.gguf.settings import Settings
from engine.model.gguf.windows import FULL, windows

SOFTMAX, SIGMOID = 1, 2  # as `gguf.ExpertGatingFuncType` numbers what makes probabilities of scores
# GLM-4.7-Flash, whose first files do not say what makes its probabilities: its layers, and its vocabulary.
GLM_FLASH_LAYERS, GLM_FLASH_VOCABULARY = (47, 48), 154_880
MIXED_BY_PHI = 2  # experts that its way to choose them is for
DBRX_EPSILON = 1e-5  # which its network has, whatever a config says


def expert_count(settings: Settings) -> int:
    """How many there are in every layer that has any; raises `ModelError` for none."""
    count = settings.whole("expert_count")
    if not count:
        raise settings.refused("expert_count")
    return count


def _qwen_moe(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    own: Config = {
        "num_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "norm_topk_prob": settings.flag(
            "norm_top_k_prob", config["model_type"] == "qwen3_moe"
        ),  # as Ollama's files say
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }
    if config["model_type"] == "qwen2_moe":
        own["shared_expert_intermediate_size"] = settings.whole("expert_shared_feed_forward_length")
    return own


def _qwen35_moe(header: GgufHeader, settings: Settings, config: Config) -> Config:
    return {
        **qwen35(header, settings, config),
        "num_experts": expert_count(settings),
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
        "num_local_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "intermediate_size": settings.whole("expert_feed_forward_length", settings.whole("feed_forward_length", 0)),
        **windows(settings, 2),
    }


def _routed(settings: Settings) -> Config:
    """What DeepSeek's mixtures and those after them have in common; without groups all experts are one."""
    return {
        "n_routed_experts": expert_count(settings),
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


def latent(settings: Settings) -> Config:
    """Attention of latent vectors; files may tell of heads as they are kept, and besides as they are."""
    keys = settings.whole("attention.key_length_mla", settings.whole("attention.key_length"))
    values = settings.whole("attention.value_length_mla", settings.whole("attention.value_length"))
    return {**latent_sizes(settings, keys, values), "attention_bias": False}


def _mistral4(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    rope = config["rope_parameters"]
    if not isinstance(rope, dict) or rope["rope_type"] != "yarn":
        raise settings.refused("rope.scaling.type")
    if settings.whole("expert_gating_func", SOFTMAX) not in (0, SOFTMAX):
        raise settings.refused("expert_gating_func")
    return {
        **latent(settings),
        **_routed(settings),
        "rope_parameters": {"llama_4_scaling_beta": 0.0, **rope},  # without it, scores are not scaled by positions
        "model_type": "mistral4",
    }


def _deepseek2(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """V3 and what follows it choose experts by a sigmoid, V2 by a softmax, and Youtu has none.

    One whose scores depend on positions is Mistral's.
    """
    if settings.real("attention.temperature_scale", 0.0):
        return _mistral4(header, settings, config)
    own = latent(settings)
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
        "num_local_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "intermediate_size": settings.whole("expert_feed_forward_length"),
    }


def _ernie_moe(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    return {
        "moe_num_experts": expert_count(settings),
        "moe_k": settings.whole("expert_used_count"),
        "moe_num_shared_experts": settings.whole("expert_shared_count", 0),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "moe_layer_start_index": settings.whole("leading_dense_block_count", 0),
        "moe_layer_interval": settings.whole("interleave_moe_layer_step", 1),
        "use_bias": config["attention_bias"],
    }


def _hunyuan_moe(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    return {
        "num_experts": expert_count(settings),
        "moe_topk": settings.whole("expert_used_count"),
        "intermediate_size": settings.whole("expert_feed_forward_length"),
    }


def _granite_moe(header: GgufHeader, settings: Settings, config: Config) -> Config:
    own: Config = {
        **granite_scales(header, settings, config),
        "num_local_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
    }
    if shared := settings.whole("expert_shared_feed_forward_length", 0):
        own |= {"model_type": "granitemoeshared", "shared_intermediate_size": shared}
    return own


def _bailing_moe(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    """The first Ling: a Granite that multiplies with nothing."""
    head_dim, width = config["head_dim"], settings.whole("expert_feed_forward_length")
    assert isinstance(head_dim, int)
    if settings.whole("leading_dense_block_count", 0):
        raise settings.refused("leading_dense_block_count")
    if not settings.flag("expert_weights_norm"):  # its network always does
        raise settings.refused("expert_weights_norm")
    return {
        "attention_multiplier": head_dim**-0.5,
        "embedding_multiplier": 1.0,
        "residual_multiplier": 1.0,
        "logits_scaling": 1.0,
        "num_local_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "intermediate_size": width,
        "shared_intermediate_size": width * settings.whole("expert_shared_count"),
    }


def _deepseek(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """The first DeepSeek, and that of DeepSeek OCR: experts of V2, and attention as usual."""
    if settings.whole("expert_gating_func", SOFTMAX) not in (0, SOFTMAX):
        raise settings.refused("expert_gating_func")
    if settings.flag("expert_weights_norm"):  # its network never does
        raise settings.refused("expert_weights_norm")
    if settings.whole("expert_group_count", 0) > 1:
        raise settings.refused("expert_group_count")
    return {
        **_routed(settings),
        "topk_method": "greedy",
        "mlp_layer_types": kinds_of_mlp(header, config),
    }


def _olmoe(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    return {
        "num_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "norm_topk_prob": False,
    }


def _behind_dense(settings: Settings, config: Config) -> Config:
    """What mixtures have in common whose first layers are dense, and whose experts a sigmoid chooses."""
    layers, dense = config["num_hidden_layers"], settings.whole("leading_dense_block_count", 0)
    assert isinstance(layers, int)
    if settings.whole("expert_gating_func", SIGMOID) not in (0, SIGMOID):
        raise settings.refused("expert_gating_func")
    return {
        "num_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "num_shared_experts": settings.whole("expert_shared_count", 0),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "norm_topk_prob": settings.flag("expert_weights_norm"),
        "mlp_layer_types": ["dense" if index < dense else "sparse" for index in range(layers)],
        **windows(settings, FULL_INTERVAL),
    }


def _exaone_moe(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    scale = settings.real("expert_weights_scale", 0.0) or 1.0
    return {**_behind_dense(settings, config), "routed_scaling_factor": scale, "n_group": 1, "topk_group": 1}


def _afmoe(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    found = _behind_dense(settings, config)
    if not found["norm_topk_prob"]:  # its network always does
        raise settings.refused("expert_weights_norm")
    return {
        **found,
        "num_dense_layers": settings.whole("leading_dense_block_count", 0),
        "route_scale": settings.real("expert_weights_scale", 0.0) or 1.0,
        "mup_enabled": True,
    }


def _cohere2_moe(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    return {
        **_behind_dense(settings, config),
        "intermediate_size": settings.whole("expert_feed_forward_length"),
        "prefix_dense_intermediate_size": config["intermediate_size"],
        "expert_selection_fn": "sigmoid",
        "logit_scale": settings.real("logit_scale"),
    }


def kinds_of_mlp(header: GgufHeader, config: Config) -> list[str]:
    """Whether layers have experts, as their weights tell."""
    layers = config["num_hidden_layers"]
    assert isinstance(layers, int)
    return ["sparse" if f"blk.{index}.ffn_gate_inp.weight" in header.tensors else "dense" for index in range(layers)]


def _hy_v3(header: GgufHeader, settings: Settings, config: Config) -> Config:
    width = settings.whole("expert_feed_forward_length")
    if not width or not settings.flag("expert_weights_norm", default=True):  # its network always does
        raise settings.refused("expert_weights_norm" if width else "expert_feed_forward_length")
    return {
        "num_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "num_shared_experts": settings.whole("expert_shared_feed_forward_length") // width,
        "moe_intermediate_size": width,
        "router_scaling_factor": settings.real("expert_weights_scale", 0.0) or 1.0,
        "mlp_layer_types": kinds_of_mlp(header, config),
    }


def _mimo2(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Layers with a window have twice the heads of keys and values that others have."""
    kinds = windows(settings, 6)
    layer_types, heads = kinds["layer_types"], settings.several("attention.head_count_kv")
    assert isinstance(layer_types, list)
    twice = {int(count) * (1 + (kind == FULL)) for count, kind in zip(heads, layer_types, strict=False)}
    if len(heads) < len(layer_types) or len(twice) != 1 or max(twice) < 2 or max(twice) % 2:
        raise settings.refused("attention.head_count_kv")
    return {
        **kinds,
        "num_key_value_heads": twice.pop() // 2,
        "intermediate_size": settings.whole("feed_forward_length"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "n_routed_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "norm_topk_prob": True,
        "routed_scaling_factor": settings.real("expert_weights_scale", 0.0) or 1.0,
        "attention_value_scale": settings.real("attention.value_scale", 0.0) or None,
        "mlp_layer_types": kinds_of_mlp(header, config),
    }


def _mellum(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    layers = config["num_hidden_layers"]
    assert isinstance(layers, int)
    own: Config = {
        "num_local_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "norm_topk_prob": True,
        "layer_types": [FULL] * layers,
    }
    return own | windows(settings, FULL_INTERVAL) if settings.has("attention.sliding_window") else own


def _step35(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Layers with a window have heads of their own number; what activations are held to differs by layer."""
    kinds, said = windows(settings, FULL_INTERVAL), settings.several("attention.head_count")
    layer_types, layers = kinds["layer_types"], config["num_hidden_layers"]
    assert isinstance(layer_types, list)
    assert isinstance(layers, int)
    sliding = {count for count, kind in zip(said, layer_types, strict=False) if kind != FULL}
    if len(sliding) > 1 or len(said) < layers:
        raise settings.refused("attention.head_count")
    if settings.whole("expert_gating_func", SIGMOID) not in (0, SIGMOID):
        raise settings.refused("expert_gating_func")
    if not settings.flag("expert_weights_norm"):  # its network always does
        raise settings.refused("expert_weights_norm")
    own: Config = {
        **kinds,
        "pad_token_id": config["pad_token_id"] or 0,  # it has to be a number
        "num_sliding_attention_heads": sliding.pop() if sliding else config["num_attention_heads"],
        "n_routed_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "share_expert_dim": settings.whole("expert_shared_feed_forward_length"),
        "moe_router_scaling_factor": settings.real("expert_weights_scale", 0.0) or 1.0,
        "mlp_layer_types": kinds_of_mlp(header, config),
    }
    for entry, key in (("swiglu_clamp_exp", "swiglu_limits"), ("swiglu_clamp_shexp", "swiglu_limits_shared")):
        limits = settings.several(entry)
        if limits and len(limits) < layers:
            raise settings.refused(entry)
        own[key] = list(limits[:layers]) or None
    return own


def _laguna(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Every layer has heads of its own number; what attention gives passes a gate for each head, or for each number."""
    layers, said, gate = config["num_hidden_layers"], settings.several("attention.head_count"), "blk.0.attn_gate.weight"
    assert isinstance(layers, int)
    if len(said) < layers or gate not in header.tensors:
        raise settings.refused("attention.head_count")
    if settings.whole("expert_gating_func", SIGMOID) not in (0, SIGMOID):
        raise settings.refused("expert_gating_func")
    if not settings.flag("expert_weights_norm"):  # its network always does
        raise settings.refused("expert_weights_norm")
    kinds: Config = {"layer_types": [FULL] * layers}
    if settings.whole("attention.sliding_window", 0):
        kinds = windows(settings, FULL_INTERVAL, first=0)
    return {
        **kinds,
        "num_attention_heads_per_layer": list(said[:layers]),
        "gating": True if header.tensors[gate].shape[0] == said[0] else "per-element",
        "num_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "shared_expert_intermediate_size": settings.whole("expert_shared_feed_forward_length"),
        "moe_routed_scaling_factor": settings.real("expert_weights_scale", 0.0) or 1.0,
        "mlp_layer_types": kinds_of_mlp(header, config),
    }


def _phimoe(header: GgufHeader, settings: Settings, _config: Config) -> Config:
    if settings.whole("expert_used_count") != MIXED_BY_PHI:
        raise settings.refused("expert_used_count")
    return {
        "num_local_experts": expert_count(settings),
        "num_experts_per_tok": MIXED_BY_PHI,
        "sliding_window": settings.whole("attention.sliding_window", 0) or None,
        "lm_head_bias": "output.bias" in header.tensors,
    }


def _dbrx(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    if config["layer_norm_eps"] != DBRX_EPSILON:
        raise settings.refused("attention.layer_norm_epsilon")
    return {
        "d_model": config["hidden_size"],
        "attn_config": {
            "kv_n_heads": config["num_key_value_heads"],
            "clip_qkv": settings.real("attention.clamp_kqv", 0.0) or None,
            "rope_theta": settings.real("rope.freq_base", 10_000.0),
        },
        "ffn_config": {
            "ffn_hidden_size": settings.whole("feed_forward_length"),
            "moe_num_experts": expert_count(settings),
            "moe_top_k": settings.whole("expert_used_count"),
        },
    }


MIXTURES = {
    "qwen2moe": _qwen_moe,
    "qwen3moe": _qwen_moe,
    "qwen3vlmoe": _qwen_moe,
    "qwen35moe": _qwen35_moe,
    "qwen3next": _qwen3_next,
    "gpt-oss": _gpt_oss,
    "deepseek2": _deepseek2,
    "glm4moe": _glm4_moe,
    "dots1": _dots1,
    "bailingmoe": _bailing_moe,
    "bailingmoe2": _glm4_moe,
    "deepseek": _deepseek,
    "deepseek2-ocr": _deepseek,
    "minimax-m2": _minimax_m2,
    "ernie4_5-moe": _ernie_moe,
    "hunyuan-moe": _hunyuan_moe,
    "granitemoe": _granite_moe,
    "olmoe": _olmoe,
    "exaone-moe": _exaone_moe,
    "afmoe": _afmoe,
    "cohere2moe": _cohere2_moe,
    "mellum": _mellum,
    "step35": _step35,
    "phimoe": _phimoe,
    "dbrx": _dbrx,
    "laguna": _laguna,
    "hy_v3": _hy_v3,
    "mimo2": _mimo2,
    "mistral4": _mistral4,
}
"""By `general.architecture`."""
