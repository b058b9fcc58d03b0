"""One way to place a model's layers, and what it takes of each kind of memory: pure arithmetic."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from engine.weights.planning.machine import Machine, Room
from engine.weights.planning.needs import LEAST_SNAPSHOTS, MOST_SNAPSHOTS, FixedBytes, Layer, ModelNeeds

Tier = Literal["device", "ram", "ssd"]

SNAPSHOT_PART = 4  # more snapshots than the least take at most this fraction of what is left of the RAM
LEAST_PART = 8  # a cache smaller than this fraction of a layer's experts is not worth its memory


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Where every layer is kept. `ready`: all are on the device, decoded once and for good, and nothing streams.

    `trunks`: all but the experts of layers that stream stays on the device.
    """

    tiers: tuple[Tier, ...]
    ready: bool = False
    trunks: bool = False

    def count(self, tier: Tier) -> int:
        """Layers kept there."""
        return self.tiers.count(tier)

    def moving(self, layer: Layer) -> int:
        """Bytes of such a layer that come anew for every pass if it streams."""
        return layer.expert_bytes if self.trunks else layer.stored_bytes


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes at the peak, by purpose.

    On the device: `layers` of the target kept there, with the trunks of others that stay; its `rest`, `kv` (with
    `states` in layers that keep these instead) and the `buffers` of a pass, the whole `draft` or the copies that draft,
    the `ring` of streamed layers and the `scratch` layer they are decoded into; the `expert_cache`, and the
    `expert_stack` that experts are bound in (see `with_experts`). In RAM: `ram_layers`; `transit`, the ring of layers
    from SSD (or, while loading, the staging buffer of one layer for the GPU); `snapshots` of states; what reading
    `pictures` takes. On SSD: `ssd`.
    """

    layers: int
    rest: int
    kv: int
    buffers: int
    draft: int
    ring: int
    scratch: int
    ram_layers: int
    transit: int
    ssd: int
    expert_cache: int = 0
    expert_stack: int = 0
    states: int = 0
    snapshots: int = 0
    pictures: int = 0

    @property
    def device(self) -> int:
        """All of it on the device."""
        fixed = self.rest + self.kv + self.states + self.buffers + self.draft
        return fixed + self.layers + self.ring + self.scratch + self.experts

    @property
    def experts(self) -> int:
        """What single experts take, of memory that is left over."""
        return self.expert_cache + self.expert_stack

    @property
    def copied_from(self) -> int:
        """The RAM that layers for a GPU are copied from, which is pinned as far as the system allows it."""
        return self.ram_layers + (self.transit if self.ssd else 0)

    @property
    def ram(self) -> int:
        """All of it in RAM; without a GPU, what is there besides the device's."""
        return self.ram_layers + self.transit + self.snapshots + self.pictures


def spread(count: int, chosen: int) -> list[bool]:
    """Which of `count` places `chosen` ones take when they are spread evenly: gaps differ by at most one."""
    return [(place + 1) * chosen // count > place * chosen // count for place in range(count)]


def all_in(tier: Tier, count: int, ready: bool = False) -> Arrangement:
    """All of `count` layers in the same place."""
    return Arrangement((tier,) * count, ready)


def arrange(count: int, on_device: int, in_ram: int) -> Arrangement:
    """`on_device` and `in_ram` of `count` layers in these places, each kind spread evenly, the others on SSD.

    Spread, because a resident layer's computation is what hides the arrival of the next streamed one.
    """
    ram_turns = iter(spread(count - on_device, in_ram))
    tiers: list[Tier] = [
        "device" if resident else ("ram" if next(ram_turns) else "ssd") for resident in spread(count, on_device)
    ]
    return Arrangement(tuple(tiers))


def with_trunks(arrangement: Arrangement, layers: Sequence[Layer]) -> Arrangement:
    """The same where only experts stream: a layer that has none stays on the device."""
    tiers = zip(arrangement.tiers, layers, strict=True)
    return Arrangement(tuple(tier if layer.expert_bytes else "device" for tier, layer in tiers), trunks=True)


def streamed_layers(tiers: Sequence[Tier], has_gpu: bool) -> list[int]:
    """The layers that are brought anew for every pass; without a GPU, those in RAM are where they compute."""
    return [index for index, tier in enumerate(tiers) if tier == "ssd" or (tier == "ram" and has_gpu)]


def layer_bytes(target: ModelNeeds, arrangement: Arrangement) -> tuple[int, ...]:
    """What every layer takes where it is kept."""
    return tuple(_held(target, layer, arrangement) for layer in target.layers)


def _held(target: ModelNeeds, layer: Layer, arrangement: Arrangement) -> int:
    return target.ready_bytes(layer) if arrangement.ready else layer.stored_bytes


def footprint(target: ModelNeeds, fixed: FixedBytes, arrangement: Arrangement, machine: Machine) -> Footprint:
    """What this arrangement takes at its peak."""
    kept: dict[Tier, list[Layer]] = {"device": [], "ram": [], "ssd": []}
    for layer, tier in zip(target.layers, arrangement.tiers, strict=True):
        kept[tier].append(layer)
    has_gpu, rings = machine.memory.has_gpu, machine.rings
    from_ssd, in_ram = (list(map(arrangement.moving, kept[tier])) for tier in ("ssd", "ram"))
    through_ssd_ring = max(from_ssd, default=0) * min(rings.disk, len(from_ssd))
    to_device = [*in_ram, *from_ssd] if has_gpu else []
    # Without a GPU, what is in RAM is where it computes.
    trunks = _stored(kept["ssd"]) - sum(from_ssd) + (_stored(kept["ram"]) - sum(in_ram) if has_gpu else 0)
    return Footprint(
        layers=sum(_held(target, layer, arrangement) for layer in kept["device"]) + trunks,
        rest=fixed.rest,
        kv=fixed.kv,
        buffers=fixed.buffers + (fixed.prompt if streamed_layers(arrangement.tiers, has_gpu) else 0),
        draft=fixed.draft + _copies(target, arrangement, has_gpu),
        ring=max(to_device, default=0) * min(rings.device, len(to_device)),
        scratch=target.reading_bytes
        if arrangement.ready
        else target.scratch_bytes(not has_gpu and machine.rates.few_rows > 0),
        ram_layers=sum(in_ram) if has_gpu else _stored(kept["ram"]),
        transit=max(through_ssd_ring, _largest(kept["device"]) if has_gpu else 0),
        ssd=_stored(kept["ssd"]),
        states=fixed.states,
        snapshots=LEAST_SNAPSHOTS * fixed.snapshot,
        pictures=fixed.pictures,
    )


def with_experts(taken: Footprint, target: ModelNeeds, arrangement: Arrangement, room: Room) -> Footprint:
    """What an arrangement takes, with an expert cache in half of what it leaves free on the device.

    Without a GPU, where trunks stay, in all of it but what the experts of a layer take: a cache then holds what is used
    most of all layers, and gives more than a few layers that are there as a whole.
    Experts that run as they are stored need a stack as large as those of one layer beside the cache; others are decoded
    into the scratch layer, which is counted already. The cache is never larger than the experts that stream.
    """
    streamed = streamed_layers(arrangement.tiers, has_gpu=not room.shared)
    moving = [target.layers[index].expert_bytes for index in streamed]
    largest = max(moving, default=0)
    if not largest or arrangement.ready:
        return taken
    left = room.device - taken.device
    if room.shared:
        left = min(left, room.ram - room.ram_taken(taken.device, taken.ram))
    stack = largest if target.codec == "plain" else 0
    spare = min(left // 2, largest) if room.shared and arrangement.trunks else left // 2
    cache = min(sum(moving), left - spare - stack)
    return replace(taken, expert_cache=cache, expert_stack=stack) if cache * LEAST_PART >= largest else taken


def with_snapshots(taken: Footprint, snapshot: int, room: Room) -> Footprint:
    """What an arrangement takes, with more than the least snapshots of `snapshot` bytes where much RAM is left."""
    if not snapshot:
        return taken
    left = room.ram - room.ram_taken(taken.device, taken.ram)
    more = max(0, left // SNAPSHOT_PART // snapshot)
    return replace(taken, snapshots=min(MOST_SNAPSHOTS, LEAST_SNAPSHOTS + more) * snapshot)


def _copies(target: ModelNeeds, arrangement: Arrangement, has_gpu: bool) -> int:
    """Copies that draft, and the layer they are decoded into."""
    copied = [target.layers[index] for index in streamed_layers(arrangement.tiers, has_gpu)]
    if not target.drafts_itself or not copied:
        return 0
    return sum(layer.copy_bytes for layer in copied) + max(layer.run_bytes for layer in copied)


def _stored(layers: Iterable[Layer]) -> int:
    return sum(layer.stored_bytes for layer in layers)


def _largest(layers: Iterable[Layer]) -> int:
    return max((layer.stored_bytes for layer in layers), default=0)
