"""Brings each decoder layer's weights to the compute device just before the layer runs, wherever they are kept."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from engine.model.passes.layer_hooks import SettledHook
from engine.weights.codecs.codec import Decoder
from engine.weights.planning.arrangement import Tier
from engine.weights.planning.expert_ways import Choose, fastest_way
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.binding import Binding, Decoded, Scratch, Views
from engine.weights.streaming.copy_stream import CopyStream
from engine.weights.streaming.experts.clocks import clock_for
from engine.weights.streaming.experts.followed import Use
from engine.weights.streaming.experts.routing import RoutingRecord
from engine.weights.streaming.experts.setup import ExpertSetup, split_layers
from engine.weights.streaming.experts.stream import ExpertStream
from engine.weights.streaming.layer_store import HostShare, LayerStore, RingSlots
from engine.weights.streaming.pinning import PinnedBudget, Pinning, pinning_for
from engine.weights.streaming.prefetch_ring import OnWait


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Slots of the ring between disk and host memory and of the ring on a device; `direct`: past the page cache.

    `expert_cache_bytes`: on the compute device, for experts that are loaded one by one (0: layers stay whole);
    `choose` decides which passes load them so. `few_rows`: up to so many rows are multiplied with weights as they are
    stored, where the processor computes (0: all are decoded); `host_rows`: the same of an expert's, where it computes
    experts in RAM beside an accelerator (0: it does not). `trunks_stay`: of layers whose experts come one by one, all
    else stays on the compute device. `pinning`: how host memory is pinned; None for how the
    device wants it.
    """

    disk_slots: int = 3
    device_slots: int = 2
    direct: bool = True
    expert_cache_bytes: int = 0
    choose: Choose = fastest_way
    few_rows: int = 0
    host_rows: int = 0
    trunks_stay: bool = False
    pinning: Pinning | None = None


class LayerStream:
    """The weights of all decoder layers of one model; hooks on the layers fetch them.

    Tiers and rings: see `LayerStore`. Layers whose bytes are the weights and stay where they are computed have no
    hooks at all. Of a mixture's layers, the trunk is streamed that way, and the experts by `ExpertStream`.
    """

    def __init__(
        self,
        layers: Sequence[nn.Module],
        layouts: Sequence[LayerLayout],
        tiers: Sequence[Tier],
        decoders: Sequence[Decoder] | None = None,
        copy_stream: CopyStream | None = None,
        options: StreamOptions | None = None,
    ) -> None:
        """Opens the files, and closes them where it fails; `load` does the rest.

        `decoders`: one for each layer; None: the stored bytes are the weights.
        """
        self.on_wait: OnWait | None = None
        options = options or StreamOptions()
        layouts = _numbered(layouts)
        self._layers, self._layouts, self._tiers = list(layers), list(layouts), list(tiers)
        self._copy_stream, self._decoders, self._options = copy_stream, decoders, options
        self._device = copy_stream.device if copy_stream else torch.device("cpu")
        self._trunk_bytes = 0
        self._hooks: list[RemovableHandle] = []
        self._expert_rows = options.host_rows if copy_stream else options.few_rows
        self._scratch = Scratch(self._device)
        pinning = options.pinning or (pinning_for(self._device) if copy_stream else None)
        self._budget = PinnedBudget(pinning) if pinning else None
        self._expert_setup: ExpertSetup | None = None
        self._experts: ExpertStream | None = None
        with ExitStack() as undone:  # where the rest fails
            self.routing = RoutingRecord.of(layers)  # None where the layers are no mixture
            if self.routing:
                undone.callback(self.routing.close)
            self._disk = DiskReader(layouts, options.direct)
            undone.callback(self._disk.close)
            self._split = split_layers(
                layers,
                layouts,
                tiers,
                copy_stream is not None,
                decoders is not None,
                options.expert_cache_bytes,
                self._expert_rows,
            )
            for index, part in self._split.items():
                self._layouts[index] = part.split.trunk
            stay = {index for index, part in self._split.items() if part.moves and options.trunks_stay}
            self._trunk_tiers = ["device" if index in stay else tier for index, tier in enumerate(self._tiers)]
            self._store = self._store_of(dict(enumerate(self._layouts)), self._trunk_tiers)
            self._bindings = [self._binding(index) for index in range(len(layers))]
            self._bulks = self._store_of({index: part.split.bulk for index, part in self._split.items()}, self._tiers)
            undone.pop_all()

    def load(self) -> Iterator[int]:
        """Read what is resident, then start the rings; yields each layer's index once it is in its tier.

        Raises `ModelError` for unreadable files and `MemoryError` when memory runs out; `close` is safe after both.
        """
        yield from (index for index in self._store.load() if index not in self._split)
        if self._split:
            yield from self._bulks.load()
            self._expert_setup = ExpertSetup(
                self._split,
                self._disk,
                self._copy_stream,
                self._decoders,
                self._options.expert_cache_bytes,
                self._budget,
                self._expert_rows,
                self._options.trunks_stay,
            )
            layers = self._expert_setup.expert_layers(self._tiers, self._store, self._bulks, self._scratch)
            clock = clock_for(self._device)
            self._experts = ExpertStream(layers, self._bulks, self._options.choose, clock, self._expert_setup.use)
            self._experts.hook(lambda: self.on_wait)
        self._hook()

    def close(self) -> None:
        """Detach from the layers, end the threads, close the files, give pinned memory back."""
        for hook in self._hooks:
            hook.remove()
        if self.routing:
            self.routing.close()
        if self._experts:
            self._experts.close()
        self._store.close()
        self._bulks.close()
        if self._expert_setup:
            self._expert_setup.close()
        self._disk.close()

    @property
    def bytes_streamed(self) -> int:
        """Bytes of weights that were moved to where they are used, since the start."""
        return self._trunk_bytes + (self._experts.bytes_streamed if self._experts else 0)

    @property
    def expert_use(self) -> Use:
        """How many experts passes have used since the start, and how many were multiplied as they are stored."""
        return self._expert_setup.use if self._expert_setup else Use()

    @property
    def followed_modules(self) -> tuple[nn.Module, ...]:
        """The experts that are computed in place of their modules, on threads that they ask for."""
        return self._experts.followed_modules if self._experts else ()

    @property
    def host_share(self) -> HostShare:
        """How much of the host memory that the device copies from is pinned."""
        return self._store.host_share + self._bulks.host_share

    @property
    def waited_seconds(self) -> float:
        """Time in which computation had nothing to do because weights were awaited, since the start."""
        return self._store.idle_seconds + (self._experts.waited_seconds if self._experts else 0.0)

    @property
    def arriving(self) -> tuple[int, ...]:
        """The layers of which something is being copied now, as seen without a lock; what is needed first ahead."""
        return tuple(dict.fromkeys([*self._store.arriving, *self._bulks.arriving]))

    def _store_of(self, layouts: dict[int, LayerLayout], every: Sequence[Tier]) -> LayerStore:
        tiers = {index: every[index] for index in layouts}
        slots = RingSlots(self._options.disk_slots, self._options.device_slots)
        return LayerStore(layouts, tiers, self._disk, self._copy_stream, slots, self._budget)

    def _binding(self, index: int) -> Binding:
        layer, layout = self._layers[index], self._store.seen(index)
        if self._decoders is None:
            return Views(layer, layout)
        prefix = self._split[index].experts.prefix if index in self._split else None
        few_rows = 0 if self._copy_stream else self._options.few_rows
        stays = self._copy_stream is None and self._trunk_tiers[index] != "ssd"
        return Decoded(layer, layout, self._decoders[index], self._scratch, prefix, few_rows, stays)

    def _hook(self) -> None:
        for index, layer in enumerate(self._layers):
            if self._store.is_resident(index) and self._decoders is None and index not in self._split:
                self._bindings[index].bind(self._store.sources[index].acquire(index))
                continue
            # First of all hooks: another one that looks at the layer before it runs finds its weights.
            is_settled = partial(self._is_settled, index)
            fetch, release = (SettledHook(partial(each, index), is_settled) for each in (self._fetch, self._release))
            self._hooks.append(layer.register_forward_pre_hook(fetch, prepend=True))
            self._hooks.append(layer.register_forward_hook(release))

    def _fetch(self, index: int) -> None:
        """Before a layer: returns when its weights are where it computes."""
        trunk: Tensor = self._store.sources[index].acquire(index, self.on_wait)
        if self._experts and index in self._split:
            self._experts.enter(index, trunk)
        self._bindings[index].bind(trunk)

    def _release(self, index: int) -> None:
        """After a layer."""
        if self._experts and index in self._split:
            self._experts.leave(index)
        self._store.sources[index].release(index)
        if not self._store.is_resident(index):
            self._trunk_bytes += self._layouts[index].nbytes

    def _is_settled(self, index: int) -> bool:
        """Whether a layer has its weights, all of them, and keeps them."""
        has_experts = self._experts is not None and index in self._split
        has_all = not has_experts or (self._experts is not None and self._experts.stays(index))
        return has_all and self._store.is_resident(index) and self._bindings[index].is_settled


def _numbered(layouts: Sequence[LayerLayout]) -> list[LayerLayout]:
    """Numbered as in their stream: a self-draft has some of a model's layers, with the numbers that they have there."""
    return [replace(layout, index=index) for index, layout in enumerate(layouts)]
