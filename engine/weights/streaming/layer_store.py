"""Where layers' bytes are kept, and the rings that bring those that move to where they are used."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from engine.weights.planning.arrangement import Tier
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout, copied_layout, round_up
from engine.weights.streaming.copy_stream import CopyStream
from engine.weights.streaming.host_memory import HostArena, arena_bytes
from engine.weights.streaming.layer_source import DeviceRing, DiskRing, LayerSource, ResidentBytes
from engine.weights.streaming.pinning import Pinning
from engine.weights.streaming.staging import Carrier

BLOCK_BYTES = 256 << 20  # pinned at once: a load stops between two, and a refusal leaves no more than this unused


@dataclass(frozen=True, slots=True)
class HostShare:
    """Bytes of host memory that a device copies from: `pinned`, and `pageable`, which takes one more copy.

    `staging_rate`: bytes a second of that copy at most, 0 if there is none.
    """

    pinned: int = 0
    pageable: int = 0
    staging_rate: float = 0.0

    def __add__(self, other: "HostShare") -> "HostShare":
        rates = [rate for rate in (self.staging_rate, other.staging_rate) if rate]
        return HostShare(self.pinned + other.pinned, self.pageable + other.pageable, min(rates, default=0.0))


@dataclass(frozen=True, slots=True)
class RingSlots:
    """Of the ring between disk and host memory, and of the one on a device."""

    disk: int = 3
    device: int = 2


class LayerStore:
    """The bytes of some layers, each in its tier; once loaded, `sources` provide them on the compute device.

    Without a `copy_stream` the host computes: layers in RAM are used where they are, layers on SSD through a ring of
    host memory. With one, they come from RAM or that ring through a second ring on the device. Host memory is pinned as
    far as the system allows it; each layer wholly or not at all.
    """

    def __init__(
        self,
        layouts: Mapping[int, LayerLayout],
        tiers: Mapping[int, Tier],
        disk: DiskReader,
        copy_stream: CopyStream | None,
        slots: RingSlots,
        pinning: Pinning | None = None,
    ) -> None:
        """Takes no memory yet. `disk` must have the layouts' files open, and stay open until `close`."""
        self.sources: dict[int, LayerSource] = {}
        self.resident: dict[int, Tensor] = {}  # buffers of layers that stay on the device or in RAM
        self._layouts, self._tiers = layouts, tiers
        self._copied = {index: copied_layout(layout) for index, layout in layouts.items()} if copy_stream else {}
        self._disk, self._copy_stream, self._slots, self._pinning = disk, copy_stream, slots, pinning
        self._rings: list[DiskRing | DeviceRing] = []  # the one nearest the disk first, which is closed first
        self._arenas: list[HostArena] = []
        self._carrier: Carrier | None = None
        self._pageable: set[int] = set()
        self._staging_rate = 0.0

    def load(self) -> Iterator[int]:
        """Read what is resident, then start the rings; yields each layer's index once it is in its tier.

        What every layer passes through is pinned first, then layers, block by block, as far as that goes. Raises
        `ModelError` for unreadable files and `MemoryError` when memory runs out; `close` is safe after both.
        """
        on_device, in_ram, on_disk = (self._on(tier) for tier in ("device", "ram", "ssd"))
        if self._copy_stream is None:
            on_device, in_ram = [], sorted(on_device + in_ram)
        elif in_ram or on_disk:
            self._carrier = Carrier(self._copy_stream, self._pinning)
        disk_slots = self._disk_slots(on_disk)
        for block in pinning_blocks({index: self._layouts[index].nbytes for index in in_ram}):
            yield from self._load_block(block)
        for index, buffer in self._load_device(on_device):
            self.resident[index] = buffer
            yield index
        self._start(in_ram, on_disk, disk_slots)
        yield from on_disk

    def seen(self, index: int) -> LayerLayout:
        """Where a layer's tensors lie in the bytes that its source provides."""
        return self._copied[index].layout if self._copied else self._layouts[index]

    def is_pinned(self, index: int) -> bool:
        """Whether the layer, of those in RAM, lies where a device can copy it from."""
        return index not in self._pageable

    def is_resident(self, index: int) -> bool:
        """Whether the layer's bytes stay where they are used."""
        return isinstance(self.sources[index], ResidentBytes)

    def close(self) -> None:
        """End the threads, give pinned memory back. The disk is left to its owner."""
        for ring in self._rings:
            ring.prefetch.close()
        if self._carrier:
            self._carrier.close()
        for arena in self._arenas:
            arena.close()

    @property
    def host_share(self) -> HostShare:
        """What was pinned of the memory of layers in RAM, and of the ring through which others come; without a device
        that copies, nothing had to be.
        """
        if self._carrier is None:
            return HostShare()
        pinned = sum(arena.nbytes for arena in self._arenas if arena.is_pinned)
        pageable = sum(arena.nbytes for arena in self._arenas if not arena.is_pinned)
        return HostShare(pinned, pageable, self._staging_rate)

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
        arena = HostArena(arena_bytes(sizes), self._pinning if self._copy_stream else None)
        self._arenas.append(arena)
        return arena

    def _load_block(self, block: Sequence[int]) -> Iterator[int]:
        """Layers that stay in RAM, in memory of one piece."""
        arena = self._arena([self._layouts[index].nbytes for index in block])
        self._pageable.update(() if arena.is_pinned else block)
        for index in block:
            self.resident[index] = arena.take(self._layouts[index].nbytes)
            self._disk.read(self._layouts[index], self.resident[index])
            yield index

    def _load_device(self, indices: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """The device's resident layers, one at a time through a staging buffer."""
        if not indices or self._copy_stream is None:
            return
        largest = max(self._layouts[index].nbytes for index in indices)
        staging, carrier = HostArena(largest).take(largest), Carrier(self._copy_stream, None)
        for index in indices:
            self._disk.read(self._layouts[index], staging)
            copied = self._copied[index]
            buffer = self._copy_stream.allocate(copied.layout.nbytes)
            carrier.carry(staging, buffer, copied.spans, self._copy_stream.record_event(), is_pinned=False)
            yield index, buffer

    def _disk_slots(self, on_disk: Sequence[int]) -> list[Tensor]:
        """Of the ring that reads from disk."""
        if not on_disk:
            return []
        sizes = [max(self._layouts[index].nbytes for index in on_disk)] * min(self._slots.disk, len(on_disk))
        arena = self._arena(sizes)
        self._pageable.update(() if arena.is_pinned else on_disk)
        return [arena.take(size) for size in sizes]

    def _start(self, in_ram: Sequence[int], on_disk: Sequence[int], disk_slots: Sequence[Tensor]) -> None:
        """Make every layer's source of bytes on the compute device."""
        self.sources |= dict.fromkeys(self.resident, ResidentBytes(self.resident))
        if on_disk:
            ring = DiskRing({index: self._layouts[index] for index in on_disk}, self._disk, disk_slots)
            self._rings.append(ring)
            self.sources |= dict.fromkeys(on_disk, ring)
        streamed = sorted([*in_ram, *on_disk])
        if self._copy_stream and self._carrier and streamed:
            if not self._pageable:
                self._carrier.close()  # nothing goes through its pieces
            else:
                first = min(self._pageable)
                sample = self.resident[first] if first in self.resident else disk_slots[0]
                self._staging_rate = self._carrier.bytes_per_second(sample)
            to_device = DeviceRing(
                {index: self.sources[index] for index in streamed},
                {index: self._copied[index] for index in streamed},
                self._pageable,
                self._carrier,
                self._copy_stream,
                min(self._slots.device, len(streamed)),
            )
            self._rings.append(to_device)
            self.sources |= dict.fromkeys(streamed, to_device)


def pinning_blocks(sizes: Mapping[int, int]) -> list[list[int]]:
    """Layers, by the bytes they take, in blocks that are pinned one after the other, each of `BLOCK_BYTES` at most.

    A layer that is larger is a block by itself, as no single copy may read from two. After any of the
    blocks the layers so far are spread evenly over the model: those that are not pinned any more, and take longer, then
    arrive while others are there already.
    """
    blocks: list[list[int]] = []
    room = 0
    for index in _spread_order(sorted(sizes)):
        if not blocks or sizes[index] > room:
            blocks.append([])
            room = BLOCK_BYTES
        blocks[-1].append(index)
        room -= round_up(sizes[index])
    return blocks


def _spread_order(items: Sequence[int]) -> list[int]:
    """The items such that any number of the first ones are spread evenly: by the reversed bits of their places.

    See van der Corput, Verteilungsfunktionen (1935).
    """
    bits = max(1, (len(items) - 1).bit_length())
    places = sorted(range(len(items)), key=lambda place: int(f"{place:0{bits}b}"[::-1], 2))
    return [items[place] for place in places]
