"""What to ask the placement planner for a pair of checkpoints: their sizes, and this machine, put together."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from engine.errors import InputError
from engine.model.checkpoint import Checkpoint
from engine.model.device import choose_dtype
from engine.model.sizes import LayerSizes, ModelSizes, model_sizes
from engine.model.stored_weights import StoredWeight
from engine.preparation import COMPRESSED, storage
from engine.weights.layout import round_up
from engine.weights.machine import CPU_RATES, GPU_RATES, Machine, Rates
from engine.weights.memory import memory_now
from engine.weights.needs import Codec, Layer, ModelNeeds, PassShape, Workload
from engine.weights.placement import Override, Plan, plan
from engine.weights.quantise import stored_bytes

DEFAULT_CONTEXT_TOKENS = 8192
SINGLE_EXPERT = re.compile(r"\.experts\.\d+\.")
NUMBERS = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}

# Tokens per pass against budget, of Llama 2 7B and 70B on MTBench at temperature .6, as SpecExec publishes them (arXiv
# 2406.02532). A guess for other pairs, until their own figure is known.
PUBLISHED_RATES = (
    (0, 1.0), (8, 5.3), (16, 7.5), (32, 9.8), (64, 12.2), (128, 14.3), (256, 16.0), (512, 17.3), (1024, 19.5),
    (2048, 22.2), (4096, 23.6),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be planned for. `context_tokens` 0: what the model allows, within the sensible.

    `weights`: `auto`, a number type, `nf4` or `int8`; they concern the target, a draft is never compressed. `budget`:
    drafted nodes per tree. `tokens_per_pass`: as it was measured for this pair; 0 if it was not. `rates`: this
    machine's, as they were measured; None if they were not.
    """

    weights: str = "auto"
    context_tokens: int = 0
    budget: int = 64
    tokens_per_pass: float = 0.0
    rates: Rates | None = None
    override: Override = field(default_factory=Override)


def plan_pair(target: Checkpoint, draft: Checkpoint | None, device: torch.device, question: Question) -> Plan:
    """Where the target's layers go on this machine, as it is now; reads no weights.

    Raises `InputError` or `ModelError` for what cannot be planned.
    """
    sizes = model_sizes(target)
    budget = question.budget if draft else 0
    work = Workload(
        context_tokens=context_for(sizes, question.context_tokens),
        budget=budget,
        tokens_per_pass=question.tokens_per_pass or expected_tokens_per_pass(budget),
    )
    draft_weights = "auto" if question.weights in COMPRESSED else question.weights
    return plan(
        needs_of(target, sizes, question.weights, device),
        needs_of(draft, model_sizes(draft), draft_weights, device) if draft else None,
        Machine(memory_now(device.type), question.rates or usual_rates(device)),
        work,
        question.override,
    )


def usual_rates(device: torch.device) -> Rates:
    """Careful guesses for a machine with such a device, as long as nobody has measured this one."""
    return GPU_RATES if device.type == "cuda" else CPU_RATES


def context_for(sizes: ModelSizes, asked: int) -> int:
    """The context in tokens, prompt and answer together; raises `InputError` if the model cannot read so much."""
    longest = sizes.max_positions or max(asked, DEFAULT_CONTEXT_TOKENS)
    if asked > longest:
        raise InputError(f"'{sizes.name}' reads at most {longest} tokens, not {asked}.", "Choose a shorter context.")
    return asked or min(longest, DEFAULT_CONTEXT_TOKENS)


def expected_tokens_per_pass(budget: int) -> float:
    """A guess from the published figures, between them linear in the logarithm of the budget."""
    for (low, at_low), (high, at_high) in pairwise(PUBLISHED_RATES):
        if budget <= high:
            part = math.log((budget + 1) / (low + 1)) / math.log((high + 1) / (low + 1))
            return at_low + part * (at_high - at_low)
    return PUBLISHED_RATES[-1][1]


def needs_of(checkpoint: Checkpoint, sizes: ModelSizes, weights: str, device: torch.device) -> ModelNeeds:
    """A checkpoint's figures for the planner, with its weights held in this way."""
    dtype = storage(weights, checkpoint)[1] if weights in COMPRESSED else choose_dtype(weights, checkpoint, device)
    codec = _codec(sizes, weights, dtype)
    return ModelNeeds(
        codec=codec,
        layers=tuple(_layer(layer, codec, dtype) for layer in sizes.layers),
        rest_bytes=sizes.rest_elements * dtype.itemsize,
        kv_bytes=sizes.kv_width * dtype.itemsize,
        shape=PassShape(
            vocabulary=sizes.vocabulary,
            hidden=sizes.hidden,
            heads=sizes.heads,
            query_width=sizes.query_width,
            widest=sizes.widest,
            value_bytes=dtype.itemsize,
            eager=sizes.eager,
        ),
    )


def _codec(sizes: ModelSizes, weights: str, dtype: torch.dtype) -> Codec:
    """How layers that are not ready to run are kept: compressed, as they are stored, or prepared in `dtype`."""
    if weights in COMPRESSED:
        return "nf4" if weights == "nf4" else "int8"
    stored = [weight for layer in sizes.layers for weight in layer.weights]
    if any(_is_converted(weight) for weight in stored):
        return "plain"  # read once, written anew in the number type that computes
    return "plain" if all(_own_type(weight) == dtype for weight in stored) else "cast"


def _layer(layer: LayerSizes, codec: Codec, dtype: torch.dtype) -> Layer:
    run_bytes = layer.elements * dtype.itemsize
    if codec == "plain":
        stored = run_bytes
    elif codec == "cast":
        stored = sum(weight.elements * _own_type(weight).itemsize for weight in layer.weights)
    else:
        stored = sum(stored_bytes(shape, codec, name, dtype) for name, shape in _stacked(layer.weights))
    return Layer(round_up(stored), run_bytes, layer.elements, layer.active_elements)


def _stacked(weights: Iterable[StoredWeight]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes as the network holds them: experts that are stored one by one make up a stack."""
    experts = Counter((SINGLE_EXPERT.sub(".experts.", weight.name), weight.shape) for weight in weights)
    for (name, shape), count in experts.items():
        yield name, (count, *shape) if count > 1 else shape


def _is_converted(weight: StoredWeight) -> bool:
    """Whether the network holds it in another form: packed numbers unpacked, single experts stacked."""
    return weight.dtype not in NUMBERS or SINGLE_EXPERT.search(weight.name) is not None


def _own_type(weight: StoredWeight) -> torch.dtype:
    return NUMBERS.get(weight.dtype, torch.bfloat16)
