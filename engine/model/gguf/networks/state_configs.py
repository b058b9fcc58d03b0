"""What config.json says of networks with Mamba, short convolutions and other states alone, from a GGUF file's metadata.

Layers that keep a state have no key-value heads.
"""

from dataclasses import dataclass

from engine.model.gguf.header import GgufHeader
from engine.model.gguf.networks.dense_configs import Config, granite_scales, qwen35
from engine.model.gguf.networks.mixture_configs import SIGMOID, sigmoid_routed
from engine.model.gguf.settings import Settings, predicting_layers
from engine.model.gguf.windows import FULL, LINEAR

CONVOLUTION = "conv"
RATIOS = "attention.compress_ratios"
NGRAMS = "per_layer_token_embd.weight"
MINIMAX_INTERVAL = 8  # layers of MiniMax of which one attends, if the file says no more
# Of Nemotron: NVIDIA's kernels and llama.cpp do not bound it from below, transformers does, by a number above 0.
LEAST_STEP = 1e-30


def _each(settings: Settings, key: str) -> list[int]:
    """A whole number for every layer of the language model."""
    count = settings.whole("block_count") - predicting_layers(settings)
    said = settings.several(key) or (settings.whole(key),) * count
    found = [number for number in said[:count] if type(number) is int and number >= 0]
    if len(found) < count:
        raise settings.refused(key)
    return found


def attention_kinds(settings: Settings, otherwise: str) -> Config:
    """Which layers have attention, and with how many key-value heads."""
    heads = _each(settings, "attention.head_count_kv")
    distinct = {*heads} - {0}
    if len(distinct) > 1:
        raise settings.refused("attention.head_count_kv")
    return {
        "num_key_value_heads": max(heads) or settings.whole("attention.head_count"),
        "layer_types": [FULL if count else otherwise for count in heads],
    }


@dataclass(frozen=True, slots=True)
class _Mamba2:
    """The heads of a Mamba 2 layer, the width of each, and its groups, numbers of state and reach of convolution."""

    heads: int
    width: int
    groups: int
    state: int
    reach: int


def _mamba2(settings: Settings) -> _Mamba2:
    heads, inner = settings.whole("ssm.time_step_rank"), settings.whole("ssm.inner_size")
    groups = settings.whole("ssm.group_count")
    if not heads or not groups or inner % heads or heads % groups:
        raise settings.refused("ssm.time_step_rank")
    return _Mamba2(
        heads, inner // heads, groups, settings.whole("ssm.state_size"), settings.whole("ssm.conv_kernel")
    )  # fmt: skip


def _expansion(settings: Settings) -> int:
    """How many times as wide as the network its layers of state are."""
    inner, width = settings.whole("ssm.inner_size"), settings.whole("embedding_length")
    if inner % width:
        raise settings.refused("ssm.inner_size")
    return inner // width


def _lfm2(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    return {
        **attention_kinds(settings, CONVOLUTION),
        "norm_eps": config["rms_norm_eps"],
        "conv_L_cache": settings.whole("shortconv.l_cache"),
        "intermediate_size": settings.whole("feed_forward_length"),
        "block_auto_adjust_ff_dim": False,  # it is adjusted
    }


def _lfm2_moe(header: GgufHeader, settings: Settings, config: Config) -> Config:
    if settings.whole("expert_gating_func", SIGMOID) != SIGMOID:
        raise settings.refused("expert_gating_func")
    return {
        **_lfm2(header, settings, config),
        "num_dense_layers": settings.whole("leading_dense_block_count", 0),
        "num_experts": settings.whole("expert_count"),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "use_expert_bias": header.has(".exp_probs_b.bias"),
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,
    }


def _of_mamba2(header: GgufHeader, settings: Settings) -> Config:
    """As config.json of Granite and Falcon says it."""
    mamba = _mamba2(settings)
    return {
        "mamba_n_heads": mamba.heads,
        "mamba_d_head": mamba.width,
        "mamba_n_groups": mamba.groups,
        "mamba_d_state": mamba.state,
        "mamba_d_conv": mamba.reach,
        "mamba_conv_bias": header.has(".ssm_conv1d.bias"),
        "mamba_proj_bias": header.has(".ssm_in.bias"),
    }


def _bamba(header: GgufHeader, settings: Settings, _config: Config) -> Config:
    """Half of a head turns, and nothing is multiplied with what Granite multiplies."""
    attention, base = attention_kinds(settings, LINEAR), settings.real("rope.freq_base", 10_000.0)
    kinds = attention["layer_types"]
    assert isinstance(kinds, list)
    for key in ("attention.scale", "embedding_scale", "residual_scale", "logit_scale", "expert_count"):
        if settings.real(key, 0.0):
            raise settings.refused(key)
    return {
        **_of_mamba2(header, settings),
        "num_key_value_heads": attention["num_key_value_heads"],
        "attn_layer_indices": [index for index, kind in enumerate(kinds) if kind == FULL],
        "rope_parameters": {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": 0.5},
        "mamba_expand": _expansion(settings),
        "intermediate_size": settings.whole("feed_forward_length"),
    }


def _granite(header: GgufHeader, settings: Settings, config: Config) -> Config:
    if config["model_type"] == "bamba":
        return _bamba(header, settings, config)
    width = settings.whole("feed_forward_length")
    return {
        **attention_kinds(settings, LINEAR),
        **_of_mamba2(header, settings),
        **granite_scales(header, settings, config, counts_positions=False),
        "position_embedding_type": None,
        "mamba_expand": _expansion(settings),
        "intermediate_size": width,
        "shared_intermediate_size": settings.whole("expert_shared_feed_forward_length", 0) or width,
        "num_local_experts": settings.whole("expert_count", 0),
        "num_experts_per_tok": settings.whole("expert_used_count", 0),
    }


def _nemotron(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Every layer is one of four kinds, and has nothing else beside it."""
    attention, widths, mamba = (
        attention_kinds(settings, LINEAR),
        _each(settings, "feed_forward_length"),
        _mamba2(settings),
    )
    kinds = attention["layer_types"]
    assert isinstance(kinds, list)
    for index, width in enumerate(widths):
        if width:
            kinds[index] = "moe" if f"blk.{index}.ffn_gate_inp.weight" in header.tensors else "mlp"
    return {
        **attention,
        "layers_block_type": kinds,
        "layer_norm_epsilon": config["rms_norm_eps"],
        "mamba_num_heads": mamba.heads,
        "mamba_head_dim": mamba.width,
        "n_groups": mamba.groups,
        "ssm_state_size": mamba.state,
        "conv_kernel": mamba.reach,
        "time_step_min": LEAST_STEP,
        "use_conv_bias": header.has(".ssm_conv1d.bias"),
        "mamba_proj_bias": header.has(".ssm_in.bias"),
        "intermediate_size": max(widths),
        **(_nemotron_experts(settings) if "moe" in kinds else {}),
    }


def _nemotron_experts(settings: Settings) -> Config:
    return {
        **sigmoid_routed(settings),
        "moe_shared_expert_intermediate_size": settings.whole("expert_shared_feed_forward_length"),
        "moe_latent_size": settings.whole("moe_latent_size", 0) or None,
    }


def _falcon_h1(header: GgufHeader, settings: Settings, _config: Config) -> Config:
    """The weights are multiplied already by what its config.json multiplies with."""
    return {
        **_of_mamba2(header, settings),
        "mamba_d_ssm": settings.whole("ssm.inner_size"),
        "mamba_rms_norm": header.has(".ssm_norm.weight"),
        "mamba_norm_before_gate": False,
    }


def _of_mamba(header: GgufHeader, settings: Settings) -> Config:
    """Of the first kind: every channel has decays of its own."""
    return {
        "state_size": settings.whole("ssm.state_size"),
        "conv_kernel": settings.whole("ssm.conv_kernel"),
        "time_step_rank": settings.whole("ssm.time_step_rank"),
        "expand": _expansion(settings),
        "use_conv_bias": header.has(".ssm_conv1d.bias"),
        "use_bias": header.has(".ssm_in.bias"),
    }


def _mamba(header: GgufHeader, settings: Settings, config: Config) -> Config:
    norms = {"model_type": "falcon_mamba"} if settings.flag("ssm.dt_b_c_rms") else {}
    return {**_of_mamba(header, settings), "layer_norm_epsilon": config["rms_norm_eps"], **norms}


def _mamba2_alone(header: GgufHeader, settings: Settings, config: Config) -> Config:
    mamba = _mamba2(settings)
    return {
        **_mamba(header, settings, config),
        "num_heads": mamba.heads,
        "head_dim": mamba.width,
        "n_groups": mamba.groups,
    }


def _jamba(header: GgufHeader, settings: Settings, _config: Config) -> Config:
    attention, mamba = attention_kinds(settings, LINEAR), _of_mamba(header, settings)
    kinds = attention["layer_types"]
    assert isinstance(kinds, list)
    routed_layers = [f"blk.{index}.ffn_gate_inp.weight" in header.tensors for index in range(len(kinds))]
    every, first = _period(settings, "attention.head_count_kv", [kind == FULL for kind in kinds])
    every_routed, first_routed = _period(settings, "expert_count", routed_layers)
    return {
        "num_key_value_heads": attention["num_key_value_heads"],
        "attn_layer_period": every,
        "attn_layer_offset": first,
        "expert_layer_period": every_routed,
        "expert_layer_offset": first_routed,
        "intermediate_size": settings.whole("feed_forward_length"),
        "num_experts": settings.whole("expert_count") if any(routed_layers) else 1,
        "num_experts_per_tok": settings.whole("expert_used_count") if any(routed_layers) else 1,
        "mamba_d_state": mamba["state_size"],
        "mamba_d_conv": mamba["conv_kernel"],
        "mamba_dt_rank": mamba["time_step_rank"],
        "mamba_expand": mamba["expand"],
        "mamba_conv_bias": mamba["use_conv_bias"],
        "mamba_proj_bias": mamba["use_bias"],
    }


def _period(settings: Settings, key: str, chosen: list[bool]) -> tuple[int, int]:
    """Every how many-th layer is one of these, from which on; refuses `key` where they stand otherwise."""
    places = [index for index, is_one in enumerate(chosen) if is_one]
    first = places[0] if places else len(chosen)
    every = places[1] - first if len(places) > 1 else len(chosen) + 1
    if places != list(range(first, len(chosen), every)) or first >= every:
        raise settings.refused(key)
    return every, first


def _kimi(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    attention, turned = attention_kinds(settings, LINEAR), settings.whole("rope.dimension_count")
    keys, dense = settings.whole("attention.key_length_mla"), settings.whole("leading_dense_block_count", 0)
    if keys <= turned:
        raise settings.refused("attention.key_length_mla")
    kinds = attention["layer_types"]
    assert isinstance(kinds, list)
    return {
        **sigmoid_routed(settings),
        "num_experts": settings.whole("expert_count"),
        "layer_types": kinds,
        "mlp_layer_types": ["dense" if index < dense else "sparse" for index in range(len(kinds))],
        "intermediate_size": settings.whole("feed_forward_length"),
        "norm_topk_prob": True,
        "kv_lora_rank": settings.whole("attention.kv_lora_rank"),
        "q_lora_rank": settings.whole("attention.q_lora_rank", 0) or None,
        "qk_rope_head_dim": turned,
        "qk_nope_head_dim": keys - turned,
        "v_head_dim": settings.whole("attention.value_length_mla"),
        "linear_head_dim": settings.whole("kda.head_dim"),
        "linear_num_heads": config["num_attention_heads"],
        "linear_conv_kernel_dim": settings.whole("ssm.conv_kernel"),
    }


def _qwen4(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """A Qwen 3.5 with several streams, indexed attention, and one layer that looks up n-grams."""
    own = qwen35(header, settings, config)
    kinds, ratios = own["layer_types"], settings.several(RATIOS)
    assert isinstance(kinds, list)
    indexed = {ratio for ratio, kind in zip(ratios, kinds, strict=False) if kind == FULL}
    if len(ratios) < len(kinds) or len(indexed) > 1 or 0 in indexed:
        raise settings.refused(RATIOS)
    return {
        **own,
        **_ngrams(header, settings),
        "hc_count": settings.whole("hyper_connection.count"),
        "hc_lowrank": settings.whole("hyper_connection.low_rank"),
        "indexer_n_heads": settings.whole("attention.indexer.head_count"),
        "indexer_kv_heads": 1,
        "indexer_head_dim": settings.whole("attention.indexer.key_length"),
        "indexer_budget": settings.whole("attention.indexer.top_k"),
        "indexer_compress_ratio": indexed.pop() if indexed else 1,
        "num_experts": settings.whole("expert_count"),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
        "shared_expert_intermediate_size": settings.whole("expert_shared_feed_forward_length"),
        "norm_topk_prob": True,
        "output_gate_type": "sigmoid",  # which no file says
    }


def _ngrams(header: GgufHeader, settings: Settings) -> Config:
    """Of the layer that looks them up; sizes of tables are primes that follow each other, and the first is said."""
    layers, sizes = settings.several("ple.layers"), settings.several("ple.head_vocab_sizes")
    table = header.tensors.get(NGRAMS)
    if not layers:
        return {}
    if len(layers) != 1 or not sizes or type(layers[0]) is not int or type(sizes[0]) is not int or table is None:
        raise settings.refused("ple.layers")
    rows, width = table.shape
    offsets = settings.several("ple.head_offsets")
    places = zip(offsets, sizes, strict=False)
    if len(offsets) != len(sizes) or not all(_is_within(begin, count, rows) for begin, count in places):
        raise settings.refused("ple.head_offsets")
    size, heads = settings.whole("ple.ngram_size"), settings.whole("ple.heads_per_ngram")
    return {
        "hashing_layer": layers[0],
        "ple_layer_ids": [layers[0] + 1],
        "ple_embed_dim": width * (size - 1) * heads,
        "ple_conv_kernel_size": settings.whole("ple.conv_kernel"),
        "ngram_size": size,
        "heads_per_ngram": heads,
        "ngram_vocab_size_base": sizes[0],
        "make_ngram_vocab_size_divisible_by": rows,
        "eos_token_id": settings.whole("ple.eos_token_id"),  # where n-grams begin anew
    }


def _is_within(begin: object, count: object, rows: int) -> bool:
    """Whether these are whole numbers, and so many rows lie behind the first ones of a table."""
    return type(begin) is int and type(count) is int and begin >= 0 and count > 0 and begin + count <= rows


def _bailing(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Ling 3, whose layers with a state are those of Kimi Linear with fewer matrices."""
    kinds, turned = attention_kinds(settings, LINEAR)["layer_types"], settings.whole("rope.dimension_count")
    keys, dense = settings.whole("attention.key_length_mla"), settings.whole("leading_dense_block_count", 0)
    assert isinstance(kinds, list)
    for key in ("swiglu_clamp_exp", "swiglu_clamp_shexp"):
        if any(settings.several(key)):
            raise settings.refused(key)
    if keys <= turned:
        raise settings.refused("attention.key_length_mla")
    if settings.whole("attention.q_lora_rank", 0):
        raise settings.refused("attention.q_lora_rank")
    return {
        **sigmoid_routed(settings),
        "num_experts": settings.whole("expert_count"),
        "layer_types": kinds,
        "mlp_layer_types": ["dense" if index < dense else "sparse" for index in range(len(kinds))],
        "intermediate_size": settings.whole("feed_forward_length"),
        "num_key_value_heads": config["num_attention_heads"],
        "kv_lora_rank": settings.whole("attention.kv_lora_rank"),
        "qk_rope_head_dim": turned,
        "qk_nope_head_dim": keys - turned,
        "v_head_dim": settings.whole("attention.value_length_mla"),
        "head_dim": settings.whole("kda.head_dim"),
        "short_conv_kernel_size": settings.whole("ssm.conv_kernel"),
        "kda_safe_gate": settings.flag("kda.safe_gate", default=True),
        "kda_lower_bound": settings.real("kda.gate_lower_bound"),
        "num_mtp_layers": 0,
    }


def _minimax(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Every so many-th layer attends; what goes round a layer is normed and multiplied, always with the same number."""
    layers, said = config["num_hidden_layers"], settings.several("attention.recurrent_layers")
    every = settings.whole("full_attention_interval", MINIMAX_INTERVAL)
    assert isinstance(layers, int)
    if not every or (said and len(said) < layers):
        raise settings.refused("attention.recurrent_layers" if said else "full_attention_interval")
    keeps = [bool(said[index]) if said else (index + 1) % every != 0 for index in range(layers)]
    factors = ("full_attn_alpha_factor", "linear_attn_alpha_factor", "mlp_alpha_factor")
    return {
        "layer_types": [LINEAR if is_kept else FULL for is_kept in keeps],
        "num_key_value_heads": settings.whole("attention.head_count_kv"),
        "intermediate_size": settings.whole("feed_forward_length"),
        "rotary_dim": settings.whole("rope.dimension_count"),
        "num_local_experts": settings.whole("expert_count"),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        **dict.fromkeys(factors, settings.real("residual_scale")),
        **{key.replace("alpha", "beta"): 1.0 for key in factors},
    }


STATES = {
    "minimax-01": _minimax,
    "bailingmoe3": _bailing,
    "qwen4exp": _qwen4,
    "lfm2": _lfm2,
    "lfm2moe": _lfm2_moe,
    "granitehybrid": _granite,
    "nemotron_h": _nemotron,
    "nemotron_h_moe": _nemotron,
    "falcon-h1": _falcon_h1,
    "jamba": _jamba,
    "kimi-linear": _kimi,
    "mamba": _mamba,
    "mamba2": _mamba2_alone,
}
"""By `general.architecture`."""
