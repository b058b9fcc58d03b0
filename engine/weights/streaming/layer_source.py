"""Where a layer's bytes come from when it is about to run: resident memory, or a ring that reads ahead."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from engine.accelerator import is_accelerator
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import CopiedLayout, LayerLayout
from engine.weights.streaming.copy_stream import CopyStream, Throughput
from engine.weights.streaming.idle_clock import IdleClock
from engine.weights.streaming.prefetch_ring import OnWait, PrefetchRing
from engine.weights.streaming.staging import Carrier


class LayerSource(Protocol):
    """Hands out layers' bytes, uint8, in the order of the layers."""

    def acquire(self, layer: int, on_wait: OnWait | None = None) -> Tensor:
        """The layer's bytes, unchanged until `release`; calls `on_wait` while it waits for them."""

    def release(self, layer: int) -> None:
        """The layer has run."""


class ResidentBytes:
    """Bytes that stay where they are."""

    def __init__(self, buffers: Mapping[int, Tensor]) -> None:
        self._buffers = buffers

    def acquire(self, layer: int, on_wait: OnWait | None = None) -> Tensor:
        """They are there."""
        del on_wait
        return self._buffers[layer]

    def release(self, layer: int) -> None:
        """They stay there."""


class LayerRing(ABC):
    """Slots that a thread, `prefetch`, fills with the next layers, in their order."""

    def __init__(self, name: str, layers: Sequence[int], slots: int) -> None:
        self.throughput = Throughput()
        self.prefetch = PrefetchRing(name, layers, slots, self._fill)

    @abstractmethod
    def _fill(self, layer: int, slot: int) -> None:
        """Copy the layer into the slot; called in the ring's thread."""

    @property
    def idle_seconds(self) -> float:
        """Time in which whoever computes had nothing to do because a layer was not there."""
        return self.prefetch.waited_seconds


class DiskRing(LayerRing):
    """From disk into a ring of host memory."""

    def __init__(self, layouts: Mapping[int, LayerLayout], disk: DiskReader, slots: Sequence[Tensor]) -> None:
        """`slots`: page-aligned, each large enough for every layer."""
        self._layouts = layouts
        self._disk = disk
        self._slots = slots
        super().__init__("weights from disk", sorted(layouts), len(slots))

    def _fill(self, layer: int, slot: int) -> None:
        begin = time.perf_counter()
        self._disk.read(self._layouts[layer], self._slots[slot])
        self.throughput.add(self._layouts[layer].nbytes, time.perf_counter() - begin)

    def acquire(self, layer: int, on_wait: OnWait | None = None) -> Tensor:
        """The slot that holds the layer."""
        return self._slots[self.prefetch.acquire(layer, on_wait)]

    def release(self, layer: int) -> None:
        """The slot may be filled again."""
        self.prefetch.release(layer)


class DeviceRing(LayerRing):
    """From host memory, resident or a ring, into a ring of the device's memory."""

    def __init__(
        self,
        sources: Mapping[int, LayerSource],
        layouts: Mapping[int, CopiedLayout],
        pageable: Collection[int],
        carrier: Carrier,
        copy_stream: CopyStream,
        slots: int,
    ) -> None:
        """`pageable`: the layers whose source is not pinned. `carrier`: this ring's own, or that of idle threads."""
        self._sources = sources
        self._layouts = layouts
        self._pageable = frozenset(pageable)
        self._carrier = carrier
        self._copy_stream = copy_stream
        largest = max(copied.layout.nbytes for copied in layouts.values())
        self._slots = [copy_stream.allocate(largest) for _ in range(slots)]
        # Behind the last computation that read the slot; at first, behind all that used this memory for something else.
        self._events: list[Any] = [copy_stream.record_event()] * slots
        self._taken: dict[int, int] = {}
        self._clock = IdleClock(copy_stream.device) if is_accelerator(copy_stream.device) else None
        super().__init__("weights to device", sorted(sources), slots)

    def _fill(self, layer: int, slot: int) -> None:
        source, copied = self._sources[layer], self._layouts[layer]
        begin = time.perf_counter()
        buffer = source.acquire(layer)
        is_pinned = layer not in self._pageable
        self._carrier.carry(buffer, self._slots[slot], copied.spans, self._events[slot], is_pinned)
        source.release(layer)
        self.throughput.add(copied.layout.nbytes, time.perf_counter() - begin)

    def acquire(self, layer: int, on_wait: OnWait | None = None) -> Tensor:
        """The slot that holds the layer."""
        for unreleased in list(self._taken):  # a pass was stopped inside that layer, and the device may still read it
            self._record(unreleased)
        before = self.prefetch.waited_seconds
        slot = self._taken[layer] = self.prefetch.acquire(layer, on_wait)
        if self._clock:
            self._clock.waited(self.prefetch.waited_seconds - before)
        return self._slots[slot]

    def release(self, layer: int) -> None:
        """The slot may be filled again once the device has done what was launched so far."""
        self._record(layer)
        if self._clock:
            self._clock.launched()
        self.prefetch.release(layer)

    def _record(self, layer: int) -> None:
        self._events[self._taken.pop(layer)] = self._copy_stream.record_event()

    @property
    def idle_seconds(self) -> float:
        """As the device's own clock has it, where it has one."""
        return self._clock.seconds if self._clock else super().idle_seconds
