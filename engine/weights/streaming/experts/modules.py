"""Finds a decoder layer's experts: the module that holds them all, and is told which of them each row needs."""

import inspect
from dataclasses import dataclass

from torch import nn

CHOICES = frozenset({"top_k_index", "router_indices"})  # how the network's own modules call the router's choice


@dataclass(frozen=True, slots=True)
class Experts:
    """A layer's experts. Every weight of `module` is a stack [count, ...]; in the layer its name begins with `prefix`.

    The module is called with hidden states [rows, width], the router's choice int64 [rows, chosen], and its weights.
    """

    module: nn.Module
    prefix: str
    count: int


def find_experts(layer: nn.Module) -> Experts | None:
    """The experts of a layer; None if it has none, or none that can be given to it one by one."""
    for name, module in layer.named_modules():
        if name.rpartition(".")[2] == "experts" and (count := _count(module)):
            return Experts(module, f"{name}.", count)
    return None


def _count(module: nn.Module) -> int:
    """How many experts the module holds; 0 if it is no stack of them, or not told by number which are used."""
    count = getattr(module, "num_experts", None)
    arguments = list(inspect.signature(type(module).forward).parameters)
    if not isinstance(count, int) or arguments[2:3] == [] or arguments[2] not in CHOICES:
        return 0
    stacks = dict(module.named_parameters())
    alone = all("." not in name for name in stacks) and not any(module.buffers())
    return count if alone and stacks and all(len(stack) == count for stack in stacks.values()) else 0
