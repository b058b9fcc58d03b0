"""Parts layers into trunk and experts, and builds the shelves that single experts are kept on."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from engine.weights.planning.arrangement import Tier
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.binding import Decoder, Scratch
from engine.weights.streaming.copy_stream import Lane
from engine.weights.streaming.experts.binding import ExpertBinding, Experts, find_experts
from engine.weights.streaming.experts.choice import ExpertMeter, Mixture
from engine.weights.streaming.experts.slots import ExpertSource, FromDisk, FromRam, Shelf, ThroughRam
from engine.weights.streaming.experts.split_layout import ExpertShape, SplitLayout, slot_shape, split_layout
from engine.weights.streaming.experts.stream import ExpertLayer
from engine.weights.streaming.host_memory import HostArena
from engine.weights.streaming.layer_store import Stock


@dataclass(frozen=True, slots=True)
class SplitLayer:
    """A layer, its experts, and its bytes in two; `moves`: they are not where they are used."""

    layer: nn.Module
    experts: Experts
    split: SplitLayout
    moves: bool


def split_layers(
    layers: Sequence[nn.Module],
    layouts: Sequence[LayerLayout],
    moving: Iterable[int],
    decodes: bool,
    cache_bytes: int,
) -> dict[int, SplitLayer]:
    """The layers whose experts are to be brought, or only decoded, one by one; by number.

    Those that move are left whole if the cache has not a slot for them, the others if they run as they are stored.
    """
    moving = set(moving)
    found = {}
    for index, (layer, layout) in enumerate(zip(layers, layouts, strict=True)):
        experts = find_experts(layer) if index in moving or decodes else None
        split = split_layout(layout, experts.prefix, experts.count) if experts else None
        if experts and split:
            found[index] = SplitLayer(layer, experts, split, index in moving)
    slots = cache_slots(found.values(), cache_bytes)
    return {index: part for index, part in found.items() if not part.moves or slots[part.split.shape]}


def cache_slots(layers: Iterable[SplitLayer], cache_bytes: int) -> dict[ExpertShape, int]:
    """How many slots the experts of each shape have: bytes are shared out as the experts themselves take them."""
    experts: dict[ExpertShape, int] = defaultdict(int)
    slot_bytes: dict[ExpertShape, int] = {}
    for part in layers:
        if part.moves:
            experts[part.split.shape] += part.split.count
            slot_bytes[part.split.shape] = slot_shape(part.split).nbytes
    total = sum(count * slot_bytes[shape] for shape, count in experts.items())
    return {shape: min(count, cache_bytes * count // total) for shape, count in experts.items()}


class Shelving:
    """All shelves of a stream, and the memory they take."""

    def __init__(
        self,
        layers: Mapping[int, SplitLayer],
        disk: DiskReader,
        lane: Lane | None,
        decoder: Decoder | None,
        cache_bytes: int,
    ) -> None:
        """Takes the memory; raises `MemoryError` if there is no room for it."""
        self._layers, self._disk, self._lane, self._decoder = layers, disk, lane, decoder
        self._shelves: dict[ExpertShape, Shelf] = {}
        for shape, slots in cache_slots(layers.values(), cache_bytes).items():
            alike = [part.split for part in layers.values() if part.moves and part.split.shape == shape]
            self._shelves[shape] = self._shelf(alike, slots)
        pin = lane is not None and lane.device.type == "cuda"
        self._passage = HostArena(max((slot_shape(part.split).nbytes for part in layers.values()), default=0), pin)

    def expert_layers(self, tiers: Sequence[Tier], bulks: Stock, scratch: Scratch) -> list[ExpertLayer]:
        """The layers as the stream needs them; `bulks`, loaded, holds the experts of each together."""
        passage = self._passage.take(self._passage.nbytes)
        found = []
        for index, part in self._layers.items():
            binding = ExpertBinding(part.layer, part.experts, part.split, self._decoder, scratch)
            shelf = self._shelves[part.split.shape] if part.moves else None
            source = self._source(part.split, tiers[index], bulks, passage) if part.moves else None
            found.append(ExpertLayer(part.experts, part.split, binding, shelf, source))
        return found

    def close(self) -> None:
        """Give pinned memory back, once nothing is on its way any more."""
        self._passage.close()

    def _shelf(self, alike: Sequence[SplitLayout], slots: int) -> Shelf:
        split, shape = alike[0], slot_shape(alike[0])
        mixture = Mixture(
            layers=len(alike),
            experts=split.count,
            slots=slots,
            expert_bytes=split.expert_bytes,
            trunk_bytes=split.trunk.nbytes,
            decodes=self._decoder is not None,
        )
        nbytes = slots * shape.nbytes
        memory = self._lane.buffer(nbytes) if self._lane else HostArena(nbytes).take(nbytes)
        return Shelf(memory, shape, slots, ExpertMeter(mixture), self._lane)

    def _source(self, split: SplitLayout, tier: Tier, bulks: Stock, passage: Tensor) -> ExpertSource:
        shape = slot_shape(split)
        if self._lane and tier == "ram":
            return FromRam(split, shape, bulks.homes[split.trunk.index], self._lane)
        from_disk = FromDisk(split, shape, self._disk)
        return ThroughRam(from_disk, passage[: shape.nbytes], self._lane) if self._lane else from_disk
