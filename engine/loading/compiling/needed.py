"""What has to be compiled before a pair can be loaded, and is not yet: in several processes, where that is faster.

Loops are compiled when they are first called, one after the other, in the process that calls them. Children that
compile the same loops leave their code in the folder where this one looks first. What they leave out, or what a pair
needs besides, is compiled as ever.
"""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from engine.errors import Cancellation
from engine.loading.compiling.processes import Compilers, how_many
from engine.loading.measurements.arithmetic import is_arithmetic_missing, recall_arithmetic
from engine.loading.measurements.samples import coded_sample, product_of
from engine.loading.pair import Pair
from engine.loading.preparation import COMPRESSED, draft_rounds, draft_weights, dtype_for, rounds
from engine.loading.store import compiled_folder
from engine.model.checkpoint import Checkpoint
from engine.model.device import SMALLEST, Arithmetic, own_dtype
from engine.model.formats.packed import PackedWeight
from engine.model.products import jobs
from engine.model.products.arranged import Alternating, Joined, Woven
from engine.model.products.bfloat_loops import bfloat_loop
from engine.model.products.compiling import has_compiler
from engine.model.products.product import SMALLEST as SMALLEST_MATRIX
from engine.model.products.product import Product, Stored
from engine.model.shape import model_sizes
from engine.number_types import computed_types, torch_types
from engine.own_thread import threads_allowed
from engine.protocol.messages import Loading
from engine.protocol.options import LoadOptions
from engine.protocol.sentences import say
from engine.weights.planning.machine import memory_now

COMPILING = say("Compiling for this processor (only the first time)")
WORTH_SECONDS = 4.0  # of compiling: a process takes two before it begins
LOOK_SECONDS = 0.1
NARROW = frozenset({torch.bfloat16, torch.float16})
SAMPLE = (256, 256)  # shape of a matrix of our own codecs


def compile_missing(
    request: int, pair: Pair, device: torch.device, cancellation: Cancellation
) -> Generator[Loading, None, None]:
    """Compile what a pair needs, if it is much and there are cores for it; yields progress. Raises `Cancelled`."""
    wanted = jobs.missing(jobs.in_order(jobs_for(pair, device)))
    count = how_many(threads_allowed(), memory_now(device.type).ram_free)
    if count < 2 or sum(map(jobs.seconds_of, wanted)) < WORTH_SECONDS:
        return
    done = 0
    yield Loading(request, COMPILING, done, len(wanted))
    compilers = Compilers(wanted, compiled_folder(pair.options), count)
    try:
        while compilers.are_at_work:
            cancellation.check()
            before, done = done, len(wanted) - len(jobs.missing(wanted))
            if done > before:
                yield Loading(request, COMPILING, done, len(wanted))
            time.sleep(LOOK_SECONDS)
    finally:
        compilers.end()


def jobs_for(pair: Pair, device: torch.device) -> list[str]:
    """All that is compiled for a pair at some time; nothing where no loops are, or where these hardly matter."""
    models = [
        (model, weights)
        for model, weights in ((pair.target, pair.options.weights), (pair.draft, draft_weights(pair.options.weights)))
        if model is not None and model.parameters >= SMALLEST and _is_multiplied_stored(model, weights)
    ]
    if device.type != "cpu" or not models or not has_compiler():
        return []
    arithmetic = _arithmetic(pair.options, device)
    found = jobs.of_measuring(_is_narrow(arithmetic)) if is_arithmetic_missing(pair.identity, device) else []
    for model, weights in models:
        is_narrow = dtype_for(weights, model, device, arithmetic) == torch.bfloat16
        is_rounded = (rounds if model is pair.target else draft_rounds)(pair.options, model, device, arithmetic)
        layouts = [parts for product in _products(model, weights) for parts in _layouts(product)]
        if layouts:
            is_mixture = any(layer.experts > layer.chosen > 0 for layer in model_sizes(model).layers)
            found += jobs.of_networks(is_narrow, is_mixture)
        found += jobs.of_rounding() if is_rounded else []
        keeps_few = model is not pair.target
        found += [job for parts in layouts for job in jobs.of_layout(parts, is_narrow, is_rounded, keeps_few)]
    if found and pair.draft is not None and pair.draft.parameters < SMALLEST:
        found += jobs.of_small_drafts()
    return found


def computes_narrow(options: LoadOptions, device: torch.device) -> bool:
    """Whether large networks compute in bfloat16 here, as was measured, or else as is most likely."""
    return _is_narrow(_arithmetic(options, device))


def _arithmetic(options: LoadOptions, device: torch.device) -> Arithmetic:
    return recall_arithmetic(options, device) or Arithmetic("float32" if bfloat_loop() is None else "bfloat16", 1)


def _is_narrow(arithmetic: Arithmetic) -> bool:
    return computed_types()[arithmetic.type_name] == torch.bfloat16


def _is_multiplied_stored(model: Checkpoint, weights: str) -> bool:
    """Whether loops may multiply its weights as they are stored."""
    return weights in COMPRESSED or (weights == "auto" and (bool(model.packed) or own_dtype(model) in NARROW))


def _products(model: Checkpoint, weights: str) -> Iterator[Product | None]:
    """One of each way in which matrices of a model are stored; no weight is read."""
    if weights in COMPRESSED or not model.packed:
        sample = coded_sample(weights if weights in COMPRESSED else "cast", SAMPLE, own_dtype(model))
        yield sample.decoder.product(sample.stored, sample.name, sample.shape)
        return
    typical: dict[str, PackedWeight] = {}
    for weight in model.packed.values():
        matrix = weight.member(0) if weight.is_stack else weight
        if len(matrix.shape) == 2 and matrix.elements >= SMALLEST_MATRIX:
            typical.setdefault(weight.format.name, matrix)
    for weight in typical.values():
        yield product_of(weight, _empty_parts(weight))


def _empty_parts(weight: PackedWeight) -> Mapping[str, Tensor]:
    return {role: torch.empty(info.shape, dtype=torch_types()[info.dtype]) for role, info in weight.parts.items()}


def _layouts(product: Product | None) -> Sequence[Any]:
    """In which layouts a product's matrices lie."""
    if isinstance(product, Stored):
        return [product.parts]
    if isinstance(product, Woven):
        return _layouts(product.matrix)
    if isinstance(product, Joined | Alternating):
        return [parts for matrix in product.matrices for parts in _layouts(matrix)]
    return []
