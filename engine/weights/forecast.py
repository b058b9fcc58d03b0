"""How long a pass will take: transfer and computation run side by side, so that the slower one counts, not the sum."""

from dataclasses import dataclass

from engine.weights.arrangement import Arrangement
from engine.weights.machine import Machine, Rates
from engine.weights.needs import DRAFT_PASSES, ModelNeeds, Workload

GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds of one pass of the target: its computation, RAM to GPU, and SSD to RAM; and of growing its tree.

    All three go on at once, in rings that read past the end of a pass, if streamed layers lie evenly between resident
    ones. Drafting needs the device that computes, but not the links.
    """

    compute_seconds: float
    link_seconds: float
    ssd_seconds: float
    draft_seconds: float
    tokens_per_pass: float

    @property
    def seconds_per_pass(self) -> float:
        """Of the target, drafting left out."""
        return max(self.compute_seconds, self.link_seconds, self.ssd_seconds)

    @property
    def seconds_per_round(self) -> float:
        """A tree and its pass: drafting hides behind transfer, not behind computation."""
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
    decodes = target.codec != "plain" and not arrangement.ready
    return Forecast(
        compute_seconds=_pass_seconds(target, work.rows, work.context_tokens, rates, rates.layer_seconds)
        + (_decode_seconds(target, rates) if decodes and rates.layer_seconds is None else 0.0),
        link_seconds=link_bytes / (rates.link * GIGA),
        ssd_seconds=moved["ssd"] / (rates.ssd * GIGA),
        draft_seconds=_draft_seconds(draft, work, rates) if draft else 0.0,
        tokens_per_pass=work.tokens_per_pass,
    )


def _draft_seconds(draft: ModelNeeds, work: Workload, rates: Rates) -> float:
    """A search takes up to `DRAFT_PASSES` passes, whatever the budget, but never more than it has nodes."""
    passes = min(DRAFT_PASSES, work.budget)
    return passes * _pass_seconds(draft, -(-work.budget // passes), work.context_tokens, rates) if passes else 0.0


def _pass_seconds(
    model: ModelNeeds, rows: int, context_tokens: int, rates: Rates, layer_seconds: float | None = None
) -> float:
    """Computation alone, all layers on the device: bound by reading the weights, or by arithmetic."""
    shape = model.shape
    read = context_tokens * model.kv_bytes
    products = 2 * rows * context_tokens * shape.query_width * len(model.layers)
    for layer in model.layers:
        read += min(layer.elements, rows * layer.active_elements) * shape.value_bytes
        products += rows * layer.active_elements
    if layer_seconds is None:
        inside = _bound(read, products, rates) + rates.call_seconds * len(model.layers)
    else:
        inside = layer_seconds * len(model.layers)
    head = shape.vocabulary * shape.hidden
    return inside + _bound(head * shape.value_bytes, rows * head, rates)


def _bound(read_bytes: int, products: int, rates: Rates) -> float:
    return max(read_bytes / (rates.memory * GIGA), 2 * products / (rates.tflops * TERA))


def _decode_seconds(model: ModelNeeds, rates: Rates) -> float:
    """Unpacking is arithmetic; casting is no more than reading 16 bits and writing what they become."""
    elements = sum(layer.elements for layer in model.layers)
    if model.is_packed:
        return elements / (rates.decode * GIGA)
    return elements * (2 + model.shape.value_bytes) / (rates.memory * GIGA)
