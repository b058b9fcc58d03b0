"""How long computing takes: products with weights, attention, unpacking, and what calls cost."""

from collections import Counter

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.arrangement import Arrangement, streamed_layers
from engine.weights.planning.machine import Machine, Rates
from engine.weights.planning.needs import Layer, ModelNeeds

GIGA, TERA = 1e9, 1e12
LEVELS = (1, 4, 8, 16, 32)  # rows of levels of trees


def pass_seconds(
    model: ModelNeeds, rows: int, context_tokens: int, rates: Rates, as_stored: PassTime | None = None
) -> float:
    """Computation alone, all layers on the device; `as_stored`: of weights that are decoded in passing, if they are."""
    shape = model.shape
    of_head = shape.vocabulary * shape.hidden
    if as_stored and model.stays_stored:
        head = of_head / GIGA * as_stored(rows)
    else:
        head = product_seconds(of_head, rows, shape.value_bytes, rates)
    inside = rates.layer_seconds(rows) * len(model.layers) + _attention_seconds(model, rows, context_tokens, rates)
    for layer, count in Counter(model.layers).items():
        trunk, experts = _touched(layer, rows)
        rows_each = rows if layer.experts else rows * layer.active_elements / max(1, trunk)
        inside += count * (
            trunk / GIGA * as_stored(rows_each)
            if as_stored
            else product_seconds(trunk, rows_each, shape.value_bytes, rates)
        )
        if experts:
            inside += count * expert_seconds(model, layer, rows, rates, as_stored)
    return inside + head + rates.pass_seconds


def levels_gain_stored(rates: Rates) -> bool:
    """Whether levels of trees are multiplied no later with weights as they are stored than with weights that are ready.

    As measured; False where nothing was.
    """
    if rates.stored is None or rates.products is None:
        return False
    return sum(map(rates.stored, LEVELS)) <= sum(map(rates.products, LEVELS))


def expert_seconds(
    model: ModelNeeds, layer: Layer, rows: int, rates: Rates, as_stored: PassTime | None = None
) -> float:
    """Products with the experts that so many rows choose in a layer."""
    experts, rows_of_one = _touched(layer, rows)[1], rows * layer.chosen / layer.distinct(rows)
    if as_stored:
        return experts / GIGA * as_stored(rows_of_one)
    return product_seconds(experts, rows_of_one, model.shape.value_bytes, rates)


def _touched(layer: Layer, rows: int) -> tuple[float, float]:
    """Numbers that so many rows are multiplied with: of the trunk, and of the experts that they choose.

    Where nothing is known of the experts, as many as if no two rows shared one; the trunk then stands for all.
    """
    if not layer.expert_elements:
        return min(layer.elements, rows * layer.active_elements), 0.0
    used = layer.distinct(rows) / layer.experts
    return layer.elements - layer.expert_elements, used * layer.expert_elements


def product_seconds(elements: float, rows: float, value_bytes: int, rates: Rates) -> float:
    """Weights multiplied with so many rows."""
    if rates.products:
        return elements / GIGA * rates.products(rows)
    return _bound(elements * value_bytes, rows * elements, rates)


def host_seconds(rates: Rates, rows: float, bytes_each: float) -> float:
    """1e9 weights of `bytes_each`, multiplied with so many rows by the processor, where they lie in RAM."""
    if rates.host:
        return rates.host(rows)
    return max(bytes_each / rates.host_memory, 2 * rows / (1e3 * rates.host_tflops))


def _attention_seconds(model: ModelNeeds, rows: int, context_tokens: int, rates: Rates) -> float:
    """Every row looks at every token of the context, in every layer that attends."""
    seen = context_tokens * model.shape.query_width * sum(layer.attends for layer in model.layers)
    unpacking = context_tokens * model.kv_packed / ((rates.unpack or rates.decode) * GIGA)
    if rates.attention:
        return seen / GIGA * rates.attention(rows) + unpacking
    return _bound(context_tokens * model.kv_bytes, 2 * rows * seen, rates) + unpacking


def _bound(read_bytes: float, products: float, rates: Rates) -> float:
    """By reading, or by arithmetic."""
    return max(read_bytes / (rates.memory * GIGA), 2 * products / (rates.tflops * TERA))


def decode_seconds(model: ModelNeeds, arrangement: Arrangement, machine: Machine, rows: int) -> float:
    """Of layers that stay, only the experts in use are decoded."""
    streamed = set(streamed_layers(arrangement.tiers, machine.memory.has_gpu))
    elements = 0.0
    for index, layer in enumerate(model.layers):
        experts = layer.expert_elements
        used = 1.0 if index in streamed or not experts else layer.distinct(rows) / layer.experts
        elements += used * experts + layer.elements - experts
    return unpacking_seconds(model, elements, machine.rates)


def unpacking_seconds(model: ModelNeeds, elements: float, rates: Rates) -> float:
    """Unpacking is arithmetic; casting is no more than reading 16 bits and writing what they become, a copy as much."""
    if model.is_packed:
        return elements / (rates.decode * GIGA)
    return elements * (2 + model.shape.value_bytes) / (rates.memory * GIGA)
