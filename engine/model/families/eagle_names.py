"""EAGLE-3 heads with their tensors called as the network that runs them calls them.

So a head is opened, sized and planned for like a Llama of one layer.
"""

from collections.abc import Mapping
from types import MappingProxyType

from engine.model.safetensors_header import TensorInfo
from engine.protocol.heads import SPECULATOR_LAYER

LAYER = "model.layers.0."
# How folders call the parts of a head, and how the network does; what is not named here keeps its name.
PARTS: Mapping[str, str] = MappingProxyType(
    {
        "midlayer.": "layers.0.",
        "layers.0.input_layernorm.": f"{LAYER}input_layernorm.embedding_norm.",
        "layers.0.hidden_norm.": f"{LAYER}input_layernorm.hidden_norm.",
        "layers.0.": LAYER,
        "layers.": "model.layers.",
        "embed_tokens.": "model.embed_tokens.",
        "norm.": "last_norm.",
        "input_norm.": "recorded_norm.",
    }
)
NOT_READ = ("t2d", "verifier_norm.", "verifier_lm_head.")  # the inverse of `d2t`, and copies of the target's weights


def eagle_config(config: dict[str, object]) -> dict[str, object]:
    """The config of a head with what describes its layer in one place."""
    layer = config.get(SPECULATOR_LAYER)
    inside = layer if isinstance(layer, dict) else {}
    return {**inside, **config, "tie_word_embeddings": False}


def eagle_tensors(tensors: Mapping[str, TensorInfo]) -> Mapping[str, TensorInfo]:
    """The tensors of a head that are read, by the network's names."""
    return {_renamed(name): tensor for name, tensor in tensors.items() if not name.startswith(NOT_READ)}


def _renamed(name: str) -> str:
    name = name.removeprefix("model.")
    for begin, part in PARTS.items():
        if name.startswith(begin):
            name = part + name.removeprefix(begin)
    return name
