"""Which networks read a prompt of any length in one pass, every layer over all of it, and what that carries along."""

from collections.abc import Mapping

from engine.model.families.verified_families import VERIFIED

# Their layers are handed what belongs to every slot of the cache, not to the rows of the pass, or a mask that the
# network has made of the one that it was handed. By model_type.
CHUNK_BY_CHUNK = frozenset({"bloom", "mpt", "qwen4_exp_text"})
PER_LAYER = "hidden_size_per_layer_input"  # of every token, a vector for every layer: more than its hidden states
# Layers that read the keys and values of earlier ones: before the first of them Gemma 4's network drops all rows that
# nobody asks for, so that a chunk is longer than what is left of it.
SHARING = "num_kv_shared_layers"
STREAMS = (
    "hc_mult"  # hidden states of a token side by side (hyper-connections, arXiv 2409.19606); one where it is absent
)


def carried_width(text: Mapping[str, object], hidden: int, head_dim: int) -> int:
    """Numbers that such a pass holds of every token from the first layer to the last; 0 where prompts come in chunks.

    What the first layer is given, what the layers hand on, and the rotary embedding. `text`: the config of the language
    model.
    """
    if text.get("model_type") in CHUNK_BY_CHUNK or text.get(PER_LAYER) or text.get(SHARING):
        return 0
    streams = text.get(STREAMS)
    return 2 * hidden * (streams if type(streams) is int and streams > 0 else 1) + 2 * head_dim


def reads_in_one_pass(text: Mapping[str, object]) -> bool:
    """Whether tests have shown it for this family; `text` as of `carried_width`."""
    return text.get("model_type") in VERIFIED and carried_width(text, 1, 0) > 0
