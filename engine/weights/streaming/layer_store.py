"""Where layers' bytes are kept, and the rings that bring those that move to where they are used."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from engine.weights.planning.arrangement import Tier
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.copy_stream import Lane
from engine.weights.streaming.host_memory import HostArena, arena_bytes
from engine.weights.streaming.layer_source import DeviceRing, DiskRing, Held, Supply


@dataclass(frozen=True, slots=True)
class RingSlots:
    """Of the ring between disk and host memory, and of the one on a device."""

    disk: int = 3
    device: int = 2


class Stock:
    """The bytes of some layers, each in its place; `supplies` hand them out on the compute device once it is loaded.

    Without a `lane` the host computes: layers in RAM are used where they are, layers on SSD through a ring of host
    memory. With one, they come from pinned RAM or that ring through a second ring on the device.
    """

    def __init__(
        self,
        layouts: Mapping[int, LayerLayout],
        tiers: Mapping[int, Tier],
        disk: DiskReader,
        lane: Lane | None,
        slots: RingSlots,
    ) -> None:
        """Takes no memory yet. `disk` must have the layouts' files open, and stay open until `close`."""
        self.supplies: dict[int, Supply] = {}
        self.homes: dict[int, Tensor] = {}  # of layers that stay where they are, on the device or in RAM
        self._layouts, self._tiers = layouts, tiers
        self._disk, self._lane, self._slots = disk, lane, slots
        self._rings: list[DiskRing | DeviceRing] = []  # the one nearest the disk first
        self._arenas: list[HostArena] = []

    def load(self) -> Iterator[int]:
        """Fetch what stays, then start the rings; yields each layer's index once it is where it belongs.

        Raises `ModelError` for unreadable files and `MemoryError` when memory runs out; `close` is safe after both.
        """
        on_device, in_ram, on_disk = (self._on(tier) for tier in ("device", "ram", "ssd"))
        if self._lane is None:
            on_device, in_ram = [], sorted(on_device + in_ram)
        arena = self._arena([self._layouts[index].nbytes for index in in_ram])
        for index in in_ram:
            self.homes[index] = arena.take(self._layouts[index].nbytes)
            self._disk.read(self._layouts[index], self.homes[index])
            yield index
        for index, buffer in self._load_device(on_device):
            self.homes[index] = buffer
            yield index
        self._start(in_ram, on_disk)
        yield from on_disk

    def is_held(self, index: int) -> bool:
        """Whether the layer's bytes stay where they are used."""
        return isinstance(self.supplies[index], Held)

    def close(self) -> None:
        """End the threads, give pinned memory back. The disk is left to its owner."""
        for ring in self._rings:
            ring.close()
        for arena in self._arenas:
            arena.close()

    @property
    def waited_seconds(self) -> float:
        """Time that computation stood still for these bytes."""
        return self._rings[-1].waited_seconds if self._rings else 0.0

    @property
    def bytes_per_second(self) -> float:
        """How fast they arrived of late where they are used, while they were on their way; 0 if none was."""
        return self._rings[-1].bytes_per_second if self._rings else 0.0

    @property
    def is_filling(self) -> bool:
        """Whether any of them is on its way now."""
        return any(ring.is_filling for ring in self._rings)

    @property
    def arriving(self) -> tuple[int, ...]:
        """The layers that are on their way now: the one nearest to where it is used first."""
        return tuple(dict.fromkeys(ring.filling for ring in reversed(self._rings) if ring.filling is not None))

    def _on(self, tier: Tier) -> list[int]:
        return [index for index, own in self._tiers.items() if own == tier]

    def _arena(self, sizes: Sequence[int]) -> HostArena:
        arena = HostArena(arena_bytes(sizes), pin=self._lane is not None and self._lane.device.type == "cuda")
        self._arenas.append(arena)
        return arena

    def _load_device(self, indices: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """The device's own layers, one at a time through host memory."""
        if not indices or self._lane is None:
            return
        largest = max(self._layouts[index].nbytes for index in indices)
        arena = HostArena(largest)
        passage = arena.take(largest)
        for index in indices:
            size = self._layouts[index].nbytes
            self._disk.read(self._layouts[index], passage)
            buffer = self._lane.buffer(size)
            self._lane.copy(passage[:size], buffer, None)
            yield index, buffer

    def _start(self, in_ram: Sequence[int], on_disk: Sequence[int]) -> None:
        """Every layer's supply of bytes on the compute device."""
        self.supplies |= dict.fromkeys(self.homes, Held(self.homes))
        if on_disk:
            largest = max(self._layouts[index].nbytes for index in on_disk)
            sizes = [largest] * min(self._slots.disk, len(on_disk))
            arena = self._arena(sizes)
            ring = DiskRing({i: self._layouts[i] for i in on_disk}, self._disk, [arena.take(size) for size in sizes])
            self._rings.append(ring)
            self.supplies |= dict.fromkeys(on_disk, ring)
        streamed = sorted([*in_ram, *on_disk])
        if self._lane and streamed:
            layer_bytes = {index: self._layouts[index].nbytes for index in streamed}
            slots = min(self._slots.device, len(streamed))
            to_device = DeviceRing({index: self.supplies[index] for index in streamed}, layer_bytes, self._lane, slots)
            self._rings.append(to_device)
            self.supplies |= dict.fromkeys(streamed, to_device)
