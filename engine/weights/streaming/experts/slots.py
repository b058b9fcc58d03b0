"""Slots for single experts on the compute device: which expert is in which, where it comes from, and who fills them."""

import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from engine.weights.store.disk import DiskReader
from engine.weights.streaming.copy_stream import Lane
from engine.weights.streaming.experts.choice import ExpertMeter
from engine.weights.streaming.experts.split_layout import SlotShape, SplitLayout
from engine.weights.streaming.prefetch_ring import Idle

READERS = 2  # of single experts: each is so small that a disk rests between two reads of one thread

Expert = tuple[int, int]
"""(layer, number in the layer)"""


@dataclass(frozen=True, slots=True)
class Taken:
    """The slots of the experts that were asked for, in their order, and those of them that must be brought there."""

    slots: tuple[int, ...]
    missing: tuple[Expert, ...]


class ExpertCache:
    """Slots of one expert each. It knows no bytes: whoever takes a missing expert brings it, or forgets it again."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.hits = 0
        self.misses = 0
        self._slot_of: OrderedDict[Expert, int] = OrderedDict()  # the least recently used first
        self._free = list(range(slots - 1, -1, -1))

    @property
    def is_full(self) -> bool:
        """Whether the next expert that is missing takes the place of another."""
        return not self._free

    def take(self, experts: Sequence[Expert]) -> Taken:
        """Slots for these experts, all different and no more than there are slots; none of them displaces another."""
        assert len(set(experts)) == len(experts) <= self.slots, "more experts than slots, or one twice"
        missing = tuple(expert for expert in experts if expert not in self._slot_of)
        for expert in experts:
            if expert in self._slot_of:
                self._slot_of.move_to_end(expert)
        for expert in missing:  # what is needed now stands behind everything else, so it is never what goes
            slot = self._free.pop() if self._free else self._slot_of.popitem(last=False)[1]
            self._slot_of[expert] = slot
        self.misses += len(missing)
        self.hits += len(experts) - len(missing)
        return Taken(tuple(self._slot_of[expert] for expert in experts), missing)

    def forget(self, experts: Iterable[Expert]) -> None:
        """They never came: their slots are free."""
        for expert in experts:
            slot = self._slot_of.pop(expert, None)
            if slot is not None:
                self._free.append(slot)

    def __contains__(self, expert: Expert) -> bool:
        return expert in self._slot_of


class ExpertSource(Protocol):
    """Where the experts of one layer come from."""

    def bring(self, expert: int, slot: Tensor, after: Any) -> None:
        """Fill a slot, uint8, once the device has passed the mark `after`; raises `ModelError` if it cannot be read."""


class FromDisk:
    """Into slots that are host memory and begin on a page."""

    def __init__(self, split: SplitLayout, shape: SlotShape, disk: DiskReader) -> None:
        self._split, self._shape, self._disk = split, shape, disk

    def bring(self, expert: int, slot: Tensor, after: Any) -> None:
        """See `ExpertSource.bring`; the host has always passed every mark."""
        del after
        self._disk.read(self._split.pages_of(expert, self._shape), slot)


class FromRam:
    """From a buffer of all the layer's experts, which stays in pinned RAM, to the device."""

    def __init__(self, split: SplitLayout, shape: SlotShape, home: Tensor, lane: Lane) -> None:
        self._split, self._shape, self._home, self._lane = split, shape, home, lane

    def bring(self, expert: int, slot: Tensor, after: Any) -> None:
        """See `ExpertSource.bring`."""
        for part, span in self._shape.spans(self._split, expert):
            self._lane.copy(self._home[part.in_bulk(expert)], slot[span], after)


class ThroughRam:
    """From disk into a passage in pinned RAM, as large as a slot, and on to the device."""

    def __init__(self, disk: FromDisk, passage: Tensor, lane: Lane) -> None:
        self._disk, self._passage, self._lane = disk, passage, lane

    def bring(self, expert: int, slot: Tensor, after: Any) -> None:
        """See `ExpertSource.bring`. One expert at a time: the disk is slower than the copy by far."""
        self._disk.bring(expert, self._passage, None)
        self._lane.copy(self._passage, slot, after)


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
