"""Which models can hold a token tree, and how their attention wants to be asked."""

from typing import Any

from engine.errors import ModelError
from engine.model.masks import FULL, SLIDING
from engine.protocol.sentences import say

# Families whose tree pass was compared, in the tests, with every root-to-node path alone. Others are probed at load.
VERIFIED = frozenset(
    {
        "llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "phi3",
        "gpt_oss", "mixtral", "qwen3_moe", "olmo2",
    }
)  # fmt: skip


def layer_windows(config: Any, name: str) -> tuple[int | None, ...]:
    """Each decoder layer's sliding window in tokens, None for full attention; raises `ModelError` for other layers."""
    text = config.get_text_config(decoder=True)
    window: int | None = getattr(text, "sliding_window", None)
    kinds = getattr(text, "layer_types", None)
    if kinds is None:
        return (window,) * int(text.num_hidden_layers)
    if unknown := sorted(set(kinds) - {FULL, SLIDING}):
        raise _refusal(name, say("it has {kinds} layers", kinds=", ".join(kind.replace("_", " ") for kind in unknown)))
    return tuple(window if kind == SLIDING else None for kind in kinds)


def attention_implementation(config: Any, model_class: Any) -> str:
    """`sdpa` where it computes what the model means, else `eager`.

    gpt-oss has attention sinks that sdpa cannot express; with soft-capped scores (Gemma 2) sdpa silently drops the cap.
    """
    capped = getattr(config.get_text_config(decoder=True), "attn_logit_softcapping", None) is not None
    return "sdpa" if model_class._supports_sdpa and not capped else "eager"


def require_tree(config: Any, model_class: Any, name: str) -> None:
    """Raise `ModelError` if the model is of a kind whose memory of the past cannot branch."""
    text = config.get_text_config(decoder=True)
    if getattr(config, "is_encoder_decoder", False):
        raise _refusal(name, say("it is an encoder-decoder model"))
    if getattr(model_class, "_is_stateful", False):
        raise _refusal(name, say("it keeps a recurrent state, which cannot branch"))
    if getattr(text, "num_kv_shared_layers", 0):
        raise _refusal(name, say("its layers share their key/value cache"))
    layer_windows(config, name)


def _refusal(name: str, reason: str) -> ModelError:
    return ModelError(
        say("'{name}' cannot hold a token tree: {reason}.", name=name, reason=reason),
        say("Choose a decoder with full or sliding-window attention, such as Llama, Qwen, Mistral, Gemma or gpt-oss."),
    )
