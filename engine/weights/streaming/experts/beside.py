"""Experts that the processor multiplies where they lie in RAM, while an accelerator computes those in its slots.

The rows go to the host, kilobytes in one copy, and what the processor found comes back; weights stay where they are.
KTransformers (SOSP 2025) and llama.cpp divide mixtures so.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.weights.streaming.experts.binding import ExpertBinding, Experts
from engine.weights.streaming.experts.clocks import Clock
from engine.weights.streaming.experts.followed import FollowedExperts, Pairs, Parts, Run, renumbered
from engine.weights.streaming.experts.slots import ExpertSlots, ExpertSource
from engine.weights.streaming.experts.split_layout import SplitLayout
from engine.weights.streaming.prefetch_ring import OnWait

BROUGHT = 2  # experts a layer and pass: few enough to arrive while the processor computes the others


@dataclass(frozen=True, slots=True)
class Home:
    """Where a layer's experts lie in RAM, all together; `split` says where in them.

    `companions`: what its trunk has of them, in RAM or on the device.
    """

    split: SplitLayout
    bulk: Tensor
    companions: Parts


class BesideExperts:
    """One layer's experts. Those in slots are computed by the device, all others by the processor.

    Every expert's output goes to its place, and each row's are added up in the order of the router's choice: bits do
    not depend on who was first. They do depend on who computes an expert, as two devices round differently.
    """

    def __init__(
        self,
        experts: Experts,
        binding: ExpertBinding,
        followed: FollowedExperts,
        home: Home,
        seen: SplitLayout,
        slots: ExpertSlots,
        source: ExpertSource,
    ) -> None:
        """`seen`: where the layer's parts lie in memory of the device."""
        self._module: Any = experts.module
        self._binding, self._followed, self._seen = binding, followed, seen
        self._slots, self._source, self._home = slots, source, home
        self._companions = {name: stack.cpu() for name, stack in home.companions.items()}
        self._parts: dict[int, Parts] = {}

    def __call__(
        self, rows: tuple[Tensor, Tensor, Tensor], companions: Parts, clock: Clock, on_wait: OnWait | None
    ) -> tuple[Tensor, list[tuple[Any, Any]]]:
        """The module's output for hidden [rows, width], choice and weights [rows, chosen], and the device's stretches.

        `companions`: what the device has of the experts in the layer's trunk. The host waits for the device once: for
        the rows. When the processor begins, all that the device has to do is launched.
        """
        hidden, choice, weights = rows
        begin = clock.mark()
        on_host, chosen = _to_host(hidden, choice)
        pairs = Pairs.of(chosen)
        layer = self._seen.trunk.index
        used = [run.expert for run in pairs.runs]
        cache = self._slots.cache
        was_full = cache.is_full
        missing = cache.note([(layer, expert) for expert in used])
        held = set(used).difference(expert for _, expert in missing)
        here = [run for run in pairs.runs if run.expert in held]
        there = [run for run in pairs.runs if run.expert not in held]
        runs = (*here, *there)
        order = torch.cat([pairs.order[run.begin : run.end] for run in runs])
        numbers = torch.arange(len(runs)).repeat_interleave(torch.tensor([run.rows for run in runs]))
        order, numbers = torch.stack((order, numbers)).to(hidden.device, non_blocking=True)
        outputs = [self._on_device(hidden, order, numbers, here, companions)] if here else []
        self._slots.used(layer, held)
        stretch = begin, clock.mark()
        if there:
            found = self._on_host(on_host, pairs, there, on_wait).to(hidden.dtype)
            outputs.append(found.to(hidden.device, non_blocking=True))
        self._followed.use.experts += len(held)
        self._slots.meter.routed(len(hidden), choice.shape[1], len(used), len(held) if was_full else None)
        found = weighted_sum(torch.cat(outputs), order, weights).to(hidden.dtype)
        return found, [stretch]

    def _on_device(self, hidden: Tensor, order: Tensor, numbers: Tensor, runs: Sequence[Run], own: Parts) -> Tensor:
        """Outputs of the first pairs in `order`, those of experts in slots, by the family's own forward.

        Each pair is a row with one choice, the number of its run, whose weight is 1.
        """
        for place, each in enumerate(self._slots.held(self._seen, [run.expert for run in runs])):
            self._binding.bind_one(place, {**each.parts, **{name: stack[each.expert] for name, stack in own.items()}})
        count = sum(run.rows for run in runs)
        rows = hidden[order[:count] // (len(order) // len(hidden))]
        self._binding.show(len(runs))
        try:
            forward = type(self._module).forward
            found: Tensor = forward(self._module, rows, numbers[:count, None], hidden.new_ones(count, 1))
            return found
        finally:
            self._binding.release()

    def _on_host(self, hidden: Tensor, pairs: Pairs, runs: Sequence[Run], on_wait: OnWait | None) -> Tensor:
        """Outputs of the other experts' pairs, float32; those that are worth a slot are brought meanwhile."""
        layer, slots = self._seen.trunk.index, self._slots
        missing = [(layer, run.expert) for run in runs]
        brought = [expert for _, expert in slots.cache.worthy(missing, BROUGHT)]
        x = torch.cat([hidden[pairs.rows[run.begin : run.end]] for run in runs]).float()
        with slots.bringing(self._seen, brought, self._source, on_wait, is_timed=True):
            begin = time.perf_counter()
            found = self._followed.outputs(x, renumbered(runs), self._parts_of)
            slots.meter.multiplied(len(runs), len(x), time.perf_counter() - begin)
        return found

    def _parts_of(self, expert: int) -> Parts:
        """What RAM has of an expert; it stays there, so its views are made once."""
        if expert not in self._parts:
            home = self._home
            of_bulk = {part.name: part.view(home.bulk[part.in_bulk(expert)]) for part in home.split.parts}
            self._parts[expert] = {**of_bulk, **{name: stack[expert] for name, stack in self._companions.items()}}
        return self._parts[expert]


def _to_host(hidden: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
    """Both in host memory, by one copy, for which the host waits."""
    pieces = [each.contiguous().view(torch.uint8).flatten() for each in (choice.long(), hidden)]
    numbers, states = torch.split(torch.cat(pieces).cpu(), [len(piece) for piece in pieces])
    return states.view(hidden.dtype).view(hidden.shape), numbers.view(torch.int64).view(choice.shape)


def weighted_sum(outputs: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    """Outputs [pairs, width] of pairs in this order of theirs, weighted, and each row's added up: [rows, width].

    Always in the order of the router's choice, whichever expert was computed first.
    """
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order), device=order.device)
    in_order = outputs[inverse].view(*weights.shape, outputs.shape[-1])
    return (in_order * weights.unsqueeze(-1)).sum(dim=1)
