"""How long a pass will take: transfer and computation run side by side, so that the slower one counts, not the sum."""

from collections import Counter
from dataclasses import dataclass

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.arrangement import Arrangement, streamed_layers
from engine.weights.planning.machine import Machine, Rates
from engine.weights.planning.needs import DRAFT_PASSES, ModelNeeds, Workload

GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds of one pass of the target: its computation, RAM to GPU, and SSD to RAM; and of growing its tree.

    All three go on at once, in rings that read past the end of a pass, if streamed layers lie evenly between resident
    ones. Drafting needs the device that computes, but not the links. `drafts_itself`: with copies of its layers or with
    heads of its own, which begin every tree anew, so that they do not draft during a pass.
    """

    compute_seconds: float
    link_seconds: float
    ssd_seconds: float
    draft_seconds: float
    tokens_per_pass: float
    drafts_itself: bool = False

    @property
    def seconds_per_pass(self) -> float:
        """Of the target, drafting left out."""
        return max(self.compute_seconds, self.link_seconds, self.ssd_seconds)

    @property
    def seconds_per_round(self) -> float:
        """A tree and its pass: drafting hides behind transfer, not behind computation."""
        if self.drafts_itself:
            return self.draft_seconds + self.seconds_per_pass
        return max(self.compute_seconds + self.draft_seconds, self.link_seconds, self.ssd_seconds)

    @property
    def tokens_per_second(self) -> float:
        """Of an answer."""
        return self.tokens_per_pass / self.seconds_per_round


def forecast(
    target: ModelNeeds, draft: ModelNeeds | None, arrangement: Arrangement, machine: Machine, work: Workload
) -> Forecast:
    """What this arrangement gives; `Rates` says what is measured and what assumed."""
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
        + (_decode_seconds(target, rates) if decodes and as_stored is None else 0.0),
        link_seconds=link_bytes / (rates.link * GIGA),
        ssd_seconds=moved["ssd"] / (rates.ssd * GIGA),
        draft_seconds=drafting,
        tokens_per_pass=work.tokens_per_pass,
        drafts_itself=target.drafts_itself or (draft is not None and draft.record_bytes > 0),
    )


def _draft_seconds(draft: ModelNeeds, work: Workload, rates: Rates) -> float:
    """A search takes up to `DRAFT_PASSES` passes, whatever the budget, but never more than it has nodes."""
    passes = min(DRAFT_PASSES, work.budget)
    return passes * _pass_seconds(draft, -(-work.budget // passes), work.context_tokens, rates) if passes else 0.0


def _copy_seconds(target: ModelNeeds, arrangement: Arrangement, machine: Machine, work: Workload) -> float:
    """The same for a target that is its own draft: every pass unpacks the copies too."""
    if not target.drafts_itself:
        return 0.0
    copied = streamed_layers(arrangement.tiers, machine.memory.has_gpu)
    unpacked = sum(target.layers[index].elements for index in copied) / (machine.rates.decode * GIGA)
    return _draft_seconds(target, work, machine.rates) + min(DRAFT_PASSES, work.budget) * unpacked


def _pass_seconds(
    model: ModelNeeds, rows: int, context_tokens: int, rates: Rates, as_stored: PassTime | None = None
) -> float:
    """Computation alone, all layers on the device; `as_stored`: of weights that are decoded in passing, if they are."""
    shape = model.shape
    head = _product_seconds(shape.vocabulary * shape.hidden, rows, shape.value_bytes, rates)
    inside = rates.call_seconds * len(model.layers) + _attention_seconds(model, rows, context_tokens, rates)
    for layer, count in Counter(model.layers).items():
        touched = min(layer.elements, rows * layer.active_elements)  # of many experts, few rows choose only some
        rows_each = rows * layer.active_elements / max(1, touched)
        inside += count * (
            touched / GIGA * as_stored(rows_each)
            if as_stored
            else _product_seconds(touched, rows_each, shape.value_bytes, rates)
        )
    return inside + head


def _product_seconds(elements: int, rows: float, value_bytes: int, rates: Rates) -> float:
    """Weights multiplied with so many rows."""
    if rates.products:
        return elements / GIGA * rates.products(rows)
    return _bound(elements * value_bytes, rows * elements, rates)


def _attention_seconds(model: ModelNeeds, rows: int, context_tokens: int, rates: Rates) -> float:
    """Every row looks at every token of the context, in every layer that attends."""
    seen = context_tokens * model.shape.query_width * sum(layer.attends for layer in model.layers)
    if rates.attention:
        return seen / GIGA * rates.attention(rows)
    return _bound(context_tokens * model.kv_bytes, 2 * rows * seen, rates)


def _bound(read_bytes: int, products: float, rates: Rates) -> float:
    """By reading, or by arithmetic."""
    return max(read_bytes / (rates.memory * GIGA), 2 * products / (rates.tflops * TERA))


def _decode_seconds(model: ModelNeeds, rates: Rates) -> float:
    """Unpacking is arithmetic; casting is no more than reading 16 bits and writing what they become."""
    elements = sum(layer.elements for layer in model.layers)
    if model.is_packed:
        return elements / (rates.decode * GIGA)
    return elements * (2 + model.shape.value_bytes) / (rates.memory * GIGA)
