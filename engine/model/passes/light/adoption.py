"""Finds the modules of a network whose few rows are computed by the loops here."""

from torch import nn

from engine.model.passes.light.attentions import lighten_attention
from engine.model.passes.light.gated import lighten_gated
from engine.model.passes.light.layers import lighten_layer
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


def _lighten(module: nn.Module) -> bool:
    kind = type(module)
    is_replaced = "forward" in module.__dict__
    if is_replaced or not kind.__module__.startswith("transformers.models."):
        return False
    return any(lighten(module) for end, lighten in LIGHTEN.items() if kind.__name__.endswith(end))
