"""Finds the modules of a network whose few rows are computed by the loops here."""

import sys
from typing import Any

from torch import nn

from engine.model.passes.light.attentions import known_kind, lighten_attention
from engine.model.passes.light.gated import lighten_gated
from engine.model.passes.light.known_forwards import digest_of
from engine.model.passes.light.layers import LAYERS, lighten_layer
from engine.model.passes.light.networks import lighten_decoder, lighten_headed
from engine.model.passes.light.norms import lighten_norm

LIGHTEN = {
    "Norm": lighten_norm,
    "MLP": lighten_gated,
    "Attention": lighten_attention,
    "DecoderLayer": lighten_layer,
    "Model": lighten_decoder,
    "ForCausalLM": lighten_headed,
}
"""By how the names of their classes end."""


def adopt(model: nn.Module) -> int:
    """Have the modules of a transformers network compute few rows with few calls; returns how many do.

    Modules whose `forward` was replaced by then stay as they are.
    """
    return sum(map(_lighten, model.modules()))


def takes_one_call(layer: nn.Module) -> bool:
    """Whether a layer computes few rows in one call, if the products of its linear modules are those of loops."""
    return type(layer).__name__.endswith("DecoderLayer") and "forward" in layer.__dict__


def has_known_layers(network: type[Any]) -> bool:
    """Whether few rows of the layers of a class of networks take one call, by the layers that are beside it."""
    source = sys.modules[network.__module__]
    kinds = [kind for kind in vars(source).values() if isinstance(kind, type) and kind.__module__ == source.__name__]
    layers: list[Any] = [kind for kind in kinds if kind.__name__.endswith("DecoderLayer")]
    attentions = [kind for kind in kinds if kind.__name__.endswith("Attention")]
    is_known = all(digest_of(kind.forward) in LAYERS for kind in layers)
    return bool(layers) and is_known and any(known_kind(kind) is not None for kind in attentions)


def _lighten(module: nn.Module) -> bool:
    kind = type(module)
    is_replaced = "forward" in module.__dict__
    if is_replaced or not kind.__module__.startswith("transformers.models."):
        return False
    return any(lighten(module) for end, lighten in LIGHTEN.items() if kind.__name__.endswith(end))
