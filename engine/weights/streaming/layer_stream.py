"""Brings each decoder layer's weights to the compute device just before the layer runs, wherever they are kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from engine.weights.planning.arrangement import Tier
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.binding import Binding, Decoded, Decoder, Scratch, Views
from engine.weights.streaming.copy_stream import Lane
from engine.weights.streaming.experts.choice import single_is_faster
from engine.weights.streaming.experts.setup import Shelving, split_layers
from engine.weights.streaming.experts.stream import Choose, ExpertStream
from engine.weights.streaming.layer_store import RingSlots, Stock
from engine.weights.streaming.prefetch_ring import Idle


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Slots of the ring between disk and host memory and of the ring on a device; `direct`: past the page cache.

    `expert_cache_bytes`: on the compute device, for experts that are brought one by one (0: layers come whole);
    `choose` decides for which passes they are.
    """

    disk_slots: int = 3
    device_slots: int = 2
    direct: bool = True
    expert_cache_bytes: int = 0
    choose: Choose = single_is_faster


class LayerStream:
    """The weights of all decoder layers of one model; hooks on the layers fetch them.

    Without a `lane` the host computes: layers in RAM are used where they are, layers on SSD through a ring of host
    memory. With one, they come from pinned RAM or that ring through a second ring on the device. Layers whose bytes
    are the weights and stay where they are computed have no hooks at all. Of a mixture's layers, the trunk comes that
    way, and the experts as `ExpertStream` says.
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
        options = options or StreamOptions()
        self._layers, self._layouts, self._tiers = list(layers), list(layouts), list(tiers)
        self._lane, self._decoder, self._options = lane, decoder, options
        self._trunk_bytes = 0
        self._hooks: list[RemovableHandle] = []
        self._disk = DiskReader(layouts, options.direct)
        moving = [index for index, tier in enumerate(tiers) if tier == "ssd" or (tier == "ram" and lane)]
        self._split = split_layers(layers, layouts, moving, decoder is not None, options.expert_cache_bytes)
        for index, part in self._split.items():
            self._layouts[index] = part.split.trunk
        self._scratch = Scratch(lane.device if lane else torch.device("cpu"))
        self._bindings = [self._binding(index) for index in range(len(layers))]
        self._stock = self._stock_of(dict(enumerate(self._layouts)))
        self._bulks = self._stock_of({index: part.split.bulk for index, part in self._split.items()})
        self._shelving: Shelving | None = None
        self._experts: ExpertStream | None = None

    def load(self) -> Iterator[int]:
        """Fetch what stays, then start the rings; yields each layer's index once it is where it belongs.

        Raises `ModelError` for unreadable files and `MemoryError` when memory runs out; `close` is safe after both.
        """
        yield from (index for index in self._stock.load() if index not in self._split)
        if self._split:
            yield from self._bulks.load()
            self._shelving = Shelving(
                self._split, self._disk, self._lane, self._decoder, self._options.expert_cache_bytes
            )
            layers = self._shelving.expert_layers(self._tiers, self._bulks, self._scratch)
            self._experts = ExpertStream(layers, self._stock, self._bulks, self._options.choose)
            self._experts.hook(lambda: self.idle)
        self._hook()

    def close(self) -> None:
        """Detach from the layers, end the threads, close the files, give pinned memory back."""
        for hook in self._hooks:
            hook.remove()
        if self._experts:
            self._experts.close()
        self._stock.close()
        self._bulks.close()
        if self._shelving:
            self._shelving.close()
        self._disk.close()

    @property
    def bytes_streamed(self) -> int:
        """Of weights that were brought to where they are used, since the start."""
        return self._trunk_bytes + (self._experts.bytes_streamed if self._experts else 0)

    @property
    def waited_seconds(self) -> float:
        """Time that computation stood still for weights, since the start."""
        return self._stock.waited_seconds + (self._experts.waited_seconds if self._experts else 0.0)

    @property
    def arriving(self) -> tuple[int, ...]:
        """The layers of which something is on its way now, as far as one can tell; what is needed first ahead."""
        return tuple(dict.fromkeys([*self._stock.arriving, *self._bulks.arriving]))

    @property
    def expert_hits(self) -> int:
        """Experts that the cache held when a pass that takes them one by one needed them, since the start."""
        return self._experts.hits if self._experts else 0

    @property
    def expert_misses(self) -> int:
        """Experts that it did not hold."""
        return self._experts.misses if self._experts else 0

    def _stock_of(self, layouts: dict[int, LayerLayout]) -> Stock:
        tiers = {index: self._tiers[index] for index in layouts}
        slots = RingSlots(self._options.disk_slots, self._options.device_slots)
        return Stock(layouts, tiers, self._disk, self._lane, slots)

    def _binding(self, index: int) -> Binding:
        layer, layout = self._layers[index], self._layouts[index]
        if self._decoder is None:
            return Views(layer, layout)
        prefix = self._split[index].experts.prefix if index in self._split else None
        return Decoded(layer, layout, self._decoder, self._scratch, prefix)

    def _hook(self) -> None:
        for index, layer in enumerate(self._layers):
            if self._stock.is_held(index) and self._decoder is None:
                self._bindings[index].bind(self._stock.supplies[index].take(index))
                continue
            # Ahead of every other hook: whoever looks at a layer before it runs finds its weights.
            self._hooks.append(layer.register_forward_pre_hook(self._before(index), prepend=True))
            self._hooks.append(layer.register_forward_hook(self._after(index)))

    def _before(self, index: int):  # type: ignore[no-untyped-def]  # torch's own hook type
        def fetch(_layer: nn.Module, _inputs: object) -> None:
            trunk: Tensor = self._stock.supplies[index].take(index, self.idle)
            self._bindings[index].bind(trunk)
            if self._experts and index in self._split:
                self._experts.enter(index, trunk)

        return fetch

    def _after(self, index: int):  # type: ignore[no-untyped-def]
        def give_back(_layer: nn.Module, _inputs: object, _output: object) -> None:
            self._stock.supplies[index].give_back(index)
            if not self._stock.is_held(index):
                self._trunk_bytes += self._layouts[index].nbytes

        return give_back
