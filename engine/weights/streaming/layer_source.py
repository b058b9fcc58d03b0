"""Where a layer's bytes come from when it is about to run: resident memory, or a ring that reads ahead."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.copy_stream import CopyStream, Throughput
from engine.weights.streaming.prefetch_ring import OnWait, PrefetchRing


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
        self, sources: Mapping[int, LayerSource], sizes: Mapping[int, int], copy_stream: CopyStream, slots: int
    ) -> None:
        """`sizes`: bytes of each layer."""
        self._sources = sources
        self._sizes = sizes
        self._copy_stream = copy_stream
        self._slots = [copy_stream.allocate(max(sizes.values())) for _ in range(slots)]
        self._events: list[Any] = [None] * slots  # after the last computation that read the slot
        self._taken: dict[int, int] = {}
        super().__init__("weights to device", sorted(sources), slots)

    def _fill(self, layer: int, slot: int) -> None:
        source, size = self._sources[layer], self._sizes[layer]
        begin = time.perf_counter()
        buffer = source.acquire(layer)
        self._copy_stream.copy(buffer[:size], self._slots[slot][:size], self._events[slot])
        source.release(layer)
        self.throughput.add(size, time.perf_counter() - begin)

    def acquire(self, layer: int, on_wait: OnWait | None = None) -> Tensor:
        """The slot that holds the layer."""
        for unreleased in list(self._taken):  # a pass was stopped inside that layer, and the device may still read it
            self._record(unreleased)
        slot = self._taken[layer] = self.prefetch.acquire(layer, on_wait)
        return self._slots[slot]

    def release(self, layer: int) -> None:
        """The slot may be filled again once the device has done what was launched so far."""
        self._record(layer)
        self.prefetch.release(layer)

    def _record(self, layer: int) -> None:
        self._events[self._taken.pop(layer)] = self._copy_stream.record_event()
