"""What config.json says of Llamas, and of networks that are written as one, from a GGUF file's metadata."""

from engine.model.gguf.header import GgufHeader
from engine.model.gguf.networks.dense_configs import Config
from engine.model.gguf.networks.mixture_configs import expert_count
from engine.model.gguf.settings import Settings

LLAMA4_CHUNK = 8192  # tokens that its layers see; in files of Ollama alone
LLAMA4_WITHOUT_NORM = 128  # experts of the one that does not norm queries and keys, if the file does not say it


def _llama(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Mixtral is written as a Llama with experts, and Mistral as one without.

    llama.cpp's converter says no window, and llama.cpp passes over one; in transformers Mistral has the one that its
    config.json says.
    """
    window = settings.whole("attention.sliding_window", 0)
    has_more = config["attention_bias"] or config["mlp_bias"] or settings.has("attention.sliding_window_pattern")
    if window and has_more:
        raise settings.refused("attention.sliding_window")
    if not settings.whole("expert_count", 0):
        return {"model_type": "mistral", "sliding_window": window} if window else {}
    return {
        "model_type": "mixtral",
        "sliding_window": window or None,
        "num_local_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
    }


def _llama4(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    if settings.has("attention.sliding_window"):  # files without chunks say 0
        raise settings.refused("attention.sliding_window")
    chunk = settings.whole("attention.chunk_size", LLAMA4_CHUNK)
    if not chunk:
        raise settings.refused("attention.chunk_size")
    return {
        "num_local_experts": expert_count(settings),
        "num_experts_per_tok": settings.whole("expert_used_count"),
        "intermediate_size_mlp": config["intermediate_size"],
        "intermediate_size": settings.whole("expert_feed_forward_length"),
        "interleave_moe_layer_step": settings.whole("interleave_moe_layer_step"),
        "attention_chunk_size": chunk,
        "use_qk_norm": settings.flag("use_qk_norm", settings.whole("expert_count") != LLAMA4_WITHOUT_NORM),
    }


def _mistral3(_header: GgufHeader, settings: Settings, config: Config) -> Config:
    """Ministral 3 scales scores by the position; what came before is a Llama."""
    if not settings.real("attention.temperature_scale", 0.0):
        return {}
    rope = config["rope_parameters"]
    if not isinstance(rope, dict) or "llama_4_scaling_beta" not in rope:
        raise settings.refused("attention.temperature_scale")
    return {"model_type": "ministral3", "sliding_window": None}


LLAMAS = {"llama": _llama, "llama4": _llama4, "mistral3": _mistral3}
"""By `general.architecture`."""
