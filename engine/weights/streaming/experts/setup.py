"""Splits layers into trunk and experts, and makes the slots and sources for single experts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from engine.model.products.compiling import has_compiler
from engine.weights.codecs.codec import Decoder
from engine.weights.planning.arrangement import Tier, streamed_layers
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.binding import Scratch, stored_views
from engine.weights.streaming.copy_stream import CopyStream
from engine.weights.streaming.experts.beside import BesideExperts, Home
from engine.weights.streaming.experts.binding import ExpertBinding, Experts, find_experts
from engine.weights.streaming.experts.followed import FollowedExperts, OneExpert, Use, is_followed
from engine.weights.streaming.experts.lookahead import router_of
from engine.weights.streaming.experts.meter import ExpertMeter, Mixture
from engine.weights.streaming.experts.slots import ExpertSlots, ExpertSource, FromDisk, FromRam, ThroughRam
from engine.weights.streaming.experts.split_layout import (
    ExpertShape,
    SplitLayout,
    copied_split,
    slot_shape,
    split_layout,
)
from engine.weights.streaming.experts.stream import ExpertLayer
from engine.weights.streaming.host_memory import HostArena
from engine.weights.streaming.layer_store import LayerStore
from engine.weights.streaming.pinning import Pinning
from engine.weights.streaming.staging import Carrier


@dataclass(frozen=True, slots=True)
class SplitLayer:
    """A layer, its experts, and its bytes in two; `moves`: they are not where they are used; `in_ram`: but there.

    `follows`: its experts can be computed by the processor from their stored bytes, see `FollowedExperts`.
    """

    layer: nn.Module
    experts: Experts
    split: SplitLayout
    moves: bool
    follows: bool = False
    in_ram: bool = False


def split_layers(
    layers: Sequence[nn.Module],
    layouts: Sequence[LayerLayout],
    tiers: Sequence[Tier],
    on_device: bool,
    decodes: bool,
    cache_bytes: int,
    few_rows: int = 0,
) -> dict[int, SplitLayer]:
    """The layers whose experts are loaded, or only decoded, one by one; by number.

    Layers that move stay whole if the cache has no slot for them, the others if they run as they are stored. With
    `few_rows` the processor multiplies experts as they are stored, and has them in parts in any case.
    """
    moving = set(streamed_layers(tiers, on_device))
    found = {}
    for index, (layer, layout) in enumerate(zip(layers, layouts, strict=True)):
        experts = find_experts(layer) if index in moving or decodes or few_rows else None
        can_follow = few_rows and (not on_device or tiers[index] == "ram")
        follows = bool(can_follow and experts and is_followed(experts) and has_compiler())
        split = split_layout(layout, experts.prefix, experts.count) if experts else None
        if experts and split and (index in moving or decodes or follows):
            found[index] = SplitLayer(layer, experts, split, index in moving, follows, tiers[index] == "ram")
    slots = cache_slots(found.values(), cache_bytes)
    # Without slots an accelerator has no room for the experts' weights but in the layer that all are decoded into.
    always = decodes or not on_device
    return {
        index: part
        for index, part in found.items()
        if (part.follows and always) or not part.moves or slots[part.split.shape]
    }


def cache_slots(layers: Iterable[SplitLayer], cache_bytes: int) -> dict[ExpertShape, int]:
    """How many slots the experts of each shape have: in proportion to the bytes that all of them take."""
    experts: dict[ExpertShape, int] = defaultdict(int)
    slot_bytes: dict[ExpertShape, int] = {}
    for part in layers:
        if part.moves:
            experts[part.split.shape] += part.split.count
            slot_bytes[part.split.shape] = slot_shape(part.split).nbytes
    total = sum(count * slot_bytes[shape] for shape, count in experts.items())
    return {shape: min(count, cache_bytes * count // total) for shape, count in experts.items()}


class ExpertSetup:
    """The slots of all experts of a stream, and the memory they take."""

    def __init__(
        self,
        layers: Mapping[int, SplitLayer],
        disk: DiskReader,
        copy_stream: CopyStream | None,
        decoders: Sequence[Decoder] | None,
        cache_bytes: int,
        pinning: Pinning | None = None,
        few_rows: int = 0,
        trunks_stay: bool = False,
    ) -> None:
        """Takes the memory; raises `MemoryError` if there is no room for it. `few_rows`: see `split_layers`.

        `trunks_stay`: see `StreamOptions`.

        Copies go their own way beside those of `copy_stream`: what a pass is waiting for now is not queued behind what
        is read ahead.
        """
        self._layers, self._disk, self._decoders = layers, disk, decoders
        self._few_rows, self._trunks_stay = few_rows, trunks_stay
        self.use = Use()
        self._copy_stream = copy_stream.another() if copy_stream else None
        self._expert_slots: dict[ExpertShape, ExpertSlots] = {}
        for shape, slots in cache_slots(layers.values(), cache_bytes).items():
            alike = [part for part in layers.values() if part.moves and part.split.shape == shape]
            self._expert_slots[shape] = self._make_slots(alike, slots)
        largest = max((slot_shape(part.split).nbytes for part in layers.values()), default=0)
        self._staging = HostArena(largest, pinning if self._copy_stream else None)
        self._carrier = Carrier(self._copy_stream, pinning) if self._copy_stream else None

    def expert_layers(
        self, tiers: Sequence[Tier], trunks: LayerStore, bulks: LayerStore, scratch: Scratch
    ) -> list[ExpertLayer]:
        """The layers as the stream needs them; `trunks` and `bulks` are loaded, and hold the layers in two parts."""
        staging, one = self._staging.take(self._staging.nbytes), OneExpert()
        found = []
        for index, part in self._layers.items():
            decoder = self._decoders[index] if self._decoders else None
            seen = copied_split(part.split) if self._copy_stream else part.split
            followed = None
            if part.follows:
                followed = FollowedExperts(part.experts, decoder, self._few_rows, self.use, one)
            alone = followed if self._copy_stream is None else None
            binding = None if alone else ExpertBinding(part.layer, part.experts, seen, decoder, scratch)
            slots = self._expert_slots[part.split.shape] if part.moves else None
            source = self._source(part.split, tiers[index], bulks, staging) if part.moves else None
            beside = None
            if followed and binding and slots and source and tiers[index] == "ram":
                own = (seen if self._trunks_stay else part.split).companions
                home = Home(part.split, bulks.resident[index], stored_views(own, trunks.resident[index]))
                beside = BesideExperts(part.experts, binding, followed, home, seen, slots, source)
            # Beside a device, the host would wait for it to know what to bring. A trunk that streams is gone by then.
            looks_ahead = alone is not None and self._trunks_stay
            router = router_of(part.layer, part.experts) if looks_ahead else None
            found.append(ExpertLayer(part.experts, seen, binding, slots, source, alone, beside, router))
        return found

    def close(self) -> None:
        """Give pinned memory back, once no copy from it is running."""
        self._staging.close()
        if self._carrier:
            self._carrier.close()

    def _make_slots(self, alike: Sequence[SplitLayer], slots: int) -> ExpertSlots:
        split, shape = alike[0].split, slot_shape(alike[0].split)
        mixture = Mixture(
            layers=len(alike),
            experts=split.count,
            slots=slots,
            expert_bytes=split.expert_bytes,
            trunk_bytes=0 if self._trunks_stay else split.trunk.nbytes,
            decodes=self._decoders is not None and (self._copy_stream is not None or not alike[0].follows),
            in_place=self._copy_stream is not None and all(part.follows and part.in_ram for part in alike),
        )
        nbytes = slots * shape.nbytes
        memory = self._copy_stream.allocate(nbytes) if self._copy_stream else HostArena(nbytes).take(nbytes)
        return ExpertSlots(memory, shape, slots, ExpertMeter(mixture), self._copy_stream, len(alike))

    def _source(self, split: SplitLayout, tier: Tier, bulks: LayerStore, staging: Tensor) -> ExpertSource:
        shape = slot_shape(split)
        if self._carrier and tier == "ram":
            index = split.trunk.index
            return FromRam(split, shape, bulks.resident[index], bulks.is_pinned(index), self._carrier)
        from_disk = FromDisk(split, shape, self._disk)
        return ThroughRam(from_disk, staging[: shape.nbytes], self._copy_stream) if self._copy_stream else from_disk
