"""Brings a mixture's experts once their layer's router has chosen: all of the layer's, or only those of this pass."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from engine.weights.streaming.binding import stored_views
from engine.weights.streaming.experts.binding import ExpertBinding, Experts
from engine.weights.streaming.experts.choice import Pace, Situation
from engine.weights.streaming.experts.slots import Delivery, ExpertSource, Shelf
from engine.weights.streaming.experts.split_layout import SplitLayout
from engine.weights.streaming.layer_store import Stock
from engine.weights.streaming.prefetch_ring import Idle

Choose = Callable[[Situation], bool]
"""Whether a pass takes single experts."""


@dataclass(frozen=True, slots=True)
class ExpertLayer:
    """One layer with experts, which `source` brings to the `shelf`; None: they stay on the device, to be decoded."""

    experts: Experts
    split: SplitLayout
    binding: ExpertBinding
    shelf: Shelf | None
    source: ExpertSource | None

    @property
    def index(self) -> int:
        """Its number in the model."""
        return self.split.trunk.index

    @property
    def most_single(self) -> int:
        """How many experts can be brought one by one; decoding all of them is one piece of work."""
        return self.shelf.cache.slots if self.shelf else self.experts.count - 1


class ExpertStream:
    """Hooks on the experts of all layers that are split into trunk and experts.

    All experts of a layer come through the rings of `bulks`, read ahead. Single ones come when the router has run,
    through a shelf's cache. Which of both is settled for a pass when it reaches the first layer of a shelf.
    """

    def __init__(self, layers: Sequence[ExpertLayer], trunks: Stock, bulks: Stock, choose: Choose) -> None:
        """Both stocks are loaded; `bulks` holds the experts of each layer together."""
        self._layers = {layer.index: layer for layer in layers}
        self._trunks, self._bulks, self._choose = trunks, bulks, choose
        self._shelves = list(dict.fromkeys(layer.shelf for layer in layers if layer.shelf))
        self._takes_single: dict[Shelf, bool] = {}
        self._companions: Mapping[str, Tensor] = {}  # of the layer that is running
        self._taken_in_bulk: int | None = None  # the layer that must be given back
        self._bytes_in_bulk = 0
        self._bind_seconds = 0.0
        self._last = -1
        self._pace = Pace()
        self._hooks: list[RemovableHandle] = []

    def hook(self, idle: Callable[[], Idle | None]) -> None:
        """Attach to the layers' experts; `idle` tells what to do while they are awaited."""
        for layer in self._layers.values():
            module = layer.experts.module
            self._hooks.append(module.register_forward_pre_hook(self._before(layer, idle)))
            self._hooks.append(module.register_forward_hook(self._after(layer)))
            self._hooks.append(module.register_forward_hook(_release(layer), always_call=True))

    def enter(self, index: int, trunk: Tensor) -> None:
        """A layer begins, with its trunk in this buffer."""
        self._companions = stored_views(self._layers[index].split.companions, trunk)

    def close(self) -> None:
        """Detach, and end the threads. The stocks are left to their owner."""
        for hook in self._hooks:
            hook.remove()
        for shelf in self._shelves:
            shelf.close()

    @property
    def hits(self) -> int:
        """Experts that were in a cache when a pass needed them."""
        return sum(shelf.cache.hits for shelf in self._shelves)

    @property
    def misses(self) -> int:
        """Experts that were not."""
        return sum(shelf.cache.misses for shelf in self._shelves)

    @property
    def bytes_streamed(self) -> int:
        """Of experts, in bulk or one by one, that were brought to where they are used."""
        return self._bytes_in_bulk + sum(shelf.bytes_fetched for shelf in self._shelves)

    @property
    def waited_seconds(self) -> float:
        """Time that computation stood still for experts."""
        return self._bulks.waited_seconds + sum(shelf.waited_seconds for shelf in self._shelves)

    def _before(self, layer: ExpertLayer, idle: Callable[[], Idle | None]) -> Callable[[nn.Module, Any], Any]:
        def fetch(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            hidden, choice, *rest = inputs
            if self._wants_single(layer, choice):
                used, renumbered = torch.unique(choice, return_inverse=True)  # ascending, and so are the new numbers
                experts: list[int] = used.tolist()
                if len(experts) <= layer.most_single:
                    self._bind_some(layer, experts, choice, idle())
                    return hidden, renumbered, *rest
            self._bind_all(layer, idle())
            return None

        return fetch

    def _after(self, layer: ExpertLayer) -> Callable[[nn.Module, Any, Any], None]:
        def give_back(_module: nn.Module, inputs: tuple[Tensor, ...], _output: object) -> None:
            if self._taken_in_bulk == layer.index:
                self._taken_in_bulk = None
                self._bulks.supplies[layer.index].give_back(layer.index)
                self._bytes_in_bulk += 0 if layer.shelf is None else layer.split.bulk.nbytes
            waited = self._trunks.waited_seconds + self.waited_seconds + self._bind_seconds
            seconds = self._pace.done(layer.index, waited)
            if seconds is not None and layer.shelf:
                layer.shelf.meter.computed(len(inputs[0]), seconds)

        return give_back

    def _wants_single(self, layer: ExpertLayer, choice: Tensor) -> bool:
        begins, self._last = layer.index <= self._last, layer.index
        if begins:
            self._takes_single.clear()
        if layer.shelf is None:
            return True  # nothing is read, and nothing decoded that is not used
        if layer.shelf not in self._takes_single:
            rows, chosen = choice.shape
            situation = layer.shelf.meter.situation(rows, chosen, self._bulks.bytes_per_second)
            self._takes_single[layer.shelf] = self._choose(situation)
        return self._takes_single[layer.shelf]

    def _bind_all(self, layer: ExpertLayer, idle: Idle | None) -> None:
        buffer = self._bulks.supplies[layer.index].take(layer.index, idle)
        self._taken_in_bulk = layer.index
        with self._binding(layer, layer.experts.count if layer.binding.decodes else 0):
            layer.binding.bind_all(buffer, {**stored_views(layer.split.bulk, buffer), **self._companions})

    def _bind_some(self, layer: ExpertLayer, experts: Sequence[int], choice: Tensor, idle: Idle | None) -> None:
        place = {expert: place for place, expert in enumerate(experts)}
        hits_before = layer.shelf.cache.hits if layer.shelf else 0
        was_full = layer.shelf is None or layer.shelf.cache.is_full
        with closing(self._deliveries(layer, experts, idle)) as deliveries:
            for delivery in deliveries:
                with self._binding(layer, 1):
                    own = {name: stack[delivery.expert] for name, stack in self._companions.items()}
                    layer.binding.bind_one(place[delivery.expert], {**delivery.parts, **own})
        layer.binding.show(len(experts))
        if layer.shelf:
            hits = layer.shelf.cache.hits - hits_before if was_full else None
            rows, chosen = choice.shape
            layer.shelf.meter.routed(rows, chosen, len(experts), hits)

    def _deliveries(self, layer: ExpertLayer, experts: Sequence[int], idle: Idle | None) -> Generator[Delivery]:
        if layer.shelf and layer.source:
            is_timed = not self._bulks.is_filling  # right behind a pass of whole layers, the next ones are read ahead
            return layer.shelf.deliver(layer.split, experts, layer.source, idle, is_timed)
        buffer = self._bulks.homes[layer.index]
        return (
            Delivery(expert, {part.name: part.view(buffer[part.in_bulk(expert)]) for part in layer.split.parts})
            for expert in experts
        )

    @contextmanager
    def _binding(self, layer: ExpertLayer, experts: int) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        seconds = time.perf_counter() - begin
        self._bind_seconds += seconds
        if layer.shelf and experts:
            layer.shelf.meter.bound(experts, seconds)


def _release(layer: ExpertLayer) -> Callable[[nn.Module, Any, Any], None]:
    def release(_module: nn.Module, _inputs: object, _output: object) -> None:
        layer.binding.release()

    return release
