"""Finds a decoder layer's experts, and gives them their weights: all, or only those that a pass uses, side by side."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from engine.weights.codecs.codec import Decoder
from engine.weights.streaming.binding import Binding, Scratch, Views
from engine.weights.streaming.experts.split_layout import SplitLayout

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
    """The experts of a layer; None if it has none, or none that can be bound one by one."""
    for name, module in layer.named_modules():
        if name.rpartition(".")[2] == "experts" and (count := _count(module)):
            return Experts(module, f"{name}.", count)
    return None


def _count(module: nn.Module) -> int:
    """How many experts the module holds; 0 if it is no stack of them, or takes no numbers of those used."""
    count = getattr(module, "num_experts", None)
    arguments = list(inspect.signature(type(module).forward).parameters)
    if not isinstance(count, int) or arguments[2:3] == [] or arguments[2] not in CHOICES:
        return 0
    stacks = dict(module.named_parameters())
    alone = all("." not in name for name in stacks) and not any(module.buffers())
    return count if alone and stacks and all(len(stack) == count for stack in stacks.values()) else 0


class ExpertBinding:
    """One layer's experts.

    Where few are used, the module gets a smaller stack, with those experts in ascending order, and `num_experts` is
    set to their number. Every row is then multiplied with the same numbers in the same order as with the full stack.
    After they have run, `release` puts back what the module had before: placeholders of the full size, and what the
    layer's trunk holds of it.
    """

    def __init__(
        self, layer: nn.Module, experts: Experts, split: SplitLayout, decoder: Decoder | None, scratch: Scratch
    ) -> None:
        """`scratch` has room for all experts, shared by all layers alike."""
        self._module, self._prefix, self._count = experts.module, experts.prefix, experts.count
        self._decoder = decoder
        self._stacks = scratch.weights_of(experts.module)
        self._before: dict[str, nn.Parameter | None] = {}  # what is bound takes the place of
        self._views: Binding | None = None if decoder else Views(layer, split.bulk)

    @property
    def decodes(self) -> bool:
        """Whether stored bytes are not the weights themselves."""
        return self._decoder is not None

    def bind_all(self, bulk: Tensor, stored: Mapping[str, Tensor]) -> None:
        """All experts: `bulk` holds their bytes; `stored` are the same as tensors, and what the trunk holds of them."""
        if self._views:
            self._remember()
            self._views.bind(bulk)
            return
        for name, stack in self._stacks.items():
            self._decode(stored, self._prefix + name, stack)
        self._put(self._count)

    def bind_again(self, bulk: Tensor) -> None:
        """All experts, as `bind_all` left them: since then they were released, and nothing else was bound."""
        if self._views:
            self._remember()
            self._views.bind(bulk)
        else:
            self._put(self._count)

    def bind_one(self, place: int, stored: Mapping[str, Tensor]) -> None:
        """Write an expert's weights, from its own stored tensors, to this place of the smaller stack."""
        for name, stack in self._stacks.items():
            self._decode(stored, self._prefix + name, stack[place])

    def show(self, count: int) -> None:
        """Let the module see the first `count` places, and nothing else."""
        self._put(count)
        self._module.num_experts = count  # type: ignore[assignment]  # an attribute that is no parameter

    def release(self) -> None:
        """Nothing is bound any more."""
        self._module._parameters.update(self._before)
        self._before.clear()
        self._module.num_experts = self._count  # type: ignore[assignment]

    def _remember(self) -> None:
        if not self._before:
            self._before.update(self._module._parameters)

    def _put(self, count: int) -> None:
        self._remember()
        for name, stack in self._stacks.items():
            self._module._parameters[name] = nn.Parameter(stack[:count], requires_grad=False)

    def _decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        if name in stored or self._decoder is None:
            out.copy_(stored[name])
        else:
            self._decoder.decode(stored, name, out)
