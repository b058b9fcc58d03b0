"""How long a pass will take: transfer and computation run side by side, so that the slower one counts, not the sum.

Experts that are brought one by one are the exception: they cannot be asked for before the router has run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.weights.planning.arrangement import Arrangement, streamed_layers
from engine.weights.planning.computing import (
    GIGA,
    decode_seconds,
    expert_seconds,
    host_seconds,
    pass_seconds,
    unpacking_seconds,
)
from engine.weights.planning.expert_ways import ExpertWay, Situation, seconds_of
from engine.weights.planning.machine import Machine, Rates
from engine.weights.planning.needs import DRAFT_PASSES, Layer, ModelNeeds, Workload

EXPERT_WAYS: tuple[ExpertWay, ...] = ("whole", "single", "computed")
CALLS = 1.5e-3  # seconds that a processor takes longer with a layer whose experts come one by one, if none has to
# What its cache holds of the experts in use is so high a power of the part of all experts that it holds: measured of
# some hundred passes over a mixture of 128 experts a layer. The latter if a pass needs more experts than it holds.
LASTING, SWEPT = 0.5, 0.85
LOOKED = 0.2  # of the wait for single experts that a processor saves by reading the likely ones a layer earlier
BESIDE = 0.5  # of the processor's computing with single experts that goes on while further ones come
STREAMED_WAYS: tuple[ExpertWay, ...] = ("whole", "single")


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds of one pass of the target: its computation, RAM to GPU, and SSD to RAM; and of growing its tree.

    All three go on at once, in rings that read past the end of a pass, if streamed layers lie evenly between resident
    ones. Drafting needs the device that computes, but not the links. `expert_seconds`: of single experts, which a pass
    waits for besides. `drafts_itself`: with copies of its layers or with heads of its own, which begin every tree
    anew, so that they do not draft during a pass. `host_seconds`: verifying, and whatever else a round takes besides.
    `hidden`: by how many seconds a pass is shorter for every second of drafting before it, where rounds have shown it.
    `expert_way`: how experts of layers that stream are had.
    """

    compute_seconds: float
    link_seconds: float
    ssd_seconds: float
    draft_seconds: float
    tokens_per_pass: float
    drafts_itself: bool = False
    expert_seconds: float = 0.0
    host_seconds: float = 0.0
    hidden: float | None = None
    expert_way: ExpertWay = "whole"

    @property
    def seconds_per_pass(self) -> float:
        """Of the target, drafting left out."""
        return max(self.compute_seconds, self.link_seconds, self.ssd_seconds) + self.expert_seconds

    @property
    def undrafted_seconds(self) -> float:
        """Of a round without a tree: a pass, and whatever else it takes."""
        return self.seconds_per_pass + self.host_seconds

    @property
    def seconds_per_round(self) -> float:
        """A tree and its pass: drafting hides behind transfer, not behind computation."""
        if self.hidden is not None or self.drafts_itself:
            return (1.0 - (self.hidden or 0.0)) * self.draft_seconds + self.undrafted_seconds
        drafted = self.compute_seconds + self.draft_seconds
        return max(drafted, self.link_seconds, self.ssd_seconds) + self.expert_seconds + self.host_seconds

    def times(self, factor: float) -> "Forecast":
        """The same if all but the drafting took so many times as long."""
        return replace(
            self,
            compute_seconds=factor * self.compute_seconds,
            link_seconds=factor * self.link_seconds,
            ssd_seconds=factor * self.ssd_seconds,
            expert_seconds=factor * self.expert_seconds,
            host_seconds=factor * self.host_seconds,
        )

    @property
    def tokens_per_second(self) -> float:
        """Of an answer."""
        return self.tokens_per_pass / self.seconds_per_round


def forecast(
    target: ModelNeeds,
    draft: ModelNeeds | None,
    arrangement: Arrangement,
    machine: Machine,
    work: Workload,
    expert_cache: int = 0,
    ways: Sequence[ExpertWay] = EXPERT_WAYS,
) -> Forecast:
    """What this arrangement gives; `Rates` says what is measured and what assumed.

    `expert_cache`: bytes for single experts. A pass has its experts in one of these `ways`, as the stream does: in the
    fastest that is possible.
    """
    whole = _whole(target, draft, arrangement, machine, work)
    if not expert_cache or arrangement.ready:
        return whole
    found = [whole] if "whole" in ways else []
    for way in ways:
        other = None
        if way != "whole":
            other = _with_experts(target, arrangement, machine, work, expert_cache, whole, way)
        found += [other] if other else []
    return min(found, key=lambda each: each.seconds_per_pass, default=whole)


def _whole(
    target: ModelNeeds, draft: ModelNeeds | None, arrangement: Arrangement, machine: Machine, work: Workload
) -> Forecast:
    """Every layer that streams is brought as a whole."""
    rates = machine.rates
    moved: dict[str, int] = {"device": 0, "ram": 0, "ssd": 0}
    for layer, tier in zip(target.layers, arrangement.tiers, strict=True):
        moved[tier] += arrangement.moving(layer)
    link_bytes = moved["ram"] + moved["ssd"] if machine.memory.has_gpu else 0
    if draft:
        drafting = _draft_seconds(draft, work, machine.drafting or rates)
    else:
        drafting = _copy_seconds(target, arrangement, machine, work)
    decodes = target.codec != "plain" and not arrangement.ready
    as_stored = rates.stored if (decodes or target.stays_stored) and not machine.memory.has_gpu else None
    decoding = decode_seconds(target, arrangement, machine, work.rows) if decodes and not as_stored else 0.0
    return Forecast(
        compute_seconds=pass_seconds(target, work.rows, work.context_tokens, rates, as_stored) + decoding,
        link_seconds=link_bytes / (rates.link * GIGA),
        ssd_seconds=moved["ssd"] / (rates.ssd * GIGA),
        draft_seconds=drafting,
        tokens_per_pass=work.tokens_per_pass,
        drafts_itself=target.drafts_itself or (draft is not None and draft.record_bytes > 0),
        host_seconds=rates.round_seconds,
    )


def _with_experts(
    target: ModelNeeds,
    arrangement: Arrangement,
    machine: Machine,
    work: Workload,
    cache: int,
    whole: Forecast,
    way: ExpertWay,
) -> Forecast | None:
    """Layers that stream bring only their trunk ahead; None where this way is not possible.

    Layers on SSD have their experts one by one also where those in RAM are computed there.
    """
    rates, has_gpu = machine.rates, machine.memory.has_gpu
    streamed = streamed_layers(arrangement.tiers, has_gpu)
    # Where each token takes all experts of a layer, none is brought alone.
    split = [index for index in streamed if target.layers[index].expert_bytes and target.layers[index].expert_elements]
    if not split or (way == "computed" and not has_gpu):
        return None
    share = _hit_share([target.layers[index] for index in split], work.rows, cache, has_gpu)
    saved, adding, computing, anywhere = {"ram": 0, "ssd": 0}, 0.0, 0.0, 0
    for index in split:
        layer, tier = target.layers[index], arrangement.tiers[index]
        at = _situation(target, layer, arrangement, tier == "ssd", machine, work.rows, share, cache)
        own: ExpertWay = "single" if tier == "ssd" else way
        found = seconds_of(at).get(own)
        if found is None:
            return None
        anywhere += own == way
        saved[tier] += layer.expert_bytes
        waiting = found - at.trunk_bytes / at.whole_rate + (0.0 if has_gpu else CALLS)
        if work.rows > 1 and _stays_stored(target, machine):
            waiting -= min(waiting, BESIDE * expert_seconds(target, layer, work.rows, rates, rates.stored))
        if arrangement.trunks and _stays_stored(target, machine):
            waiting *= 1.0 - LOOKED
        adding += waiting
        if target.codec != "plain" and not _stays_stored(target, machine):
            computing += unpacking_seconds(target, layer.expert_elements, rates)
        if own == "computed":
            computing += expert_seconds(target, layer, work.rows, rates)
    if not anywhere:
        return None
    return replace(
        whole,
        compute_seconds=whole.compute_seconds - computing,
        link_seconds=whole.link_seconds - (saved["ram"] + saved["ssd"] if has_gpu else 0) / (rates.link * GIGA),
        ssd_seconds=whole.ssd_seconds - saved["ssd"] / (rates.ssd * GIGA),
        expert_seconds=adding,
        expert_way=way,
    )


def _situation(
    target: ModelNeeds,
    layer: Layer,
    arrangement: Arrangement,
    is_on_ssd: bool,
    machine: Machine,
    rows: int,
    share: float,
    cache: int,
) -> Situation:
    """One layer, as the stream sees it when it chooses; what is computed besides its experts is counted elsewhere."""
    rates, has_gpu = machine.rates, machine.memory.has_gpu
    each = layer.expert_bytes // layer.experts
    rows_of_one = rows * layer.chosen / layer.distinct(rows)
    elements = layer.expert_elements / layer.experts
    per_byte = (1 / rates.ssd if is_on_ssd else 0.0) + (1 / rates.link if has_gpu else 0.0)
    slowest = max(1 / rates.ssd if is_on_ssd else 0.0, 1 / rates.link if has_gpu else 0.0)
    return Situation(
        rows=rows,
        experts=layer.experts,
        chosen=layer.chosen,
        slots=cache // each,
        expert_bytes=each,
        trunk_bytes=arrangement.moving(layer) - layer.expert_bytes,
        whole_rate=GIGA / slowest,
        single_rate=GIGA / per_byte,
        bind_seconds=0.0 if _stays_stored(target, machine) else unpacking_seconds(target, elements, rates),
        decodes=target.codec != "plain",
        hit_share=share,
        in_place=has_gpu and not is_on_ssd,
        place_seconds=elements / GIGA * host_seconds(rates, rows_of_one, each / elements),
    )


def _stays_stored(target: ModelNeeds, machine: Machine) -> bool:
    """Whether the processor multiplies with weights as they are stored."""
    return target.codec != "plain" and not machine.memory.has_gpu and machine.rates.stored is not None


def _hit_share(layers: list[Layer], rows: int, cache: int, has_gpu: bool) -> float:
    """The part of the experts in use that a cache of so many bytes holds.

    Beside a GPU as if all were equally likely, and none if a pass through all layers needs more: each is then evicted
    before it is used again. Of a processor alone it was measured: it is more, as texts use some more often than others.
    """
    in_all = sum(layer.expert_bytes for layer in layers)
    used = sum(layer.distinct(rows) * layer.expert_bytes / layer.experts for layer in layers)
    held = min(1.0, cache / in_all)
    if has_gpu:
        return held if cache >= used else 0.0
    return float(held ** (LASTING if cache >= used else SWEPT))


def _draft_seconds(draft: ModelNeeds, work: Workload, rates: Rates) -> float:
    """A search takes up to `DRAFT_PASSES` passes, whatever the budget, but never more than it has nodes."""
    if not work.budget:
        return 0.0
    passes = work.levels or min(DRAFT_PASSES, work.budget)
    rows = -(-work.budget // max(1, int(passes)))
    as_stored = rates.stored if draft.stays_stored else None
    growing = rates.levels(rows) if rates.levels else 0.0
    return passes * (pass_seconds(draft, rows, work.context_tokens, rates, as_stored) + growing)


def _copy_seconds(target: ModelNeeds, arrangement: Arrangement, machine: Machine, work: Workload) -> float:
    """The same for a target that is its own draft: every pass unpacks the copies too."""
    if not target.drafts_itself:
        return 0.0
    copied = streamed_layers(arrangement.tiers, machine.memory.has_gpu)
    unpacked = sum(target.layers[index].elements for index in copied) / (machine.rates.decode * GIGA)
    passes = work.levels or min(DRAFT_PASSES, work.budget)
    return _draft_seconds(target, work, machine.rates) + passes * unpacked
