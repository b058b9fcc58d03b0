"""Brings each decoder layer's weights to the compute device just before the layer runs, wherever they are kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from engine.weights.arrangement import Tier
from engine.weights.binding import Binding, Decoded, Decoder, Scratch, Views
from engine.weights.disk import DiskReader
from engine.weights.host_memory import HostArena, arena_bytes
from engine.weights.lane import Lane
from engine.weights.layout import LayerLayout
from engine.weights.stage import Idle
from engine.weights.supply import DeviceRing, DiskRing, Held, Supply


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Slots of the ring between disk and host memory and of the ring on a device; `direct`: past the page cache."""

    disk_slots: int = 3
    device_slots: int = 2
    direct: bool = True


class LayerStream:
    """The weights of all decoder layers of one model; hooks on the layers fetch them.

    Without a `lane` the host computes: layers in RAM are used where they are, layers on SSD through a ring of host
    memory. With one, they come from pinned RAM or that ring through a second ring on the device. Layers whose bytes
    are the weights and stay where they are computed have no hooks at all.
    """

    def __init__(
        self,
        layers: Sequence[nn.Module],
        layouts: Sequence[LayerLayout],
        tiers: Sequence[Tier],
        decoder: Decoder | None = None,
        lane: Lane | None = None,
        options: StreamOptions | None = None,
    ) -> None:
        """Opens the files; `load` does the rest. `decoder` None: the stored bytes are the weights."""
        self.idle: Idle | None = None
        self.bytes_streamed = 0
        self._layouts, self._tiers, self._lane = list(layouts), list(tiers), lane
        self._layers = list(layers)
        self._options = options or StreamOptions()
        scratch = Scratch(lane.device if lane else torch.device("cpu"))
        self._stays_bound = decoder is None
        self._bindings: list[Binding] = [
            Decoded(layer, layout, decoder, scratch) if decoder else Views(layer, layout)
            for layer, layout in zip(layers, layouts, strict=True)
        ]
        self._rings: list[DiskRing | DeviceRing] = []  # the one nearest the disk first
        self._arenas: list[HostArena] = []
        self._hooks: list[RemovableHandle] = []
        self._disk = DiskReader(self._layouts, self._options.direct)

    def load(self) -> Iterator[int]:
        """Fetch what stays, then start the rings; yields each layer's index once it is where it belongs.

        Raises `ModelError` for unreadable files and `MemoryError` when memory runs out; `close` is safe after both.
        """
        on_device, in_ram, on_disk = (self._on(tier) for tier in ("device", "ram", "ssd"))
        if self._lane is None:
            on_device, in_ram = [], sorted(on_device + in_ram)
        homes: dict[int, Tensor] = {}
        arena = self._arena([self._layouts[index].nbytes for index in in_ram])
        for index in in_ram:
            homes[index] = arena.take(self._layouts[index].nbytes)
            self._disk.read(self._layouts[index], homes[index])
            yield index
        for index, buffer in self._load_device(on_device):
            homes[index] = buffer
            yield index
        self._hook(self._start(homes, in_ram, on_disk))
        yield from on_disk

    def close(self) -> None:
        """Detach from the layers, end the threads, close the files, give pinned memory back."""
        for hook in self._hooks:
            hook.remove()
        for ring in self._rings:
            ring.close()
        self._disk.close()
        for arena in self._arenas:
            arena.close()

    @property
    def waited_seconds(self) -> float:
        """Time that computation stood still for a layer, since the start."""
        return self._rings[-1].waited_seconds if self._rings else 0.0

    def _on(self, tier: Tier) -> list[int]:
        return [index for index, own in enumerate(self._tiers) if own == tier]

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

    def _start(self, homes: dict[int, Tensor], in_ram: Sequence[int], on_disk: Sequence[int]) -> dict[int, Supply]:
        """Every layer's supply of bytes on the compute device."""
        held = Held(homes)
        supplies: dict[int, Supply] = dict.fromkeys(homes, held)
        if on_disk:
            largest = max(self._layouts[index].nbytes for index in on_disk)
            sizes = [largest] * min(self._options.disk_slots, len(on_disk))
            arena = self._arena(sizes)
            ring = DiskRing({i: self._layouts[i] for i in on_disk}, self._disk, [arena.take(size) for size in sizes])
            self._rings.append(ring)
            supplies |= dict.fromkeys(on_disk, ring)
        streamed = sorted([*in_ram, *on_disk])
        if self._lane and streamed:
            layer_bytes = {index: self._layouts[index].nbytes for index in streamed}
            slots = min(self._options.device_slots, len(streamed))
            to_device = DeviceRing({index: supplies[index] for index in streamed}, layer_bytes, self._lane, slots)
            self._rings.append(to_device)
            supplies |= dict.fromkeys(streamed, to_device)
        return supplies

    def _hook(self, supplies: dict[int, Supply]) -> None:
        for index, layer in enumerate(self._layers):
            supply = supplies[index]
            if isinstance(supply, Held) and self._stays_bound:
                self._bindings[index].bind(supply.take(index))
                continue
            # Ahead of every other hook: whoever looks at a layer before it runs finds its weights.
            self._hooks.append(layer.register_forward_pre_hook(self._before(index, supply), prepend=True))
            self._hooks.append(layer.register_forward_hook(self._after(index, supply)))

    def _before(self, index: int, supply: Supply):  # type: ignore[no-untyped-def]  # torch's own hook type
        def fetch(_layer: nn.Module, _inputs: object) -> None:
            self._bindings[index].bind(supply.take(index, self.idle))

        return fetch

    def _after(self, index: int, supply: Supply):  # type: ignore[no-untyped-def]
        def give_back(_layer: nn.Module, _inputs: object, _output: object) -> None:
            supply.give_back(index)
            if not isinstance(supply, Held):
                self.bytes_streamed += self._layouts[index].nbytes

        return give_back
