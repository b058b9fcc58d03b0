"""Brings a mixture's experts once their layer's router has chosen: all of the layer's, or only those of this pass."""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from engine.model.passes.light.experts import StayingExperts
from engine.model.passes.light.sparse import STAYING
from engine.weights.planning.expert_ways import Choose, ExpertWay
from engine.weights.streaming.binding import stored_views
from engine.weights.streaming.experts.beside import BesideExperts
from engine.weights.streaming.experts.binding import ExpertBinding, Experts
from engine.weights.streaming.experts.clocks import Clock, PendingTimes
from engine.weights.streaming.experts.followed import FollowedExperts, LastingParts, Parts, Use
from engine.weights.streaming.experts.lookahead import Router, foretold
from engine.weights.streaming.experts.slots import ExpertSlots, ExpertSource, LoadedExpert
from engine.weights.streaming.experts.split_layout import SplitLayout
from engine.weights.streaming.layer_store import LayerStore
from engine.weights.streaming.prefetch_ring import OnWait

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExpertLayer:
    """One layer with experts. `source` loads them into `slots`; both are None if they stay on the device, encoded.

    Either `binding` gives their module its weights, or `followed` computes in the module's place, as `beside` does in
    passes that take this way. `router`: what chooses among them, where it can be asked in other layers' time.
    """

    experts: Experts
    split: SplitLayout
    binding: ExpertBinding | None
    slots: ExpertSlots | None
    source: ExpertSource | None
    followed: FollowedExperts | None = None
    beside: BesideExperts | None = None
    router: Router | None = None

    @property
    def index(self) -> int:
        """Its number in the model."""
        return self.split.trunk.index

    @property
    def most_single(self) -> int:
        """How many experts can be loaded one by one; all of them are decoded at once."""
        return self.slots.cache.slots if self.slots else self.experts.count - 1


class ExpertStream:
    """Hooks on the experts of all layers that are split into trunk and experts.

    All experts of a layer come through the rings of `bulks`, read ahead. Single ones are read once the router has run,
    into slots that layers of the same shape share. A pass decides between the two at the first layer of such a group.

    A layer may call its experts several times in a pass, with a chunk of a long prompt each: what came in bulk stays
    until the layer ends.
    """

    def __init__(
        self, layers: Sequence[ExpertLayer], bulks: LayerStore, choose: Choose, clock: Clock, use: Use
    ) -> None:
        """`bulks`, loaded, holds the experts of each layer together; `clock`: of the device that computes."""
        self._layers = {layer.index: layer for layer in layers}
        self._next = _next_layers(sorted(layers, key=lambda layer: layer.index))
        self._bulks, self._choose, self._clock, self._use = bulks, choose, clock, use
        self._times = PendingTimes(clock)
        self._slots = list(dict.fromkeys(layer.slots for layer in layers if layer.slots))
        self._ways: dict[ExpertSlots, ExpertWay] = {}
        self._companions: Mapping[str, Tensor] = {}  # of the layer that is running
        self._companions_of: dict[int, Mapping[str, Tensor]] = {}  # of every layer, as it ran last
        self._parts_of: Callable[[int], Parts] = dict[
            int, Parts
        ]().__getitem__  # where the experts that are followed are found
        self._single: Sequence[int] = ()  # experts of the layer that is running, which come while they are computed
        self._is_beside = False  # the layer that is running is computed by the processor, too
        self._views: dict[int, tuple[tuple[int, ...], dict[int, Parts]]] = {}  # by layer: where it lies, its experts
        self._in_bulk: Tensor | None = None  # all experts of the layer that is running, which must be released
        self._bytes_in_bulk = 0
        self._last = -1
        self._rows = 0  # that the layer that is running computes
        self._begun: Any = None  # where its computation goes on, while nothing is waited for or bound
        self._computed: list[tuple[Any, Any]] = []  # the stretches of it that are over
        self._hooks: list[RemovableHandle] = []

    def hook(self, on_wait: Callable[[], OnWait | None]) -> None:
        """Attach to the layers' experts; `on_wait` tells what to do while they are waited for."""
        for layer in self._layers.values():
            module = layer.experts.module
            brings = self._before(layer, on_wait)
            self._hooks.append(module.register_forward_pre_hook(brings))
            if layer.followed or layer.beside:
                module.__dict__["forward"] = self._computing(layer, on_wait)  # found before that of the class
            if layer.followed and layer.slots is None:
                module.__dict__[STAYING] = self._staying(layer, layer.followed, brings)
            if layer.binding:
                self._hooks.append(module.register_forward_hook(_release(layer.binding), always_call=True))

    def enter(self, index: int, trunk: Tensor) -> None:
        """A layer begins, with its trunk in this buffer."""
        if index <= self._last:  # another pass
            self._ways.clear()
        self._last, self._in_bulk, self._rows = index, None, 0
        self._companions = self._companions_of[index] = stored_views(self._layers[index].split.companions, trunk)
        self._rows, self._computed = 0, []
        self._begun = self._clock.mark()

    def leave(self, index: int) -> None:
        """A layer has been launched, all of it."""
        layer = self._layers[index]
        if layer.slots:
            rows, meter = self._rows, layer.slots.meter
            stretches = [*self._computed, (self._begun, self._clock.mark())]
            self._times.add(stretches, lambda seconds: meter.computed(rows, seconds))
        if self._in_bulk is not None:
            self._in_bulk = None
            self._bulks.sources[index].release(index)
            self._bytes_in_bulk += 0 if layer.slots is None else layer.split.bulk.nbytes

    def stays(self, index: int) -> bool:
        """Whether all experts of a layer stay in memory, and the processor computes them where they lie."""
        layer = self._layers[index]
        return bool(layer.followed) and layer.slots is None and layer.binding is None and not layer.beside

    def close(self) -> None:
        """Detach, and end the threads. The stores are left to their owner."""
        for hook in self._hooks:
            hook.remove()
        for layer in self._layers.values():
            for name in ("forward", STAYING):
                layer.experts.module.__dict__.pop(name, None)
        for slots in self._slots:
            slots.close()

    @property
    def followed_modules(self) -> tuple[nn.Module, ...]:
        """The experts' modules in whose place the processor alone computes."""
        return tuple(layer.experts.module for layer in self._layers.values() if layer.followed)

    @property
    def bytes_streamed(self) -> int:
        """Bytes of experts, in bulk or one by one, that were moved to where they are used."""
        return self._bytes_in_bulk + sum(slots.bytes_fetched for slots in self._slots)

    @property
    def waited_seconds(self) -> float:
        """Time that computation waited for experts."""
        return self._bulks.waited_seconds + sum(slots.waited_seconds for slots in self._slots)

    def _before(self, layer: ExpertLayer, on_wait: Callable[[], OnWait | None]) -> Callable[[nn.Module, Any], Any]:
        def fetch(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            hidden, choice, *rest = inputs
            self._rows += len(hidden)
            self._computed.append((self._begun, self._clock.mark()))
            renumbered = None
            self._is_beside = self._goes_beside(layer, choice)
            if layer.binding and not self._is_beside:
                renumbered = self._bind(layer, layer.binding, choice, on_wait())
            elif layer.followed:
                self._find(layer, choice, on_wait())
            self._begun = self._clock.mark()
            return None if renumbered is None else (hidden, renumbered, *rest)

        return fetch

    def _computing(
        self, layer: ExpertLayer, on_wait: Callable[[], OnWait | None]
    ) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """What runs in place of the module's own forward, with the same arguments."""
        own = type(layer.experts.module).forward

        def compute(hidden: Tensor, choice: Tensor, weights: Tensor) -> Tensor:
            if layer.followed and self._single:
                with closing(self._as_they_come(layer, hidden, choice, on_wait())) as portions:
                    return layer.followed.in_portions(hidden, choice, weights, portions)
            if layer.followed:
                return layer.followed(hidden, choice, weights, self._parts_of)
            if not (layer.beside and self._is_beside):
                found: Tensor = own(layer.experts.module, hidden, choice, weights)
                return found
            found, stretches = layer.beside((hidden, choice, weights), self._companions, self._clock, on_wait())
            self._computed += stretches
            self._begun = self._clock.mark()
            return found

        return compute

    def _find(self, layer: ExpertLayer, choice: Tensor, on_wait: OnWait | None) -> None:
        """Have the bytes of the experts that the router chose where the processor reaches them, and say where.

        Single ones are only brought while they are computed.
        """
        self._single = ()
        if layer.slots is None:
            self._parts_of = self._in(layer, self._bulks.resident[layer.index])
            return
        if self._in_bulk is None and self._wants_single(layer, choice):
            experts = sorted(set(choice.flatten().tolist()))
            if len(experts) <= layer.most_single:
                self._single = experts
                return
        if self._in_bulk is None:
            self._in_bulk = self._bulks.sources[layer.index].acquire(layer.index, on_wait)
        self._parts_of = self._in(layer, self._in_bulk)

    def _as_they_come(
        self, layer: ExpertLayer, hidden: Tensor, choice: Tensor, on_wait: OnWait | None
    ) -> Generator[Mapping[int, Parts]]:
        """The single experts of the running layer in portions, each to be computed while the next one is on its way."""
        own, then = self._companions, partial(self._look_ahead, layer, hidden, choice)
        coming = self._load(layer, self._single, on_wait, then)
        with _routed(layer.slots, choice, self._single), closing(coming) as loaded:
            while True:
                self._computed.append((self._begun, self._clock.mark()))
                some = next(loaded, None)
                self._begun = self._clock.mark()
                if some is None:
                    return
                yield {
                    each.expert: {**each.parts, **{name: stack[each.expert] for name, stack in own.items()}}
                    for each in some
                }

    def _look_ahead(self, layer: ExpertLayer, hidden: Tensor, choice: Tensor) -> None:
        """Have what the next layer will probably choose brought behind what this one has chosen.

        Not before that layer has run once: until then its router has no weights.
        """
        later = self._next.get(layer.index)
        if later is None or later.index not in self._companions_of:
            return
        if later.router is None or later.slots is None or later.source is None:
            return
        try:
            experts = foretold(later.router, hidden, choice.shape[-1])
        except Exception:  # noqa: BLE001  # a network's own code, asked what no pass asks it: go on without
            _log.warning("The experts of layer %d cannot be foretold", later.index, exc_info=True)
            del self._next[layer.index]
            return
        later.slots.expect(later.split, experts, later.source, {(layer.index, each) for each in self._single})

    def _staying(
        self, layer: ExpertLayer, followed: FollowedExperts, brings: Callable[..., Any]
    ) -> Callable[[], StayingExperts | None]:
        """What gives all experts of a layer that has run before, which stay in memory; found once for a place."""
        found: list[StayingExperts | None] = []
        places: list[int] = []

        def staying() -> StayingExperts | None:
            bulk, own = self._bulks.resident[layer.index], self._companions_of.get(layer.index)
            if own is None:
                return None
            here = [bulk.data_ptr(), *(stack.data_ptr() for stack in own.values())]
            if places != here:
                places[:], found[:] = here, [followed.staying(self._in(layer, bulk), brings)]
            return found[0]

        return staying

    def _in(self, layer: ExpertLayer, bulk: Tensor) -> Callable[[int], Parts]:
        """The experts in a buffer that holds all of a layer.

        Where all of it stays in memory, views of those in use are made once, some kilobytes for each; others last as
        long as the layer runs.
        """
        own = self._companions_of[layer.index]
        place = layer.index, bulk.data_ptr(), *(stack.data_ptr() for stack in own.values())
        stays = layer.slots is None and place == self._views.setdefault(layer.index, (place, {}))[0]
        views: dict[int, Parts] = self._views[layer.index][1] if stays else {}
        make = LastingParts if stays else dict

        def parts_of(expert: int) -> Parts:
            if expert not in views:
                of_bulk = {part.name: part.view(bulk[part.in_bulk(expert)]) for part in layer.split.parts}
                views[expert] = make(of_bulk | {name: stack[expert] for name, stack in own.items()})
            return views[expert]

        return parts_of

    def _bind(
        self, layer: ExpertLayer, binding: ExpertBinding, choice: Tensor, on_wait: OnWait | None
    ) -> Tensor | None:
        """Bind what the router's choice needs; returns the choice in numbers of those bound, None for all of them.

        The host waits for the device once at most: to know which experts it has chosen.
        """
        if self._in_bulk is None and self._wants_single(layer, choice):
            is_used, renumbered = used_experts(choice, layer.experts.count)
            experts = [expert for expert, is_one in enumerate(is_used.tolist()) if is_one]
            if len(experts) <= layer.most_single:
                with _routed(layer.slots, choice, experts):
                    self._bind_some(layer, binding, experts, on_wait)
                return renumbered
        self._bind_all(layer, binding, on_wait)
        return None

    def _goes_beside(self, layer: ExpertLayer, choice: Tensor) -> bool:
        """Whether the processor computes what is missing; not behind an earlier chunk that took the whole layer."""
        if layer.beside is None or layer.slots is None or self._in_bulk is not None:
            return False
        return self._way(layer.slots, choice) == "computed"

    def _wants_single(self, layer: ExpertLayer, choice: Tensor) -> bool:
        if layer.slots is None:
            return True  # nothing is read, and nothing decoded that is not used
        return self._way(layer.slots, choice) != "whole"

    def _way(self, slots: ExpertSlots, choice: Tensor) -> ExpertWay:
        """The way of this pass for all layers that share these slots."""
        if slots not in self._ways:
            rows, chosen = choice.shape
            situation = slots.meter.situation(rows, chosen, self._bulks.bytes_per_second)
            self._ways[slots] = self._choose(situation)
        return self._ways[slots]

    def _bind_all(self, layer: ExpertLayer, binding: ExpertBinding, on_wait: OnWait | None) -> None:
        if self._in_bulk is not None:  # for an earlier chunk
            binding.bind_again(self._in_bulk)
            return
        self._in_bulk = buffer = self._bulks.sources[layer.index].acquire(layer.index, on_wait)
        begin = self._clock.mark()
        binding.bind_all(buffer, {**stored_views(layer.split.bulk, buffer), **self._companions})
        if binding.decodes:
            self._bound(layer, layer.experts.count, begin)

    def _bind_some(
        self, layer: ExpertLayer, binding: ExpertBinding, experts: Sequence[int], on_wait: OnWait | None
    ) -> None:
        place = {expert: place for place, expert in enumerate(experts)}
        with closing(self._load(layer, experts, on_wait)) as loaded:
            for number, each in enumerate(chain.from_iterable(loaded)):
                begin = None if number else self._clock.mark()
                own = {name: stack[each.expert] for name, stack in self._companions.items()}
                binding.bind_one(place[each.expert], {**each.parts, **own})
                if begin is not None:
                    self._bound(layer, 1, begin)  # the others take as long; marks of a device cost time as well
        binding.show(len(experts))
        self._use.experts += len(experts)

    def _load(
        self,
        layer: ExpertLayer,
        experts: Sequence[int],
        on_wait: OnWait | None,
        then: Callable[[], None] = lambda: None,
    ) -> Generator[Sequence[LoadedExpert]]:
        if layer.slots and layer.source:
            is_timed = not self._bulks.is_filling  # right behind a pass of whole layers, the next ones are read ahead
            return layer.slots.load(layer.split, experts, layer.source, on_wait, is_timed, then)
        buffer = self._bulks.resident[layer.index]
        return (
            [LoadedExpert(expert, {part.name: part.view(buffer[part.in_bulk(expert)]) for part in layer.split.parts})]
            for expert in experts
        )

    def _bound(self, layer: ExpertLayer, experts: int, begin: Any) -> None:
        if layer.slots:
            meter = layer.slots.meter
            self._times.add([(begin, self._clock.mark())], lambda seconds: meter.bound(experts, seconds))


def _next_layers(layers: Sequence[ExpertLayer]) -> dict[int, ExpertLayer]:
    """By its number, what comes behind each of these layers, if that shares its slots."""
    return {one.index: other for one, other in pairwise(layers) if one.slots and one.slots is other.slots}


def used_experts(choice: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Which of `count` experts a router's choice, int64 of any shape, names: bool [count].

    And the same choice in their own numbers, 0 for the first that is used. `torch.unique` finds both, but has the host
    wait for the device on its way.
    """
    is_used = torch.zeros(count, dtype=torch.bool, device=choice.device)
    is_used.scatter_(0, choice.flatten().long(), True)
    return is_used, (is_used.cumsum(0) - 1)[choice]


@contextmanager
def _routed(slots: ExpertSlots | None, choice: Tensor, experts: Sequence[int]) -> Iterator[None]:
    """Tell the meter of the experts that are loaded inside."""
    if slots is None:
        yield
        return
    before, was_full = slots.cache.hits, slots.cache.is_full
    yield
    rows, chosen = choice.shape
    slots.meter.routed(rows, chosen, len(experts), slots.cache.hits - before if was_full else None)


def _release(binding: ExpertBinding) -> Callable[[nn.Module, Any, Any], None]:
    def release(_module: nn.Module, _inputs: object, _output: object) -> None:
        binding.release()

    return release
