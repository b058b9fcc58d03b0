"""What config.json says of single dense networks alone, from a GGUF file's metadata."""

from engine.gguf_header import LazyArray
from engine.model.gguf.header import GgufHeader, small_numbers
from engine.model.gguf.settings import Settings, shortest
from engine.model.gguf.windows import FULL, LINEAR, windows

Config = dict[str, object]
MINICPM3 = {"scale_emb": 12.0, "scale_depth": 1.4, "dim_model_base": 256}  # in no file
QUERY_SCALES = "blk.0.attn_q_norm.weight"  # of Muse Glimmer
BAICHUAN_13B = 40  # layers of the one that has biases for distances, and turns nothing
TURNS = "attention.rope_pattern"  # which layers do
BITNET_ACTIVATIONS = ("silu", "relu2")
PICTURE = "IMGIMG"  # with which names of tokens begin that stand for a part of a picture
FULL_INTERVAL = 4  # every so many-th layer sees everything, if the file says no more


def granite_scales(_header: GgufHeader, settings: Settings, config: Config, counts_positions: bool = True) -> Config:
    """The numbers by which Granite multiplies; what is not said is 1, or for scores what is usual.

    Raises `ModelError` unless positions count in attention, or do not, as `counts_positions` says.
    """
    if settings.flag("rope.scaling.finetuned", default=True) != counts_positions:  # it is called so
        raise settings.refused("rope.scaling.finetuned")
    head_dim = config["head_dim"]
    assert isinstance(head_dim, int)
    return {
        "attention_multiplier": settings.real("attention.scale", 0.0) or head_dim**-0.5,
        "embedding_multiplier": settings.real("embedding_scale", 0.0) or 1.0,
        "residual_multiplier": settings.real("residual_scale", 0.0) or 1.0,
        "logits_scaling": settings.real("logit_scale", 0.0) or 1.0,
    }


def _granite_swa(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Every fourth layer from the first on sees everything; some may not turn."""
    layers, base, turns = _layers(config), settings.real("rope.freq_base", 10_000.0), settings.several(TURNS)
    if turns and len(turns) < layers:
        raise settings.refused(TURNS)
    own: Config = {
        **granite_scales(header, settings, config),
        **windows(settings, FULL_INTERVAL, first=0),
        "layer_rope_theta": [base if turns else 0 for turns in turns[:layers] or (True,) * layers],
    }
    if experts := settings.whole("expert_count", 0):
        own |= {
            "model_type": "granitemoe_swa",
            "num_local_experts": experts,
            "num_experts_per_tok": settings.whole("expert_used_count"),
            "shared_intermediate_size": settings.whole("expert_shared_feed_forward_length", 0),
        }
    return own


def qwen35(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Every so many-th layer has attention; the others keep a state, with several value heads for each key head."""
    keys, values = settings.whole("ssm.group_count"), settings.whole("ssm.time_step_rank")
    inner, every = settings.whole("ssm.inner_size"), settings.whole("full_attention_interval", FULL_INTERVAL)
    if not keys or not values or values % keys or inner % values or not every:
        raise settings.refused("ssm.time_step_rank")
    return {
        "linear_num_key_heads": keys,
        "linear_num_value_heads": values,
        "linear_key_head_dim": settings.whole("ssm.state_size"),
        "linear_value_head_dim": inner // values,
        "linear_conv_kernel_dim": settings.whole("ssm.conv_kernel"),
        "layer_types": [LINEAR if (index + 1) % every else FULL for index in range(_layers(config))],
    }


def _layers(config: Config) -> int:
    layers = config["num_hidden_layers"]
    assert isinstance(layers, int)
    return layers


def _phi3(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    longest = config["max_position_embeddings"]
    return {
        "sliding_window": settings.whole("attention.sliding_window", 0) or None,
        "original_max_position_embeddings": settings.whole("rope.scaling.original_context_length", 0) or longest,
        "pad_token_id": config["pad_token_id"],
    }


def _olmo2(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    """OLMo 3 is written as an OLMo 2 with windows."""
    if not settings.has("attention.sliding_window"):
        return {}
    return {"model_type": "olmo3", **windows(settings, FULL_INTERVAL)}


def _exaone4(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    if settings.whole("attention.sliding_window", 0):
        return windows(settings, FULL_INTERVAL)
    return {"sliding_window": None, "layer_types": [FULL] * _layers(config)}


def _glm4(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    if any(settings.several("rope.dimension_sections")):  # its queries are permuted for pictures
        raise settings.refused("rope.dimension_sections")
    return {}


def _command_r(header: GgufHeader, settings: Settings, _config: Config) -> Config:
    return {
        "logit_scale": settings.real("logit_scale"),
        "use_qk_norm": "blk.0.attn_q_norm.weight" in header.tensors,
    }


def _cohere2(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    return {"logit_scale": settings.real("logit_scale"), **windows(settings, FULL_INTERVAL)}


def _seed_oss(header: GgufHeader, _settings: Settings, _config: Config) -> Config:
    return {"attention_out_bias": "blk.0.attn_output.bias" in header.tensors}


def _with_biases(_header: GgufHeader, _settings: Settings, config: Config) -> Config:
    return {"use_bias": config["attention_bias"]}


def _stablelm(header: GgufHeader, _settings: Settings, config: Config) -> Config:
    return {
        "use_qkv_bias": config["attention_bias"],
        "use_parallel_residual": "blk.0.ffn_norm.weight" not in header.tensors,
    }


def _minicpm(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """A Granite network; what the first files do not say is what their models have."""
    layers, width = _layers(config), settings.whole("embedding_length")
    usual = {"embedding_multiplier": 12.0, "residual_multiplier": 1.4 / layers**0.5, "logits_scaling": width / 256}
    found = granite_scales(header, settings, config)
    said = zip(("embedding_scale", "residual_scale", "logit_scale"), usual, strict=True)
    return found | {own: usual[own] for key, own in said if not settings.has(key)}


def _olmo(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    return {"clip_qkv": settings.real("attention.clamp_kqv", 0.0) or None}


def _apertus(_header: GgufHeader, _settings: Settings, _config: Config) -> Config:
    return {"hidden_act": "xielu"}


def _phi2(_header: GgufHeader, _settings: Settings, _config: Config) -> Config:
    return {"hidden_act": "gelu_new"}


def _gpt2(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    """GPT 2, and the StarCoder that is like it; with the names that their configs have."""
    return {
        "n_embd": config["hidden_size"],
        "n_layer": config["num_hidden_layers"],
        "n_head": config["num_attention_heads"],
        "n_positions": config["max_position_embeddings"],
        "n_inner": config["intermediate_size"],
        "multi_query": settings.whole("attention.head_count_kv", 0) == 1,
        "activation_function": "gelu_new" if settings.architecture == "gpt2" else "gelu_pytorch_tanh",
    }


def _gptneox(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    return {
        "hidden_act": "gelu",
        "attention_bias": True,
        "use_parallel_residual": settings.flag("use_parallel_residual", default=True),
    }


def _falcon(header: GgufHeader, _settings: Settings, config: Config) -> Config:
    """7B, whose queries share one head of keys and values, and those after it; with the names that its config has."""
    norms, groups = 1 + header.has(".attn_norm_2.weight"), config["num_key_value_heads"]
    return {
        "num_kv_heads": groups,
        "new_decoder_architecture": groups != 1 or norms == 2,
        "num_ln_in_parallel_attn": norms,
        "ffn_hidden_size": config["intermediate_size"],
        "activation": "gelu",
    }


def _bloom(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    """With the names that its config has; what positions add to scores follows from the number of heads."""
    heads, width = config["num_attention_heads"], settings.whole("embedding_length")
    if settings.whole("attention.head_count_kv", settings.whole("attention.head_count")) != heads:
        raise settings.refused("attention.head_count_kv")
    if settings.whole("feed_forward_length", 4 * width) != 4 * width:  # its network knows no other
        raise settings.refused("feed_forward_length")
    return {"n_layer": config["num_hidden_layers"], "n_head": heads}


def _mpt(header: GgufHeader, settings: Settings, config: Config) -> Config:
    """As BLOOM, with what heads are divided by said."""
    _bloom(header, settings, config)
    bias = settings.real("attention.max_alibi_bias")
    if bias <= 0:  # its network would take embeddings for places then, which the library does not have
        raise settings.refused("attention.max_alibi_bias")
    return {
        "d_model": config["hidden_size"],
        "n_layers": config["num_hidden_layers"],
        "n_heads": config["num_attention_heads"],
        "max_seq_len": config["max_position_embeddings"],
        "attn_config": {
            "alibi": True,
            "alibi_bias_max": round(bias),
            "clip_qkv": settings.real("attention.clamp_kqv", 0.0) or None,
        },
    }


def _qwen(_header: GgufHeader, _settings: Settings, config: Config) -> Config:
    """The first Qwen, which says twice its width."""
    width = config["intermediate_size"]
    assert isinstance(width, int)
    return {"intermediate_size": width // 2}


def _baichuan(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    if settings.whole("block_count") == BAICHUAN_13B:
        raise settings.refused("block_count")
    return {}


def _muse_glimmer(header: GgufHeader, settings: Settings, _config: Config) -> Config:
    """Layers that see everything do not turn; what queries are multiplied with stands where weights of a norm would."""
    kinds, base, scales = windows(settings, FULL_INTERVAL), settings.real("rope.freq_base", 10_000.0), QUERY_SCALES
    tensor, layer_types = header.tensors.get(scales), kinds["layer_types"]
    numbers = small_numbers(tensor) if tensor else None
    assert isinstance(layer_types, list)
    if numbers is None or len({*numbers}) > 1:
        raise settings.refused(scales)
    return {
        **kinds,
        "layer_rope_theta": [0 if kind == FULL else base for kind in layer_types],
        "qk_scale_factor": shortest(numbers[0]) if numbers else 1.0,
        "output_multiplier": settings.real("logit_scale"),
        "final_logit_softcapping": settings.real("final_logit_softcapping"),
    }


def latent_sizes(settings: Settings, keys: int, values: int) -> Config:
    """Of attention whose `keys` and `values`, so wide a head, are made of latent vectors. Raises `ModelError`."""
    turned = settings.whole("rope.dimension_count")
    if keys <= turned:
        raise settings.refused("attention.key_length")
    return {
        "kv_lora_rank": settings.whole("attention.kv_lora_rank"),
        "q_lora_rank": settings.whole("attention.q_lora_rank", 0) or None,
        "qk_rope_head_dim": turned,
        "qk_nope_head_dim": keys - turned,
        "v_head_dim": values,
    }


def _minicpm3(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    """Values are as wide as heads usually are."""
    usual = settings.whole("embedding_length") // settings.whole("attention.head_count")
    values = settings.whole("attention.value_length", usual)
    return {**MINICPM3, **latent_sizes(settings, settings.whole("attention.key_length"), values)}


def _bitnet(_header: GgufHeader, settings: Settings, _config: Config) -> Config:
    """What most files do not say is what the first of these models have."""
    activation = settings.text("hidden_activation") or "silu"
    if activation not in BITNET_ACTIVATIONS:
        raise settings.refused("hidden_activation")
    return {"hidden_act": activation}


def _chameleon(header: GgufHeader, settings: Settings, _config: Config) -> Config:
    """Its language model; tokens that stand for parts of pictures are never written."""
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    named = tokens.read() if isinstance(tokens, LazyArray) else ()
    return {
        "swin_norm": settings.flag("swin_norm"),
        "vocabulary_map": {
            name: index for index, name in enumerate(named) if isinstance(name, str) and name.startswith(PICTURE)
        },
    }


DENSE = {
    "bitnet": _bitnet,
    "bloom": _bloom,
    "mpt": _mpt,
    "chameleon": _chameleon,
    "qwen35": qwen35,
    "granite": granite_scales,
    "phi3": _phi3,
    "olmo2": _olmo2,
    "exaone4": _exaone4,
    "glm4": _glm4,
    "command-r": _command_r,
    "cohere2": _cohere2,
    "seed_oss": _seed_oss,
    "ernie4_5": _with_biases,
    "starcoder2": _with_biases,
    "codeshell": _with_biases,
    "stablelm": _stablelm,
    "orion": _stablelm,
    "qwen": _qwen,
    "baichuan": _baichuan,
    "minicpm": _minicpm,
    "olmo": _olmo,
    "phi2": _phi2,
    "gpt2": _gpt2,
    "starcoder": _gpt2,
    "gptneox": _gptneox,
    "apertus": _apertus,
    "falcon": _falcon,
    "minicpm3": _minicpm3,
    "muse-glimmer": _muse_glimmer,
    "granite_swa": _granite_swa,
}
"""By `general.architecture`."""
