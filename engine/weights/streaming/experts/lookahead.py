"""Foretells which experts the next layer will choose, so that they are read while this one computes.

What a layer adds to the hidden states is little beside what is there, and so the next router finds most of its choice
in what this layer's experts are given (Eliseev and Mazur 2023, "Fast Inference of Mixture-of-Experts Language Models
with Offloading"). A wrong guess costs a read; it changes no number.
"""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from engine.weights.streaming.experts.binding import Experts

ROUTERS = ("gate", "router")  # how networks call the module beside their experts that chooses among these

Router = Callable[[Tensor], Any]
"""Gives for hidden states [rows, width] what the network's own module does, a choice or figures for one."""


def router_of(layer: nn.Module, experts: Experts) -> Router | None:
    """The router of a layer's experts; None if it has none that is known by its name, or can be asked alone.

    It is asked without its hooks: what looks at the layers is to see passes alone.
    """
    beside = layer.get_submodule(experts.prefix.removesuffix(".").rpartition(".")[0])
    found = (getattr(beside, name, None) for name in ROUTERS)
    module = next((each for each in found if isinstance(each, nn.Module)), None)
    if module is None:
        return None
    forward = type(module).forward
    # Some are given the bias of each expert, by the name that it has beside them.
    names = list(inspect.signature(forward).parameters)[2:]
    if not all(hasattr(beside, name) for name in names):
        return None
    return lambda hidden: forward(module, hidden, *(getattr(beside, name) for name in names))


def foretold(router: Router, hidden: Tensor, chosen: int) -> list[int]:
    """The experts that a router would choose for most of these rows, [rows, width]: as many as for one row.

    More would often be wrong, and reading them keeps the disk from what is asked for. Where the router gives only its
    figures, the highest count, without what a network may do to them before it chooses.
    """
    given = router(hidden)
    parts = given if isinstance(given, tuple) else (given,)
    choices = [each for each in parts if not each.is_floating_point() and each.shape[-1] == chosen]
    choice = choices[0] if choices else parts[0].topk(chosen, dim=-1).indices
    experts, rows = choice.unique(return_counts=True)
    return [int(each) for each in experts[rows.argsort(descending=True, stable=True)][:chosen]]
