"""The slots of the expert cache for layers that are alike, and the threads that fill them."""

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from engine.weights.streaming.experts.cache import ExpertCache
from engine.weights.streaming.experts.layout import SlotShape, SplitLayout
from engine.weights.streaming.experts.meter import ExpertMeter
from engine.weights.streaming.experts.source import ExpertSource
from engine.weights.streaming.lane import Lane
from engine.weights.streaming.stage import Idle

READERS = 2  # of single experts: each is so small that a disk rests between two reads of one thread


@dataclass(frozen=True, slots=True)
class Delivery:
    """An expert whose bytes are in their slot: its number in the layer, and its stored tensors by name."""

    expert: int
    parts: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Trip:
    """When an expert set out for its slot, and when it was there, by the clock of `time.perf_counter`."""

    begin: float
    end: float


class Shelf:
    """Slots of one expert each, on the compute device."""

    def __init__(self, memory: Tensor, shape: SlotShape, slots: int, meter: ExpertMeter, lane: Lane | None) -> None:
        """`memory`: uint8, at least `slots` times as large as one slot; page-aligned if it is the host's."""
        self.cache = ExpertCache(slots)
        self.meter = meter
        self.waited_seconds = 0.0
        self.bytes_fetched = 0
        self._memory, self._shape, self._lane = memory, shape, lane
        self._marks: dict[int, Any] = {}  # by slot: behind the last computation that read it
        # On the way to a device they pass through memory that holds one at a time.
        self._threads = ThreadPoolExecutor(1 if lane else READERS, "experts to their slots")

    def deliver(
        self, split: SplitLayout, experts: Sequence[int], source: ExpertSource, idle: Idle | None, is_timed: bool
    ) -> Generator[Delivery]:
        """The experts of one layer: first those that are there, then the others as they arrive, in the file's order.

        While it waits for one, `idle` is called as long as it finds work. `is_timed`: how long they take is worth
        knowing. Raises what bringing one raised; what has not been delivered by then is not in the cache either.
        """
        layer = split.trunk.index
        taken = self.cache.take([(layer, expert) for expert in experts])
        slot_of = dict(zip(experts, taken.slots, strict=True))
        trips: list[Trip] = []
        coming = {expert: self._send_for(expert, slot_of[expert], source) for _, expert in taken.missing}
        try:
            for expert in experts:
                if expert not in coming:
                    yield self._delivery(split, expert, slot_of[expert])
            for expert in list(coming):
                trips.append(self._await(coming[expert], idle))
                del coming[expert]
                self.bytes_fetched += split.expert_bytes
                yield self._delivery(split, expert, slot_of[expert])
            if trips and is_timed:
                seconds = max(trip.end for trip in trips) - min(trip.begin for trip in trips)
                self.meter.fetched(len(trips) * split.expert_bytes, seconds)
        finally:
            self._abandon(layer, coming)
            self._mark(taken.slots)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)

    def _send_for(self, expert: int, slot: int, source: ExpertSource) -> "Future[Trip]":
        memory, mark = self._slot(slot), self._marks.get(slot)

        def bring() -> Trip:
            begin = time.perf_counter()
            source.bring(expert, memory, mark)
            return Trip(begin, time.perf_counter())

        return self._threads.submit(bring)

    def _await(self, arrival: "Future[Trip]", idle: Idle | None) -> Trip:
        begin = time.perf_counter()
        while idle is not None and not arrival.done() and idle():
            pass
        try:
            return arrival.result()
        finally:
            self.waited_seconds += time.perf_counter() - begin

    def _abandon(self, layer: int, coming: Mapping[int, "Future[Trip]"]) -> None:
        """What is still under way must not land in a slot that belongs to another by then."""
        for arrival in coming.values():
            arrival.cancel()
        wait(arrival for arrival in coming.values() if not arrival.cancelled())
        self.cache.forget((layer, expert) for expert in coming)

    def _mark(self, slots: Iterable[int]) -> None:
        if self._lane:
            self._marks |= dict.fromkeys(slots, self._lane.computed())

    def _slot(self, number: int) -> Tensor:
        return self._memory[number * self._shape.nbytes : (number + 1) * self._shape.nbytes]

    def _delivery(self, split: SplitLayout, expert: int, slot: int) -> Delivery:
        memory = self._slot(slot)
        spans = self._shape.spans(split, expert)
        return Delivery(expert, {part.name: part.view(memory[span]) for part, span in spans})
