"""Networks of two gates: both products in one batch, and no copies between them."""

from types import MethodType
from typing import Any

from torch import Tensor

from engine.model.passes.light.known_forwards import digest_of
from engine.model.passes.light.light_rows import are_light, multiplied

GATED = frozenset({"facc7145244ca155"})
"""Digests of `forward`: down(activation(gate(x)) * up(x))."""


def is_gated(module: Any) -> bool:
    """Whether a module is such a network."""
    return digest_of(type(module).forward) in GATED


def is_silu(activation: Any) -> bool:
    """Whether an activation is x / (1 + e to the power of -x), as torch and transformers call it."""
    return type(activation).__name__ in {"SiLU", "SiLUActivation"}


def lighten_gated(module: Any) -> bool:
    """Have such a network multiply few rows in two batches; False where it is none of those that are known."""
    if not is_gated(module):
        return False
    own = type(module).forward

    def forward(network: Any, x: Tensor) -> Tensor:
        if not are_light(x):
            return own(network, x)  # type: ignore[no-any-return]
        gate, up = multiplied((network.gate_proj, network.up_proj), x)
        return multiplied((network.down_proj,), up.mul_(network.act_fn(gate)))[0]

    module.__dict__["forward"] = MethodType(forward, module)
    return True
