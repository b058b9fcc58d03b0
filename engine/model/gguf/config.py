"""The config of a network, as transformers has it in config.json, made of a GGUF file's metadata.

What the file does not say is what llama.cpp takes for this kind of network.
"""

from engine.errors import ModelError
from engine.model.gguf.header import GgufHeader
from engine.model.gguf.names import FAMILIES, OUTPUT, Family
from engine.model.gguf.rope import rope_of
from engine.model.gguf.settings import Settings
from engine.protocol.sentences import say, shown

FULL, SLIDING = "full_attention", "sliding_attention"
EMBEDDING = "token_embd.weight"
# Layers of the networks whose scores are divided by another number than the root of a head's width.
GEMMA2_27B, GEMMA3_27B = 46, 62


def family_of(header: GgufHeader, name: str) -> Family:
    """The kind of network in the file of the model called `name`; raises `ModelError` for one that is not known."""
    family = FAMILIES.get(header.architecture)
    if family is None:
        raise ModelError(
            say(
                "'{name}' has the architecture {kind}, which is not read from GGUF files.",
                name=name, kind=shown(header.architecture),
            ),
            say("Choose a version of the model in the safetensors format, or another model."),
        )  # fmt: skip
    return family


def config_of(header: GgufHeader, name: str) -> dict[str, object]:
    """What config.json would say; raises `ModelError` where the file does not say enough."""
    family, settings = family_of(header, name), Settings(header, name)
    heads = settings.whole("attention.head_count")
    width = settings.whole("embedding_length")
    if not heads or not width:
        raise settings.refused("attention.head_count")
    head_dim = settings.whole("attention.key_length", width // heads)
    if settings.whole("attention.value_length", head_dim) != head_dim:
        raise settings.refused("attention.value_length")
    embedding = header.tensors.get(EMBEDDING)
    if embedding is None or len(embedding.shape) != 2:
        raise ModelError(
            say("'{name}' lacks the weights {tensor}.", name=name, tensor=EMBEDDING),
            say("Download the model again."),
        )
    model_type = "mixtral" if family.model_type == "llama" and settings.whole("expert_count", 0) else family.model_type
    config: dict[str, object] = {
        "model_type": model_type,
        "vocab_size": embedding.shape[0],
        "hidden_size": width,
        "intermediate_size": settings.whole("feed_forward_length", 0),
        "num_hidden_layers": settings.whole("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": settings.whole("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "max_position_embeddings": settings.whole("context_length"),
        "rms_norm_eps": settings.real("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": OUTPUT not in header.tensors,
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "mlp_bias": "blk.0.ffn_gate.bias" in header.tensors,
        **rope_of(header, settings, head_dim),
        **_token_ids(header),
    }
    return config | _OWN.get(model_type, _nothing)(settings, config)


def _token_ids(header: GgufHeader) -> dict[str, object]:
    found: dict[str, object] = {}
    for own, key in (("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")):
        value = header.metadata.get(f"tokenizer.ggml.{key}_token_id")
        found[own] = value if type(value) is int and value >= 0 else None
    return found


def _nothing(_settings: Settings, _config: dict[str, object]) -> dict[str, object]:
    return {}


def _experts(settings: Settings) -> int:
    count = settings.whole("expert_count")
    if not count:
        raise settings.refused("expert_count")
    return count


def _mixtral(settings: Settings, _config: dict[str, object]) -> dict[str, object]:
    return {"num_local_experts": _experts(settings), "num_experts_per_tok": settings.whole("expert_used_count")}


def _qwen_moe(settings: Settings, config: dict[str, object]) -> dict[str, object]:
    own: dict[str, object] = {
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


def _gpt_oss(settings: Settings, _config: dict[str, object]) -> dict[str, object]:
    return {
        "num_local_experts": _experts(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "intermediate_size": settings.whole("expert_feed_forward_length", settings.whole("feed_forward_length", 0)),
        **_windows(settings, 2),
    }


def _gemma2(settings: Settings, config: dict[str, object]) -> dict[str, object]:
    return {
        "attn_logit_softcapping": settings.real("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": settings.real("final_logit_softcapping", 30.0),
        **_query_scale(settings, config, GEMMA2_27B),
        **_windows(settings, 2),
        **_gemma(),
    }


def _gemma3(settings: Settings, config: dict[str, object]) -> dict[str, object]:
    capping = settings.real("final_logit_softcapping", 0.0)
    return {
        "attn_logit_softcapping": None,
        "final_logit_softcapping": capping or None,
        **_query_scale(settings, config, GEMMA3_27B),
        **_windows(settings, 6),
        **_gemma(),
    }


def _gemma() -> dict[str, object]:
    return {"hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu_pytorch_tanh"}


def _query_scale(settings: Settings, config: dict[str, object], exception: int) -> dict[str, object]:
    if settings.whole("block_count") == exception:
        return {"query_pre_attn_scalar": settings.whole("embedding_length") // settings.whole("attention.head_count")}
    return {"query_pre_attn_scalar": config["head_dim"]}


def _windows(settings: Settings, usual: int) -> dict[str, object]:
    """The window and the kinds of layers: every layer has the window but each `usual`th, unless the file says more."""
    window = settings.whole("attention.sliding_window")
    layers = settings.whole("block_count")
    said = settings.several("attention.sliding_window_pattern")
    every = usual if said else settings.whole("attention.sliding_window_pattern", usual)
    if layers > 4096 or not every or (said and len(said) < layers):
        raise settings.refused("attention.sliding_window_pattern")
    slides = [bool(said[index]) if said else (index + 1) % every != 0 for index in range(layers)]
    return {"sliding_window": window, "layer_types": [SLIDING if slide else FULL for slide in slides]}


def _phi3(settings: Settings, config: dict[str, object]) -> dict[str, object]:
    longest = config["max_position_embeddings"]
    return {
        "sliding_window": settings.whole("attention.sliding_window", 0) or None,
        "original_max_position_embeddings": settings.whole("rope.scaling.original_context_length", 0) or longest,
        "pad_token_id": config["pad_token_id"],
    }


_OWN = {
    "mixtral": _mixtral,
    "qwen2_moe": _qwen_moe,
    "qwen3_moe": _qwen_moe,
    "gpt_oss": _gpt_oss,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "phi3": _phi3,
}
