"""What config.json says of the Gemma networks alone, from a GGUF file's metadata."""

from statistics import NormalDist

from engine.model.gguf.header import GgufHeader
from engine.model.gguf.settings import ALSO_CALLED, BASE, Settings
from engine.model.gguf.windows import FULL, windows

# Layers of the networks whose scores are divided by another number than the root of a head's width.
GEMMA2_27B, GEMMA3_27B = 46, 62
WRITTEN_FOR_NONE = 30.0  # by Ollama's converter, where Gemma 3 says that logits have no cap
PER_LAYER_EMBEDDING = "per_layer_token_embd.weight"
ACTIVATION: dict[str, object] = {"hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu_pytorch_tanh"}


def _gemma(_header: GgufHeader, _settings: Settings, _config: dict[str, object]) -> dict[str, object]:
    return ACTIVATION


def _gemma2(_header: GgufHeader, settings: Settings, config: dict[str, object]) -> dict[str, object]:
    return {
        "attn_logit_softcapping": settings.real("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": settings.real("final_logit_softcapping", 30.0),
        **_query_scale(settings, config, GEMMA2_27B),
        **windows(settings, 2),
        **ACTIVATION,
    }


def _gemma3(_header: GgufHeader, settings: Settings, config: dict[str, object]) -> dict[str, object]:
    cap = settings.real("final_logit_softcapping", 0.0) or None
    if settings.has(ALSO_CALLED[BASE]) and cap == WRITTEN_FOR_NONE:
        cap = None
    return {
        "attn_logit_softcapping": None,
        "final_logit_softcapping": cap,
        **_query_scale(settings, config, GEMMA3_27B),
        **windows(settings, 6),
        **ACTIVATION,
    }


def _query_scale(settings: Settings, config: dict[str, object], exception: int) -> dict[str, object]:
    if settings.whole("block_count") == exception:
        return {"query_pre_attn_scalar": settings.whole("embedding_length") // settings.whole("attention.head_count")}
    return {"query_pre_attn_scalar": config["head_dim"]}


def _gemma3n(header: GgufHeader, settings: Settings, _config: dict[str, object]) -> dict[str, object]:
    """Of how sparse activations are, the file says how many deviations they must be above the mean."""
    laurel, embedding = header.tensors.get("blk.0.laurel_l.weight"), header.tensors.get(PER_LAYER_EMBEDDING)
    above = settings.several("activation_sparsity_scale")
    if not laurel or not embedding or not all(isinstance(multiple, float) for multiple in above):
        raise settings.refused("activation_sparsity_scale")
    return {
        **windows(settings, 5),
        **ACTIVATION,
        "final_logit_softcapping": settings.real("final_logit_softcapping", 30.0),
        "hidden_size_per_layer_input": settings.whole("embedding_length_per_layer_input"),
        "vocab_size_per_layer_input": embedding.shape[0],
        "num_kv_shared_layers": settings.whole("attention.shared_kv_layers"),
        "altup_num_inputs": settings.whole("altup.num_inputs"),
        "altup_active_idx": settings.whole("altup.active_idx"),
        "laurel_rank": laurel.shape[0],
        "activation_sparsity_pattern": [round(NormalDist().cdf(float(multiple)), 6) for multiple in above],
    }


def _gemma4(header: GgufHeader, settings: Settings, config: dict[str, object]) -> dict[str, object]:
    kinds = windows(settings, 6)
    layer_types = kinds["layer_types"]
    assert isinstance(layer_types, list)
    embedding = header.tensors.get(PER_LAYER_EMBEDDING)
    return {
        **kinds,
        **ACTIVATION,
        "global_head_dim": config["head_dim"],
        "head_dim": settings.whole("attention.key_length_swa"),
        "final_logit_softcapping": settings.real("final_logit_softcapping", 0.0) or None,
        "hidden_size_per_layer_input": settings.whole("embedding_length_per_layer_input", 0),
        "vocab_size_per_layer_input": embedding.shape[0] if embedding else config["vocab_size"],
        "num_kv_shared_layers": settings.whole("attention.shared_kv_layers", 0),
        **_key_value_heads(header, settings, layer_types),
        **_widths(settings, len(layer_types)),
        **_mixture(header, settings),
    }


def _key_value_heads(header: GgufHeader, settings: Settings, layer_types: list[str]) -> dict[str, object]:
    """Layers without a window may have fewer, and then keys are values, too."""
    count = len(layer_types)
    said = settings.several("attention.head_count_kv") or (settings.whole("attention.head_count_kv"),) * count
    if len(said) < count:
        raise settings.refused("attention.head_count_kv")
    full, sliding = (
        {said[index] for index in range(count) if (layer_types[index] == FULL) == is_full} for is_full in (True, False)
    )
    if len(full) > 1 or len(sliding) > 1:
        raise settings.refused("attention.head_count_kv")
    keys_are_values = any(
        layer_types[index] == FULL
        and f"blk.{index}.attn_k.weight" in header.tensors
        and f"blk.{index}.attn_v.weight" not in header.tensors
        for index in range(count)
    )
    if full != sliding and full and sliding and not keys_are_values:
        raise settings.refused("attention.head_count_kv")
    found: dict[str, object] = {"num_key_value_heads": (sliding or full).pop(), "attention_k_eq_v": keys_are_values}
    if keys_are_values:
        found["num_global_key_value_heads"] = full.pop()
    return found


def _widths(settings: Settings, count: int) -> dict[str, object]:
    """Layers that use the keys and values of earlier ones may be twice as wide behind them."""
    said = settings.several("feed_forward_length") or (settings.whole("feed_forward_length"),) * count
    if len(said) < count:
        raise settings.refused("feed_forward_length")
    own = count - settings.whole("attention.shared_kv_layers", 0)
    narrow, wide = said[0], said[count - 1]
    doubled = wide != narrow
    expected = [narrow if index < own or not doubled else 2 * int(narrow) for index in range(count)]
    if list(said[:count]) != expected:
        raise settings.refused("feed_forward_length")
    return {"intermediate_size": narrow, "use_double_wide_mlp": doubled}


def _mixture(header: GgufHeader, settings: Settings) -> dict[str, object]:
    if "blk.0.ffn_gate_inp.weight" not in header.tensors:
        return {"enable_moe_block": False}
    return {
        "enable_moe_block": True,
        "num_experts": settings.whole("expert_count"),
        "top_k_experts": settings.whole("expert_used_count"),
        "moe_intermediate_size": settings.whole("expert_feed_forward_length"),
    }


GEMMAS = {"gemma": _gemma, "gemma2": _gemma2, "gemma3": _gemma3, "gemma3n": _gemma3n, "gemma4": _gemma4}
"""By `general.architecture`."""
