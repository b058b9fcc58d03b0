"""Several layers of few rows in one go: whoever asks is idle between two calls, and so is the memory."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_, itemgetter
from typing import Any

import torch
from torch import Tensor

from engine.model.passes.layer_hooks import together_of
from engine.model.passes.light.experts import StayingExperts
from engine.model.passes.light.layer_programs import LayerProgram
from engine.model.passes.light.layers import LightLayer, Ready, light_layer
from engine.model.passes.light.program_inputs import ProgramInputs
from engine.model.products.programs import Steps

MOST_PRODUCTS = 1 << 30  # numbers times rows that are multiplied in one go: some 25 ms, as a pass can only end between
_weight = itemgetter("weight")
KEPT = 64  # chains: for each first layer, and number of rows of a tree's levels


@dataclass(frozen=True, slots=True)
class _Chain:
    """Layers that were found to go together, their programs, and what that was found with.

    `hooks`: what the modules have of them, and the numbers that torch gave these. `called`: those that are called each
    time, with their layers; `others`: those that must have nothing to do.
    """

    lights: Sequence[LightLayer]
    programs: Sequence[LayerProgram]
    hooks: Sequence[Mapping[int, Any]]
    numbers: Sequence[tuple[int, int]]
    called: Sequence[tuple[Any, Any]]
    others: Sequence[Any]
    parameters: Sequence[dict[str, Any]]
    weights: Sequence[Any]
    staying: Sequence[tuple[LightLayer, StayingExperts | None]]
    inputs: ProgramInputs
    pairs: int  # of a row and an expert, of all layers

    def holds(self) -> bool:
        """Whether all is as it was."""
        if not self.programs[0].steps.is_as_allowed():
            return False
        # Without the interpreter's own loops: there are hundreds, and no cache holds them.
        if not all(map(is_, map(_weight, self.parameters), self.weights)):
            return False
        if [*map(_numbers_of, self.hooks)] != self.numbers:
            return False
        for light, known in self.staying:
            if light.staying is not known:
                return False
        return all(hook.together == "never" for hook in self.others)

    def ready(self, masks: Sequence[Tensor | None], cache: Any, embeddings: Any) -> list[Ready] | None:
        """Of all its layers, in a pass; None unless loops compute all of each."""
        found: list[Ready] = []
        ready: Ready | None = None
        for light, program, mask in zip(self.lights, self.programs, masks, strict=False):
            ready = light.ready(program, mask, cache, embeddings, ready)
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
        for hook, layer in chain.called:
            hook(layer, ())
        return _computed(chain, ready, states), begin + len(ready)

    def _chain(self, layers: Sequence[Any], begin: int, states: Tensor, embeddings: Any) -> _Chain | None:
        turned, is_wide = embeddings[0].shape[-1], states.dtype == torch.float32
        # A thread has a room of its own, see `Room`.
        key = (threading.get_ident(), begin, states.shape[1], turned, is_wide)
        chain = self._kept.get(key)
        if chain is None or not chain.holds():
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
    return _chain_of(layers[: len(lights)], lights, programs)


def _chain_of(layers: Sequence[Any], lights: Sequence[LightLayer], programs: Sequence[LayerProgram]) -> _Chain:
    kept = [hooks for layer, light in zip(layers, lights, strict=True) for hooks in _kept_hooks(layer, light)]
    modules = [module for light in lights for module in light.multiplied]
    every = [(hook, layer, together_of(hook)) for layer in layers for hook in _hooks(layer)]
    return _Chain(
        lights,
        programs,
        kept,
        [*map(_numbers_of, kept)],
        [(hook, layer) for hook, layer, when in every if when == "each" or (when == "once" and layer is layers[0])],
        [hook for hook, _, when in every if when == "never"],
        [module._parameters for module in modules],
        [_weight(module._parameters) for module in modules],
        [(light, light.staying) for light in lights if light.experts is not None],
        ProgramInputs(programs),
        sum(program.pairs for program in programs),
    )


def _kept_hooks(layer: Any, light: LightLayer) -> list[Mapping[int, Any]]:
    found = [layer._forward_pre_hooks, layer._forward_hooks]
    return found if light.experts is None else [*found, light.experts._forward_pre_hooks]


def _numbers_of(hooks: Mapping[int, Any]) -> tuple[int, int]:
    """Changes when a module gets another hook, or loses one: torch gives them numbers that grow."""
    return len(hooks), next(reversed(hooks), -1)


def _goes_together(layer: Any) -> bool:
    """Whether all that is called before and after a layer is known to be no hindrance."""
    return None not in map(together_of, _hooks(layer))


def _hooks(layer: Any) -> tuple[Any, ...]:
    return *layer._forward_pre_hooks.values(), *layer._forward_hooks.values()


def _computed(chain: _Chain, ready: Sequence[Ready], states: Tensor) -> Tensor:
    others = [torch.empty_like(states) for _ in range(2)]
    places = [states.data_ptr(), *(others[number % 2].data_ptr() for number in range(len(ready)))]
    choice = torch.empty(chain.pairs, dtype=torch.int64)
    lengths = [each.slots.length for each in ready]
    try:
        chain.inputs.write(places, ready[0].turns, choice.data_ptr())
        chain.inputs.claim_slots([each.slots for each in ready], [each.mask for each in ready])
        Steps.run_all([program.steps for program in chain.programs])
    except BaseException:
        for each, length in zip(ready, lengths, strict=True):
            each.slots.crop(length)  # some were taken for keys and values that were not computed
        raise
    if chain.pairs:
        choices = torch.split(choice, [program.pairs for program in chain.programs])
        for program, own in zip(chain.programs, choices, strict=True):
            if program.mixed is not None:
                program.mixed.announce(own.view(-1, program.chosen))
    return others[(len(ready) - 1) % 2]
