"""Several layers of few rows in one go: whoever asks is idle between two calls, and so is the memory."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.model.passes.layer_hooks import together_of
from engine.model.passes.light.experts import StayingExperts
from engine.model.passes.light.layer_programs import LayerProgram
from engine.model.passes.light.layers import LightLayer, Ready, light_layer
from engine.model.products.programs import Steps

MOST_PRODUCTS = 1 << 30  # numbers times rows that are multiplied in one go: some 25 ms, as a pass can only end between
KEPT = 64  # chains: for each first layer, and number of rows of a tree's levels


@dataclass(frozen=True, slots=True)
class _Chain:
    """Layers that were found to go together, their programs, and what that was found with."""

    lights: Sequence[LightLayer]
    programs: Sequence[LayerProgram]
    hooks: Sequence[tuple[int, ...]]
    weights: Sequence[tuple[dict[str, Any], Any]]
    staying: Sequence[StayingExperts | None]

    def holds(self, layers: Sequence[Any]) -> bool:
        """Whether all is as it was, for these layers."""
        return (
            self.programs[0].steps.is_as_allowed()
            and all(params["weight"] is weight for params, weight in self.weights)
            and all(light.staying is known for light, known in zip(self.lights, self.staying, strict=True))
            and self.hooks == [_hooks_of(*each) for each in zip(layers, self.lights, strict=False)]
        )

    def ready(self, masks: Sequence[Tensor | None], cache: Any, embeddings: Any) -> list[Ready] | None:
        """Of all its layers, in a pass; None unless loops compute all of each."""
        found: list[Ready] = []
        for light, program, mask in zip(self.lights, self.programs, masks, strict=False):
            ready = light.ready(program, mask, cache, embeddings)
            if ready is None or not ready.attends:
                return None
            found.append(ready)
        return found


class Chains:
    """Of a decoder's layers."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, ...], _Chain] = OrderedDict()

    def compute(
        self,
        layers: Sequence[Any],
        begin: int,
        states: Tensor,
        masks: Sequence[Tensor | None],
        arguments: Mapping[str, Any],
    ) -> tuple[Tensor, int]:
        """What layers from one on make of states [1, rows, width]; and the first one behind those.

        That is `begin` itself, and the states as they are, where two do not go together.
        """
        cache, embeddings = arguments["past_key_values"], arguments["position_embeddings"]
        chain = self._chain(layers, begin, states, embeddings)
        if chain is None or not chain.lights[0].takes(states, cache, embeddings):
            return states, begin
        ready = chain.ready(masks[begin:], cache, embeddings)
        if ready is None:
            return states, begin
        for number, layer in enumerate(layers[begin : begin + len(ready)]):
            for hook in _hooks(layer):
                if together_of(hook) == "each" or (together_of(hook) == "once" and not number):
                    hook(layer, ())
        return _computed(chain.lights, ready, states), begin + len(ready)

    def _chain(self, layers: Sequence[Any], begin: int, states: Tensor, embeddings: Any) -> _Chain | None:
        turned, is_wide = embeddings[0].shape[-1], states.dtype == torch.float32
        # A thread has a room of its own, see `Room`.
        key = (threading.get_ident(), begin, states.shape[1], turned, is_wide)
        chain = self._kept.get(key)
        if chain is None or not chain.holds(layers[begin:]):
            chain = _found(layers[begin:], states, embeddings)
        if chain is None:
            self._kept.pop(key, None)
            return None
        self._kept[key] = chain
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return chain


def _found(layers: Sequence[Any], states: Tensor, embeddings: Any) -> _Chain | None:
    """The first of these layers that go together, two or more, with programs for as many rows as `states` has."""
    most, rows = MOST_PRODUCTS, states.shape[1]
    lights: list[LightLayer] = []
    programs: list[LayerProgram] = []
    for layer in layers:
        light = light_layer(layer)
        if light is None or not _goes_together(layer) or (lights and light.kind != lights[0].kind):
            break
        most -= rows * light.numbers
        program = light.program(states, light.turned(embeddings)) if most >= 0 else None
        if program is None or program.told.normed or (program.mixed and not program.mixed.may_wait):
            break
        most -= rows * program.mixed.numbers if program.mixed else 0
        if most < 0:
            break
        lights.append(light)
        programs.append(program)
    if len(lights) < 2:
        return None
    return _Chain(
        lights,
        programs,
        [_hooks_of(*each) for each in zip(layers, lights, strict=False)],
        [(module._parameters, module._parameters["weight"]) for light in lights for module in light.linear],
        [light.staying for light in lights],
    )


def _hooks_of(layer: Any, light: LightLayer) -> tuple[int, ...]:
    """Changes when a layer or its experts get another hook, or lose one: torch gives them numbers that grow."""
    found = [layer._forward_pre_hooks, layer._forward_hooks]
    if light.experts is not None:
        found.append(light.experts._forward_pre_hooks)
    return tuple([number for hooks in found for number in (len(hooks), next(reversed(hooks), -1))])


def _goes_together(layer: Any) -> bool:
    """Whether all that is called before and after a layer is known to be no hindrance."""
    return None not in map(together_of, _hooks(layer))


def _hooks(layer: Any) -> tuple[Any, ...]:
    return *layer._forward_pre_hooks.values(), *layer._forward_hooks.values()


def _computed(lights: Sequence[LightLayer], ready: Sequence[Ready], states: Tensor) -> Tensor:
    found = [torch.empty_like(states) for _ in range(2)]
    lengths, choices = [each.slots.length for each in ready], list[Tensor | None]()
    try:
        for number, (light, each) in enumerate(zip(lights, ready, strict=True)):
            routed, steps = each.program.routed, each.program.steps
            choices.append(None if routed is None else routed.tell(steps.program))
            light.tell(each, found[(number + 1) % 2] if number else states, found[number % 2])
        Steps.run_all([each.program.steps for each in ready])
    except BaseException:
        for each, length in zip(ready, lengths, strict=True):
            each.slots.crop(length)  # some were taken for keys and values that were not computed
        raise
    for each, choice in zip(ready, choices, strict=True):
        if each.program.mixed is not None and choice is not None:
            each.program.mixed.announce(choice)
    return found[(len(ready) - 1) % 2]
