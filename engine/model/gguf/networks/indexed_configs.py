"""What config.json says of networks that choose or compress what they attend to, from a GGUF file's metadata."""

from typing import cast

from engine.model.gguf.header import GgufHeader
from engine.model.gguf.networks.dense_configs import Config
from engine.model.gguf.networks.mixture_configs import SIGMOID, expert_count, kinds_of_mlp, latent, sigmoid_routed
from engine.model.gguf.networks.state_configs import attention_kinds
from engine.model.gguf.settings import SLIDING_BASE, Settings, shortest
from engine.model.gguf.windows import FULL, LINEAR, SLIDING, windows

SQRT_SOFTPLUS = 4  # as llama.cpp numbers what makes DeepSeek V4's probabilities of scores
RATIOS, INDEXER_TYPES = "attention.compress_ratios", "attention.indexer.types"
BY_RATIO = {0: SLIDING, 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
INDEXED, BLOCKS = "indexed_attention", "minimax_m3_sparse"


def _layers(config: Config) -> int:
    layers = config["num_hidden_layers"]
    assert isinstance(layers, int)
    return layers


def _indexer(settings: Settings) -> Config:
    return {
        "index_topk": settings.whole("attention.indexer.top_k"),
        "index_head_dim": settings.whole("attention.indexer.key_length"),
        "index_n_heads": settings.whole("attention.indexer.head_count"),
    }


def _indexer_types(header: GgufHeader, settings: Settings, layers: int) -> list[str]:
    """Of every layer, whether it chooses by itself, or attends to what an earlier one's indexer chose."""
    said = settings.several(INDEXER_TYPES)
    own = [f"blk.{index}.indexer.attn_k.weight" in header.tensors for index in range(layers)]
    if said and len(said) < layers:
        raise settings.refused(INDEXER_TYPES)
    return ["full" if is_own else "shared" for is_own in (said[:layers] or own)]


def _limit(settings: Settings, layers: int, key: str, same: str = "") -> float:
    """What activations are held to in all layers, which the file has to say; if it says `same`, too, as the same."""
    limits: list[float] = []
    for each in (key, same) if same and settings.has(same) else (key,):
        said = settings.several(each)[:layers] or (settings.real(each),) * layers
        limits += [shortest(limit) for limit in said if isinstance(limit, float) and limit > 0]
        if len(said) < layers or len(limits) % layers or len({*limits}) != 1:
            raise settings.refused(each)
    return limits[0]


def _require(settings: Settings, key: str, is_fine: bool) -> None:
    if not is_fine:
        raise settings.refused(key)


def _indexed(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """DeepSeek V3.2 and GLM 5."""
    return {
        **latent(settings),
        **sigmoid_routed(settings),
        **_indexer(settings),
        "indexer_types": _indexer_types(header, settings, _layers(config)),
    }


def _deepseek4(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Layers see a window, and behind it the past in groups of 4 tokens, of which some are chosen, or of 128."""
    layers, ratios, rope = _layers(config), settings.several(RATIOS), config["rope_parameters"]
    assert isinstance(rope, dict)
    kinds = [BY_RATIO.get(ratio) for ratio in ratios[:layers] if type(ratio) is int]
    hashed = settings.whole("hash_layer_count")
    _require(settings, RATIOS, len(kinds) == layers and None not in kinds)
    _require(settings, "hash_layer_count", hashed <= layers)
    _require(settings, "expert_gating_func", settings.whole("expert_gating_func", SQRT_SOFTPLUS) in (0, SQRT_SOFTPLUS))
    _require(settings, "expert_weights_norm", settings.flag("expert_weights_norm", default=True))  # its network does
    _require(settings, "expert_shared_count", settings.whole("expert_shared_count") == 1)
    part = {"partial_rotary_factor": rope.get("partial_rotary_factor", 1.0)}
    compressed = {**rope, **part, "rope_theta": settings.real("attention.compress_rope_freq_base")}
    if rope["rope_type"] == "yarn":
        compressed["attention_factor"] = 1.0
    return {
        **_indexer(settings),
        "layer_types": kinds,
        "mlp_layer_types": ["hash_moe"] * hashed + ["moe"] * (layers - hashed),
        "rope_parameters": {
            "main": {"rope_type": "default", "rope_theta": rope["rope_theta"], **part},
            "compress": compressed,
        },
        **part,
        "sliding_window": settings.whole("attention.sliding_window"),
        "q_lora_rank": settings.whole("attention.q_lora_rank"),
        "o_lora_rank": settings.whole("attention.output_lora_rank"),
        "o_groups": settings.whole("attention.output_group_count"),
        **_streams(settings),
        "hc_sinkhorn_iters": settings.whole("hyper_connection.sinkhorn_iterations"),
        "n_routed_experts": expert_count(settings),
        "n_shared_experts": 1,
        "num_experts_per_tok": settings.whole("expert_used_count"),
        # Both names are of one number, and the file may say none for layers without experts, as there are none.
        **dict.fromkeys(("intermediate_size", "moe_intermediate_size"), settings.whole("expert_feed_forward_length")),
        "routed_scaling_factor": settings.real("expert_weights_scale", 0.0) or 1.0,
        "scoring_func": "sqrtsoftplus",
        "swiglu_limit": _limit(settings, layers, "swiglu_clamp_exp", "swiglu_clamp_shexp"),
    }


def _streams(settings: Settings) -> Config:
    return {
        "hc_mult": settings.whole("hyper_connection.count"),
        "hc_eps": settings.real("hyper_connection.epsilon"),
    }


def _minimax_m3(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Layers with an indexer attend to the blocks of the past that it chooses; what holds activations is in no file."""
    layers, width = _layers(config), settings.whole("expert_feed_forward_length")
    chooses = [f"blk.{index}.indexer.q_proj.weight" in header.tensors for index in range(layers)]
    if not any(chooses):  # the first files left them out, and what sees everything is no longer the same network
        raise settings.without("indexer.q_proj")
    dense = next((tensor for name, tensor in header.tensors.items() if name.endswith(".ffn_gate.weight")), None)
    _require(settings, "expert_gating_func", settings.whole("expert_gating_func", SIGMOID) in (0, SIGMOID))
    _require(settings, "expert_weights_norm", settings.flag("expert_weights_norm", default=True))  # its network does
    return {
        "layer_types": [BLOCKS if is_own else FULL for is_own in chooses],
        "mlp_layer_types": kinds_of_mlp(header, config),
        "num_local_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "routed_scaling_factor": settings.real("expert_weights_scale", 0.0) or 1.0,
        "intermediate_size": width,
        "shared_intermediate_size": width * settings.whole("expert_shared_count"),
        "dense_intermediate_size": dense.shape[0] if dense else config["intermediate_size"],
        "rotary_dim": settings.whole("rope.dimension_count"),
        "index_n_heads": settings.whole("attention.indexer.head_count"),
        "index_head_dim": settings.whole("attention.indexer.key_length"),
        "index_topk_blocks": settings.whole("attention.indexer.top_k"),
        "index_block_size": settings.whole("attention.indexer.block_size"),
        "index_local_blocks": settings.whole("attention.indexer.local_blocks"),
    }


def _glm5_next(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Layers with a state are those of Kimi Linear; others attend to what an indexer chooses by pools of tokens."""
    layers, dense = _layers(config), settings.whole("leading_dense_block_count", 0)
    kinds = attention_kinds(settings, LINEAR)["layer_types"]
    assert isinstance(kinds, list)
    _require(settings, "rope.dimension_count", not settings.whole("rope.dimension_count", 0))
    return {
        **sigmoid_routed(settings),
        **_indexer(settings),
        **_streams(settings),
        "hc_sinkhorn_iters": settings.whole("hyper_connection.sinkhorn_iterations"),
        "layer_types": [INDEXED if kind == FULL else kind for kind in kinds],
        "indexer_types": _indexer_types(header, settings, layers) if settings.has(INDEXER_TYPES) else ["full"] * layers,
        "mlp_layer_types": ["dense" if index < dense else "sparse" for index in range(layers)],
        "intermediate_size": settings.whole("feed_forward_length"),
        "num_key_value_heads": config["num_attention_heads"],
        "kv_lora_rank": settings.whole("attention.kv_lora_rank"),
        "q_lora_rank": settings.whole("attention.q_lora_rank"),
        "qk_rope_head_dim": 0,
        "qk_nope_head_dim": settings.whole("attention.key_length_mla"),
        "v_head_dim": settings.whole("attention.value_length_mla"),
        "linear_head_dim": settings.whole("kda.head_dim"),
        "linear_num_heads": config["num_attention_heads"],
        "linear_conv_kernel_dim": settings.whole("ssm.conv_kernel"),
        "linear_lower_bound": settings.real("kda.gate_lower_bound") if settings.has("kda.gate_lower_bound") else None,
        "index_kpool": settings.whole("attention.indexer.kpool"),
        "index_kpool_always_select_tail": settings.flag("attention.indexer.kpool_select_tail", default=True),
        "swiglu_limit": _limit(settings, layers, "swiglu_clamp_exp", "swiglu_clamp_shexp"),
        "attention_bias": False,
    }


def _hy_v4(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """DeepSeek V3.2 with streams, gates behind attention, and a limit for the experts that are chosen."""
    layers = _layers(config)
    return {
        **_indexed(header, settings, config),
        **_streams(settings),
        "hc_magnitude": settings.real("hyper_connection.magnitude"),
        "layer_types": [INDEXED] * layers,
        "mlp_layer_types": kinds_of_mlp(header, config),
        "num_key_value_heads": config["num_attention_heads"],
        "swiglu_limit": _limit(settings, layers, "swiglu_clamp_exp"),
    }


def _dots3_note(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Layers with a window have heads and latents of their own sizes; only the others choose what they attend to."""
    layers, kinds, turned = _layers(config), windows(settings, 1), settings.whole("rope.dimension_count")
    slides = [kind == SLIDING for kind in cast(list[str], kinds["layer_types"])]
    said, heads = settings.several(INDEXER_TYPES), settings.several("attention.head_count")
    _require(settings, INDEXER_TYPES, not said or [not chooses for chooses in said[:layers]] == slides)
    own: set[object] = {count for count, is_own in zip(heads, slides, strict=False) if is_own}
    own = own or {config["num_attention_heads"]}
    _require(settings, "attention.head_count", len(heads) >= layers and len(own) == 1)
    full = latent(settings)
    keys = {key: settings.whole(f"attention.key_length_{key}") for key in ("mla", "mla_swa")}
    _require(settings, "attention.key_length_mla_swa", keys["mla_swa"] > turned)
    sizes = {
        **dict.fromkeys(("num_attention_heads", "num_key_value_heads"), own.pop()),
        "q_lora_rank": full["q_lora_rank"],
        "kv_lora_rank": settings.whole("attention.kv_lora_rank_swa"),
        "head_dim": keys["mla_swa"],
        "qk_nope_head_dim": keys["mla_swa"] - turned,
        "qk_rope_head_dim": turned,
        "v_head_dim": settings.whole("attention.value_length_mla_swa"),
    }
    rope = {
        SLIDING: {"rope_type": "default", "rope_theta": settings.real(SLIDING_BASE)},
        INDEXED: config["rope_parameters"],
    }
    names = [SLIDING if is_own else INDEXED for is_own in slides]
    return {
        **full,
        **sigmoid_routed(settings),
        **_indexer(settings),
        **{f"swa_{name}": size for name, size in sizes.items()},
        "head_dim": keys["mla"],
        "sliding_window": kinds["sliding_window"],
        "layer_types": names,
        "rope_parameters": {kind: rope[kind] for kind in {*names}},
        "mlp_layer_types": kinds_of_mlp(header, config),
        "shared_experts_intermediate_size": settings.whole("expert_feed_forward_length"),
    }


INDEXED_CONFIGS = {
    "dots3note": _dots3_note,
    "deepseek32": _indexed,
    "glm-dsa": _indexed,
    "deepseek4": _deepseek4,
    "minimax-m3": _minimax_m3,
    "glm5-next": _glm5_next,
    "hy_v4": _hy_v4,
}
"""By `general.architecture`."""
