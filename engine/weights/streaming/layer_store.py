"""Where layers' bytes are kept, and the rings that bring those that move to where they are used."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from engine.weights.planning.arrangement import Tier
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.copy_stream import CopyStream
from engine.weights.streaming.host_memory import HostArena, arena_bytes
from engine.weights.streaming.layer_source import DeviceRing, DiskRing, LayerSource, ResidentBytes


@dataclass(frozen=True, slots=True)
class RingSlots:
    """Of the ring between disk and host memory, and of the one on a device."""

    disk: int = 3
    device: int = 2


class LayerStore:
    """The bytes of some layers, each in its tier; once loaded, `sources` provide them on the compute device.

    Without a `copy_stream` the host computes: layers in RAM are used where they are, layers on SSD through a ring of
    host memory. With one, they come from pinned RAM or that ring through a second ring on the device.
    """

    def __init__(
        self,
        layouts: Mapping[int, LayerLayout],
        tiers: Mapping[int, Tier],
        disk: DiskReader,
        copy_stream: CopyStream | None,
        slots: RingSlots,
    ) -> None:
        """Takes no memory yet. `disk` must have the layouts' files open, and stay open until `close`."""
        self.sources: dict[int, LayerSource] = {}
        self.resident: dict[int, Tensor] = {}  # buffers of layers that stay on the device or in RAM
        self._layouts, self._tiers = layouts, tiers
        self._disk, self._copy_stream, self._slots = disk, copy_stream, slots
        self._rings: list[DiskRing | DeviceRing] = []  # the one nearest the disk first, which is closed first
        self._arenas: list[HostArena] = []

    def load(self) -> Iterator[int]:
        """Read what is resident, then start the rings; yields each layer's index once it is in its tier.

        Raises `ModelError` for unreadable files and `MemoryError` when memory runs out; `close` is safe after both.
        """
        on_device, in_ram, on_disk = (self._on(tier) for tier in ("device", "ram", "ssd"))
        if self._copy_stream is None:
            on_device, in_ram = [], sorted(on_device + in_ram)
        arena = self._arena([self._layouts[index].nbytes for index in in_ram])
        for index in in_ram:
            self.resident[index] = arena.take(self._layouts[index].nbytes)
            self._disk.read(self._layouts[index], self.resident[index])
            yield index
        for index, buffer in self._load_device(on_device):
            self.resident[index] = buffer
            yield index
        self._start(in_ram, on_disk)
        yield from on_disk

    def is_resident(self, index: int) -> bool:
        """Whether the layer's bytes stay where they are used."""
        return isinstance(self.sources[index], ResidentBytes)

    def close(self) -> None:
        """End the threads, give pinned memory back. The disk is left to its owner."""
        for ring in self._rings:
            ring.prefetch.close()
        for arena in self._arenas:
            arena.close()

    @property
    def waited_seconds(self) -> float:
        """Time that whoever launches computation waited for these bytes."""
        return self._rings[-1].prefetch.waited_seconds if self._rings else 0.0

    @property
    def idle_seconds(self) -> float:
        """Time in which the device that computes had nothing to do because these bytes were not there."""
        return self._rings[-1].idle_seconds if self._rings else 0.0

    @property
    def bytes_per_second(self) -> float:
        """How fast they arrived lately where they are used, waiting left out; 0 if none did."""
        return self._rings[-1].throughput.bytes_per_second if self._rings else 0.0

    @property
    def is_filling(self) -> bool:
        """Whether any of them is being copied now."""
        return bool(self.arriving)

    @property
    def arriving(self) -> tuple[int, ...]:
        """The layers that are being copied now, that nearest to where it is used first."""
        layers = [ring.prefetch.filling for ring in reversed(self._rings)]
        return tuple(dict.fromkeys(layer for layer in layers if layer is not None))

    def _on(self, tier: Tier) -> list[int]:
        return [index for index, own in self._tiers.items() if own == tier]

    def _arena(self, sizes: Sequence[int]) -> HostArena:
        arena = HostArena(
            arena_bytes(sizes), pin=self._copy_stream is not None and self._copy_stream.device.type == "cuda"
        )
        self._arenas.append(arena)
        return arena

    def _load_device(self, indices: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """The device's resident layers, one at a time through a staging buffer."""
        if not indices or self._copy_stream is None:
            return
        largest = max(self._layouts[index].nbytes for index in indices)
        arena = HostArena(largest)
        staging = arena.take(largest)
        for index in indices:
            size = self._layouts[index].nbytes
            self._disk.read(self._layouts[index], staging)
            buffer = self._copy_stream.allocate(size)
            self._copy_stream.copy(staging[:size], buffer, None)
            yield index, buffer

    def _start(self, in_ram: Sequence[int], on_disk: Sequence[int]) -> None:
        """Make every layer's source of bytes on the compute device."""
        self.sources |= dict.fromkeys(self.resident, ResidentBytes(self.resident))
        if on_disk:
            largest = max(self._layouts[index].nbytes for index in on_disk)
            sizes = [largest] * min(self._slots.disk, len(on_disk))
            arena = self._arena(sizes)
            ring = DiskRing({i: self._layouts[i] for i in on_disk}, self._disk, [arena.take(size) for size in sizes])
            self._rings.append(ring)
            self.sources |= dict.fromkeys(on_disk, ring)
        streamed = sorted([*in_ram, *on_disk])
        if self._copy_stream and streamed:
            layer_bytes = {index: self._layouts[index].nbytes for index in streamed}
            slots = min(self._slots.device, len(streamed))
            to_device = DeviceRing(
                {index: self.sources[index] for index in streamed}, layer_bytes, self._copy_stream, slots
            )
            self._rings.append(to_device)
            self.sources |= dict.fromkeys(streamed, to_device)
