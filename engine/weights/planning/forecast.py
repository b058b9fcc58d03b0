"""How long a pass will take: transfer and computation run side by side, so that the slower one counts, not the sum.

Experts that are brought one by one are the exception: they cannot be asked for before the router has run.
"""

from collections import Counter
from dataclasses import dataclass, replace

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.arrangement import Arrangement, streamed_layers
from engine.weights.planning.machine import Machine, Rates
from engine.weights.planning.needs import DRAFT_PASSES, Layer, ModelNeeds, Workload

GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds of one pass of the target: its computation, RAM to GPU, and SSD to RAM; and of growing its tree.

    All three go on at once, in rings that read past the end of a pass, if streamed layers lie evenly between resident
    ones. Drafting needs the device that computes, but not the links. `expert_seconds`: of single experts, which a pass
    waits for besides. `drafts_itself`: with copies of its layers or with heads of its own, which begin every tree
    anew, so that they do not draft during a pass.
    """

    compute_seconds: float
    link_seconds: float
    ssd_seconds: float
    draft_seconds: float
    tokens_per_pass: float
    drafts_itself: bool = False
    expert_seconds: float = 0.0

    @property
    def seconds_per_pass(self) -> float:
        """Of the target, drafting left out."""
        return max(self.compute_seconds, self.link_seconds, self.ssd_seconds) + self.expert_seconds

    @property
    def seconds_per_round(self) -> float:
        """A tree and its pass: drafting hides behind transfer, not behind computation."""
        if self.drafts_itself:
            return self.draft_seconds + self.seconds_per_pass
        drafted = self.compute_seconds + self.draft_seconds
        return max(drafted, self.link_seconds, self.ssd_seconds) + self.expert_seconds

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
) -> Forecast:
    """What this arrangement gives; `Rates` says what is measured and what assumed.

    `expert_cache`: bytes for single experts. A pass takes these or whole layers, as the stream does: what is faster.
    """
    whole = _whole(target, draft, arrangement, machine, work)
    if not expert_cache or arrangement.ready:
        return whole
    single = _single(target, arrangement, machine, work, expert_cache, whole)
    return single if single and single.seconds_per_pass < whole.seconds_per_pass else whole


def _whole(
    target: ModelNeeds, draft: ModelNeeds | None, arrangement: Arrangement, machine: Machine, work: Workload
) -> Forecast:
    """Every layer that streams is brought as a whole."""
    rates = machine.rates
    moved: dict[str, int] = {"device": 0, "ram": 0, "ssd": 0}
    for layer, tier in zip(target.layers, arrangement.tiers, strict=True):
        moved[tier] += layer.stored_bytes
    link_bytes = moved["ram"] + moved["ssd"] if machine.memory.has_gpu else 0
    drafting = _draft_seconds(draft, work, rates) if draft else _copy_seconds(target, arrangement, machine, work)
    decodes = target.codec != "plain" and not arrangement.ready
    as_stored = rates.stored if decodes and not machine.memory.has_gpu else None
    return Forecast(
        compute_seconds=_pass_seconds(target, work.rows, work.context_tokens, rates, as_stored)
        + (_decode_seconds(target, arrangement, machine, work.rows, as_stored is not None) if decodes else 0.0),
        link_seconds=link_bytes / (rates.link * GIGA),
        ssd_seconds=moved["ssd"] / (rates.ssd * GIGA),
        draft_seconds=drafting,
        tokens_per_pass=work.tokens_per_pass,
        drafts_itself=target.drafts_itself or (draft is not None and draft.record_bytes > 0),
    )


def _single(
    target: ModelNeeds, arrangement: Arrangement, machine: Machine, work: Workload, cache: int, whole: Forecast
) -> Forecast | None:
    """Of layers that stream only the trunk is read ahead; None where the cache holds too few experts for one layer."""
    rates, has_gpu = machine.rates, machine.memory.has_gpu
    streamed = streamed_layers(arrangement.tiers, has_gpu)
    split = [index for index in streamed if target.layers[index].expert_bytes and target.layers[index].experts]
    if not split:
        return None
    share = _hit_share([target.layers[index] for index in split], work.rows, cache)
    if share is None:
        return None
    saved, reading, binding, decoded = {"ram": 0, "ssd": 0}, 0.0, 0.0, 0.0
    for index in split:
        layer, tier = target.layers[index], arrangement.tiers[index]
        used = layer.distinct(work.rows) / layer.experts
        per_byte = (1 / rates.ssd if tier == "ssd" else 0.0) + (1 / rates.link if has_gpu else 0.0)
        saved[tier] += layer.expert_bytes
        reading += used * (1 - share) * layer.expert_bytes / GIGA * per_byte
        binding += used * _unpacking(target, layer.expert_elements, rates)
        decoded += _unpacking(target, layer.expert_elements, rates) if target.codec != "plain" else 0.0
    return replace(
        whole,
        compute_seconds=whole.compute_seconds - decoded,
        link_seconds=whole.link_seconds - (saved["ram"] + saved["ssd"] if has_gpu else 0) / (rates.link * GIGA),
        ssd_seconds=whole.ssd_seconds - saved["ssd"] / (rates.ssd * GIGA),
        expert_seconds=reading + binding,
    )


def _hit_share(layers: list[Layer], rows: int, cache: int) -> float | None:
    """The part of the experts in use that a cache of so many bytes holds, as if all were equally likely.

    0 if one pass through all layers needs more: each expert is then evicted before it is used again. None if it does
    not hold what one layer uses.
    """
    in_all = sum(layer.expert_bytes for layer in layers)
    used = [layer.distinct(rows) * layer.expert_bytes / layer.experts for layer in layers]
    if cache < max(used):
        return None
    return min(1.0, cache / in_all) if cache >= sum(used) else 0.0


def _draft_seconds(draft: ModelNeeds, work: Workload, rates: Rates) -> float:
    """A search takes up to `DRAFT_PASSES` passes, whatever the budget, but never more than it has nodes."""
    passes = work.levels or min(DRAFT_PASSES, work.budget)
    rows = -(-work.budget // max(1, int(passes)))
    return passes * _pass_seconds(draft, rows, work.context_tokens, rates) if work.budget else 0.0


def _copy_seconds(target: ModelNeeds, arrangement: Arrangement, machine: Machine, work: Workload) -> float:
    """The same for a target that is its own draft: every pass unpacks the copies too."""
    if not target.drafts_itself:
        return 0.0
    copied = streamed_layers(arrangement.tiers, machine.memory.has_gpu)
    unpacked = sum(target.layers[index].elements for index in copied) / (machine.rates.decode * GIGA)
    passes = work.levels or min(DRAFT_PASSES, work.budget)
    return _draft_seconds(target, work, machine.rates) + passes * unpacked


def _pass_seconds(
    model: ModelNeeds, rows: int, context_tokens: int, rates: Rates, as_stored: PassTime | None = None
) -> float:
    """Computation alone, all layers on the device; `as_stored`: of weights that are decoded in passing, if they are."""
    shape = model.shape
    head = _product_seconds(shape.vocabulary * shape.hidden, rows, shape.value_bytes, rates)
    inside = rates.call_seconds * len(model.layers) + _attention_seconds(model, rows, context_tokens, rates)
    for layer, count in Counter(model.layers).items():
        trunk, experts = _touched(layer, rows)
        rows_each = rows if layer.experts else rows * layer.active_elements / max(1, trunk)
        inside += count * (
            trunk / GIGA * as_stored(rows_each)
            if as_stored
            else _product_seconds(trunk, rows_each, shape.value_bytes, rates)
        )
        if experts:
            rows_of_one = rows * layer.chosen / layer.distinct(rows)
            inside += count * _product_seconds(experts, rows_of_one, shape.value_bytes, rates)
    return inside + head


def _touched(layer: Layer, rows: int) -> tuple[float, float]:
    """Numbers that so many rows are multiplied with: of the trunk, and of the experts that they choose.

    Where nothing is known of the experts, as many as if no two rows shared one; the trunk then stands for all.
    """
    if not layer.expert_elements:
        return min(layer.elements, rows * layer.active_elements), 0.0
    used = layer.distinct(rows) / layer.experts
    return layer.elements - layer.expert_elements, used * layer.expert_elements


def _product_seconds(elements: float, rows: float, value_bytes: int, rates: Rates) -> float:
    """Weights multiplied with so many rows."""
    if rates.products:
        return elements / GIGA * rates.products(rows)
    return _bound(elements * value_bytes, rows * elements, rates)


def _attention_seconds(model: ModelNeeds, rows: int, context_tokens: int, rates: Rates) -> float:
    """Every row looks at every token of the context, in every layer that attends."""
    seen = context_tokens * model.shape.query_width * sum(layer.attends for layer in model.layers)
    unpacking = context_tokens * model.kv_packed / (rates.decode * GIGA)
    if rates.attention:
        return seen / GIGA * rates.attention(rows) + unpacking
    return _bound(context_tokens * model.kv_bytes, 2 * rows * seen, rates) + unpacking


def _bound(read_bytes: float, products: float, rates: Rates) -> float:
    """By reading, or by arithmetic."""
    return max(read_bytes / (rates.memory * GIGA), 2 * products / (rates.tflops * TERA))


def _decode_seconds(model: ModelNeeds, arrangement: Arrangement, machine: Machine, rows: int, as_stored: bool) -> float:
    """Of layers that stay, only the experts in use are decoded; `as_stored`: nothing else needs it."""
    streamed = set(streamed_layers(arrangement.tiers, machine.memory.has_gpu))
    elements = 0.0
    for index, layer in enumerate(model.layers):
        experts = layer.expert_elements
        used = 1.0 if index in streamed or not experts else layer.distinct(rows) / layer.experts
        elements += used * experts + (0.0 if as_stored else layer.elements - experts)
    return _unpacking(model, elements, machine.rates)


def _unpacking(model: ModelNeeds, elements: float, rates: Rates) -> float:
    """Unpacking is arithmetic; casting is no more than reading 16 bits and writing what they become, a copy as much."""
    if model.is_packed:
        return elements / (rates.decode * GIGA)
    return elements * (2 + model.shape.value_bytes) / (rates.memory * GIGA)
