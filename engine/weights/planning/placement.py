"""Decides where every decoder layer is kept, by arithmetic on a model's and a machine's figures, and explains it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from engine.errors import InputError
from engine.protocol.options import Place
from engine.protocol.sentences import joined, say
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.arrangement import (
    Arrangement,
    Footprint,
    Tier,
    all_in,
    arrange,
    footprint,
    layer_bytes,
    streamed_layers,
    with_experts,
    with_snapshots,
    with_trunks,
)
from engine.weights.planning.forecast import Forecast, forecast
from engine.weights.planning.machine import Machine, Room, gib
from engine.weights.planning.needs import FixedBytes, KvForm, ModelNeeds, Workload, fixed_bytes

Verdict = Literal["device", "offload", "ssd", "no"]

PARTS_TOLD = 3  # in the explanation of what does not fit
CRAMPED = 1.1  # times its seconds an arrangement is counted that is worse by far for smaller trees, or for none
NANO = 9  # decimals of seconds: sums in another order are the same time


@dataclass(frozen=True, slots=True)
class Override:
    """What a person decides instead of the planner.

    `place`: every layer there; `tiers`: each layer's own place, before `place`; the limits, in bytes, bound what is
    taken. An override that does not fit is the verdict `no`, unless `force` is set.
    """

    place: Place = "auto"
    tiers: tuple[Tier, ...] = ()
    vram_limit: int | None = None
    ram_limit: int | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Where every layer goes (`arrangement`), what each takes there, what that takes in all, and what it gives.

    `fits` is False for the verdict `no` and for a forced override; the other fields then tell what it would take.
    `largest_tree`: the drafted nodes that there is memory for; `snapshots`: of states, 0 where no layer keeps any.
    `few_rows`: see `Rates`; `stays_stored`, `is_rounded`, `kv_form`: `ModelNeeds`; `context_tokens`: see `Workload`.
    `draft_rows`: the few rows of a draft whose weights stay packed, 0 of others; `draft_is_rounded`: see `ModelNeeds`.
    `note`: the part of the reason that is about the context. `expected`: seconds of the target's passes by their rows,
    None where the machine was not measured.
    """

    verdict: Verdict
    reason: str
    arrangement: Arrangement
    layer_bytes: tuple[int, ...]
    bytes: Footprint
    room: Room
    forecast: Forecast
    fits: bool
    largest_tree: int
    snapshots: int = 0
    few_rows: int = 0
    stays_stored: bool = False
    is_rounded: bool = False
    draft_rows: int = 0
    draft_is_rounded: bool = False
    kv_form: KvForm = "computed"
    note: str = ""
    context_tokens: int = 0
    expected: PassTime | None = None


@dataclass(frozen=True, slots=True)
class _Planner:
    """One planning problem, and how every candidate is evaluated."""

    target: ModelNeeds
    draft: ModelNeeds | None
    machine: Machine
    work: Workload
    room: Room
    fixed: FixedBytes

    def footprint(self, arrangement: Arrangement) -> Footprint:
        return footprint(self.target, self.fixed, arrangement, self.machine)

    def forecast(self, arrangement: Arrangement) -> Forecast:
        taken = with_experts(self.footprint(arrangement), self.target, arrangement, self.room)
        return forecast(self.target, self.draft, arrangement, self.machine, self.work, taken.expert_cache)

    def fits(self, arrangement: Arrangement) -> bool:
        taken = self.footprint(arrangement)
        return self.room.holds(taken.device, taken.ram)

    def best(self) -> Arrangement:
        """The fastest arrangement that fits; of equally fast ones, that with most layers on the device, then in RAM.

        More memory only ever adds candidates, so it never makes the forecast slower, but for what room for single
        experts may cost (`CRAMPED`). If nothing fits, everything is on SSD, which takes least.
        """
        count = len(self.target.layers)
        fitting = [self._ready()] if self.target.may_be_ready and self.fits(self._ready()) else []
        for on_device in range(count + 1):
            fitting += self._splits(on_device)
        return min(fitting, key=self._rank, default=arrange(count, 0, 0))

    def everywhere(self, tier: Tier) -> Arrangement:
        """Every layer in the same place."""
        same = all_in(tier, len(self.target.layers))
        if tier == "device" and self.target.may_be_ready and (self.fits(self._ready()) or not self.fits(same)):
            return self._ready()
        return self._keeping_trunks(same) or same

    def _ready(self) -> Arrangement:
        return all_in("device", len(self.target.layers), ready=True)

    def _splits(self, on_device: int) -> Iterator[Arrangement]:
        """What fits with `on_device` layers there, those with more layers in RAM first."""
        others = len(self.target.layers) - on_device
        # Without a GPU, RAM is the device; it is a second place only where a person limits the first.
        most_in_ram = others if not self.room.shared or self.room.device < self.room.ram else 0
        alike = len({layer.stored_bytes for layer in self.target.layers}) == 1
        for in_ram in range(most_in_ram, -1, -1):
            arrangement = arrange(others + on_device, on_device, in_ram)
            taken = self.footprint(arrangement)
            if taken.device > self.room.device:
                return  # whether the others are in RAM or on SSD makes no difference to the device
            if self.room.holds(taken.device, taken.ram):
                yield arrangement
                if trunked := self._keeping_trunks(arrangement):
                    yield trunked
                if alike:
                    return  # fewer in RAM would only mean more on SSD

    def _keeping_trunks(self, arrangement: Arrangement) -> Arrangement | None:
        """The same with all but experts on the device, which need a cache then; None where that is not possible."""
        if arrangement.ready or not any(layer.expert_elements for layer in self.target.layers):
            return None
        found = with_trunks(arrangement, self.target.layers)
        taken = self.footprint(found)
        has_cache = with_experts(taken, self.target, found, self.room).expert_cache > 0
        return found if has_cache and self.room.holds(taken.device, taken.ram) else None

    def _rank(self, arrangement: Arrangement) -> tuple[float, float, int, int]:
        seconds = self.forecast(arrangement)
        if self._is_cramped(arrangement):
            seconds = seconds.times(CRAMPED)
        on_device, in_ram = arrangement.count("device"), arrangement.count("ram")
        of_pass, of_round = round(seconds.seconds_per_pass, NANO), round(seconds.seconds_per_round, NANO)
        return of_pass, of_round, -on_device, -in_ram

    def _is_cramped(self, arrangement: Arrangement) -> bool:
        """Whether layers stream of which a small tree brings more than it needs.

        All experts, where there is no room for as many as it needs; or else the trunk, which every pass needs.
        """
        layers = [self.target.layers[each] for each in streamed_layers(arrangement.tiers, self.machine.memory.has_gpu)]
        largest = max((layer.expert_bytes for layer in layers if layer.experts), default=0)
        taken = with_experts(self.footprint(arrangement), self.target, arrangement, self.room)
        return not arrangement.ready and (taken.expert_cache < largest or (largest > 0 and not arrangement.trunks))


_NO_OVERRIDE = Override()


def plan(
    target: ModelNeeds, draft: ModelNeeds | None, machine: Machine, work: Workload, override: Override = _NO_OVERRIDE
) -> Plan:
    """Where each layer of the target goes.

    On the device: first all of the draft, the caches and the buffers of a pass, then as many of the target's layers as
    make it faster, spread evenly; the next in RAM, the others on SSD. Raises `InputError` for an override of another
    model.
    """
    room = machine.memory.room(override.vram_limit, override.ram_limit)
    planner = _Planner(target, draft, machine, work, room, fixed_bytes(target, draft, work, machine.memory.has_gpu))
    arrangement = _arrangement(planner, override)
    taken = planner.footprint(arrangement)
    fits = room.holds(taken.device, taken.ram)
    snapshot = planner.fixed.snapshot
    kept = with_snapshots(with_experts(taken, target, arrangement, room), snapshot, room) if fits else taken
    return Plan(
        verdict=verdict_of(arrangement) if fits or override.force else "no",
        reason=explain(arrangement, kept, room),
        arrangement=arrangement,
        layer_bytes=layer_bytes(target, arrangement),
        bytes=kept,
        room=room,
        forecast=planner.forecast(arrangement),
        fits=fits,
        largest_tree=work.largest,
        snapshots=kept.snapshots // snapshot if snapshot else 0,
        few_rows=machine.rates.few_rows,
        stays_stored=target.stays_stored,
        is_rounded=target.is_rounded and not arrangement.ready,
        draft_rows=machine.drafting.few_rows if machine.drafting and draft and draft.stays_packed else 0,
        draft_is_rounded=draft is not None and draft.stays_packed and draft.is_rounded,
        kv_form=target.kv_form,
        context_tokens=work.context_tokens,
    )


def verdict_of(arrangement: Arrangement) -> Verdict:
    """The slowest place that a pass depends on."""
    if arrangement.count("ssd"):
        return "ssd"
    return "offload" if arrangement.count("ram") else "device"


def explain(arrangement: Arrangement, taken: Footprint, room: Room) -> str:
    """Where the layers go; or, where that does not fit, what it would take and what there is."""
    if room.holds(taken.device, taken.ram):
        if not arrangement.trunks:
            return _where(arrangement, room)
        held = say(
            "Of those that stream, all but the experts stays as well, and {size} of the experts in use.",
            size=gib(taken.expert_cache),
        )
        return joined((_where(arrangement, room), held))
    device_parts: dict[str, int] = {
        say("layers"): taken.layers,
        say("embeddings and head"): taken.rest,
        say("the context"): taken.kv + taken.states,
        say("the working space of a pass"): taken.buffers,
        say("the draft"): taken.draft,
        say("layers in transit"): taken.ring,
        say("unpacking"): taken.scratch,
    }
    ram_parts: dict[str, int] = {
        say("layers in RAM"): taken.ram_layers,
        say("layers in transit through RAM"): taken.transit,
        say("snapshots of the context"): taken.snapshots,
        say("pictures"): taken.pictures,
    }
    if taken.device > room.device and not (room.shared and room.device == room.ram):
        return _short(say("memory") if room.shared else say("GPU memory"), device_parts, room.device)
    if room.shared:
        return _short(say("memory"), {**device_parts, **ram_parts}, room.ram)
    return _short("RAM", ram_parts, room.ram)


def _arrangement(planner: _Planner, override: Override) -> Arrangement:
    count = len(planner.target.layers)
    if override.tiers:
        if len(override.tiers) != count:
            raise InputError(
                say(
                    "Places for {count} layers are given, but the model has {there}.",
                    count=len(override.tiers),
                    there=count,
                )
            )
        return Arrangement(override.tiers)
    return planner.best() if override.place == "auto" else planner.everywhere(override.place)


def _where(arrangement: Arrangement, room: Room) -> str:
    count, on_ssd = len(arrangement.tiers), arrangement.count("ssd")
    if room.shared:
        if not on_ssd:
            return say("All {count} layers fit in memory.", count=count)
        return say(
            "{kept} of {count} layers stay in memory; {streamed} stream from SSD.",
            kept=count - on_ssd,
            count=count,
            streamed=on_ssd,
        )
    on_device, in_ram = arrangement.count("device"), arrangement.count("ram")
    if on_device == count:
        return say("All {count} layers fit on the GPU.", count=count)
    streams = [
        say("{count} stream from {place}", count=number, place=place)
        for number, place in ((in_ram, "RAM"), (on_ssd, "SSD"))
        if number
    ]
    return say(
        "{kept} of {count} layers stay on the GPU; {streams}.",
        kept=on_device,
        count=count,
        streams=joined(streams, ", "),
    )


def _short(memory: str, parts: dict[str, int], free: int) -> str:
    largest = sorted(parts.items(), key=lambda part: -part[1])[:PARTS_TOLD]
    told = [say("{gib} for {purpose}", gib=gib(nbytes), purpose=purpose) for purpose, nbytes in largest if nbytes]
    return say(
        "{needed} of {memory} would be needed ({parts}), but {free} may be used.",
        needed=gib(sum(parts.values())),
        memory=memory,
        parts=joined(told, ", "),
        free=gib(free),
    )
