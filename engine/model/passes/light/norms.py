"""Norms by the root mean square, in one call instead of eight."""

from types import MethodType
from typing import Any

import torch
from torch import Tensor

from engine.model.passes.light.known_forwards import digest_of
from engine.model.passes.light.light_rows import are_light, are_narrow, loops
from engine.model.products.layouts import UNIT

NORMS = {
    ("4445428527254d4b", ""): 0.0,  # Llama's, and of most families
    ("5b564410508560a6", ""): 0.0,  # gpt-oss, OLMo 2: rounded later, which is the same in float32
    ("51a5a5dfcd720249", ""): 0.0,  # Helium, Nemotron-H
    ("8141099635f8b60e", "43ce3e838d6e8ea3"): 1.0,  # Gemma, Qwen3-Next
}
"""By the digests of `forward` and `_norm`: what is added to the weight."""


def known_norm(module: Any) -> tuple[float, float] | None:
    """Of a norm that is known: what is added to the square, and what to the weight; None for others."""
    kind = type(module)
    more = NORMS.get((digest_of(kind.forward), digest_of(kind._norm) if hasattr(kind, "_norm") else ""))
    epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if more is None or not isinstance(epsilon, float) or module.weight.ndim != 1 or len(module.weight) % UNIT:
        return None
    return epsilon, more


def lighten_norm(module: Any) -> bool:
    """Have a norm compute few rows by a loop; False where it is none of those that are known."""
    known = known_norm(module)
    if known is None:
        return False
    epsilon, more = known
    own, width = type(module).forward, len(module.weight)

    def forward(norm: Any, states: Tensor) -> Tensor:
        weight = norm._parameters["weight"]
        if weight.dtype == torch.bfloat16 and are_narrow(states):
            found, places = torch.empty_like(states), (states.data_ptr(), weight.data_ptr())
            loops().norm_narrow_rows(*places, found.data_ptr(), states.shape[1], width, epsilon, more)
            return found
        if weight.dtype != torch.float32 or not (are_light(states) or _are_light_heads(states)):
            return own(norm, states)  # type: ignore[no-any-return]
        found, rows = torch.empty_like(states), states.numel() // width
        loops().norm_rows(states.data_ptr(), weight.data_ptr(), found.data_ptr(), rows, width, epsilon, more)
        return found

    module.__dict__["forward"] = MethodType(forward, module)  # that of a copy is the copy's
    return True


def _are_light_heads(states: Tensor) -> bool:
    """The same for heads [1, rows, heads, width] of few rows."""
    return states.ndim == 4 and states.is_contiguous() and are_light(states.flatten(2))
