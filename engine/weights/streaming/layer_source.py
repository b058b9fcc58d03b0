"""Where a layer's bytes come from when it is about to run: they are there for good, or a ring brings them in time."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.copy_stream import Flow, Lane
from engine.weights.streaming.prefetch_ring import Idle, Stage


class Supply(Protocol):
    """Hands out layers' bytes, uint8, in the order of the layers."""

    def take(self, layer: int, idle: Idle | None = None) -> Tensor:
        """The layer's bytes, untouched until they are given back; calls `idle` while it waits for them."""

    def give_back(self, layer: int) -> None:
        """The layer has run."""


class Held:
    """Bytes that stay where they are."""

    def __init__(self, buffers: Mapping[int, Tensor]) -> None:
        self._buffers = buffers

    def take(self, layer: int, idle: Idle | None = None) -> Tensor:
        """They are there."""
        del idle
        return self._buffers[layer]

    def give_back(self, layer: int) -> None:
        """They stay there."""


class Ring(ABC):
    """Slots that a thread of its own fills with one layer after the other, always the next ones."""

    def __init__(self, name: str, layers: Sequence[int], slots: int) -> None:
        self._flow = Flow()
        self._stage = Stage(name, layers, slots, self._fill)

    @abstractmethod
    def _fill(self, layer: int, slot: int) -> None:
        """Bring the layer into the slot; called in the ring's thread."""

    @property
    def waited_seconds(self) -> float:
        """Time that takers stood still."""
        return self._stage.waited_seconds

    @property
    def bytes_per_second(self) -> float:
        """How fast slots were filled of late; 0 if none was."""
        return self._flow.bytes_per_second

    @property
    def is_filling(self) -> bool:
        """Whether a layer is on its way."""
        return self._stage.is_filling

    @property
    def filling(self) -> int | None:
        """That layer."""
        return self._stage.filling

    def close(self) -> None:
        """End the thread; a ring that this one takes from must be closed before."""
        self._stage.close()


class DiskRing(Ring):
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
        self._flow.add(self._layouts[layer].nbytes, time.perf_counter() - begin)

    def take(self, layer: int, idle: Idle | None = None) -> Tensor:
        """The slot that holds the layer."""
        return self._slots[self._stage.acquire(layer, idle)]

    def give_back(self, layer: int) -> None:
        """The slot may be filled again."""
        self._stage.release(layer)


class DeviceRing(Ring):
    """From host memory, for good or a ring itself, into a ring of the device's memory."""

    def __init__(self, sources: Mapping[int, Supply], sizes: Mapping[int, int], lane: Lane, slots: int) -> None:
        """`sizes`: bytes of each layer."""
        self._sources = sources
        self._sizes = sizes
        self._lane = lane
        self._slots = [lane.buffer(max(sizes.values())) for _ in range(slots)]
        self._marks: list[Any] = [None] * slots  # behind the last computation that read the slot
        self._taken: dict[int, int] = {}
        super().__init__("weights to device", sorted(sources), slots)

    def _fill(self, layer: int, slot: int) -> None:
        source, size = self._sources[layer], self._sizes[layer]
        begin = time.perf_counter()
        buffer = source.take(layer)
        self._lane.copy(buffer[:size], self._slots[slot][:size], self._marks[slot])
        source.give_back(layer)
        self._flow.add(size, time.perf_counter() - begin)

    def take(self, layer: int, idle: Idle | None = None) -> Tensor:
        """The slot that holds the layer."""
        slot = self._taken[layer] = self._stage.acquire(layer, idle)
        return self._slots[slot]

    def give_back(self, layer: int) -> None:
        """The slot may be filled again, once the device has passed what was asked of it so far."""
        self._marks[self._taken.pop(layer)] = self._lane.computed()
        self._stage.release(layer)
