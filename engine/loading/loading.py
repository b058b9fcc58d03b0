"""Loads a target where the plan puts it: resident, or streamed from its own shards or from prepared layers.

A target that drafts for itself gets 4-bit copies of the layers that stream, beside those that are where they compute.
Compare SubSpec (Wang et al., NeurIPS 2025): the copy shares resident layers, embeddings, head and cache with the
target, so it agrees with it most of the time, and takes a quarter of the streamed layers' memory.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import torch
from torch import nn

from engine import accelerator
from engine.errors import Cancellation, InputError
from engine.loading.measurements.arithmetic import recall_arithmetic
from engine.loading.measurements.benchmark import draft_benchmark, target_benchmark
from engine.loading.pair import PairIdentity
from engine.loading.planning import Question, are_low, plan_pair
from engine.loading.preparation import (
    COMPRESSED,
    draft_weights,
    dtype_for,
    may_stay_packed,
    prepare_model,
    prepared_folder,
    source_fingerprint,
    stays_stored,
)
from engine.loading.rates import MeasuredHere, measure_draft, question_for, recall_measured
from engine.loading.store import cache_folder
from engine.loading.stored_layers import by_codec, in_shards
from engine.model.checkpoint import Checkpoint
from engine.model.device import choose_device, choose_dtype, own_dtype
from engine.model.network import Network
from engine.model.passes.light.adoption import takes_one_call
from engine.model.products.product import WRITTEN
from engine.model.shape import model_sizes
from engine.model.streamable_network import (
    build_self_draft_network,
    build_streamable,
    load_layerwise,
)
from engine.number_types import name_of
from engine.protocol.messages import Loading
from engine.protocol.options import LoadOptions
from engine.protocol.sentences import Amount, joined, say
from engine.weights.codecs.codec import codec_named
from engine.weights.codecs.packed import Packed
from engine.weights.codecs.rounding import Rounding
from engine.weights.planning.arrangement import Tier, all_in, streamed_layers
from engine.weights.planning.machine import FEW_ROWS
from engine.weights.planning.placement import Plan
from engine.weights.store.layout import LayerLayout
from engine.weights.store.prepared_model import open_prepared
from engine.weights.streaming.copy_stream import CudaCopyStream
from engine.weights.streaming.experts.followed import OneExpert
from engine.weights.streaming.experts.kept import keep_experts
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from engine.weights.streaming.stored_weight import (
    held_bytes,
    keep_packed_tables,
    keep_small,
    keep_small_tables,
    light_rows,
    multiplies_stored,
    narrow_tables,
    narrow_weights,
    share_out_head,
)

Progress = Generator[Loading, None, "LoadedTarget"]

MEASURING = say("Measuring this machine")
COPY = "nf4"
MOST_TIMES = 3  # that a machine is measured by itself: what then still differs is no other program's doing


@dataclass(frozen=True, slots=True)
class LayerCopies:
    """The target as its own draft: `network` has copies of some layers, of `nbytes`, which `stream` decodes."""

    network: Network
    stream: LayerStream
    nbytes: int


@dataclass(frozen=True, slots=True)
class LoadedDraft:
    """A draft that is ready to run.

    Where its weights stay packed, `stream` has the layers, of `nbytes`; `stored_as`: see `LoadedTarget`; `is_rounded`:
    see `Plan.draft_is_rounded`.
    """

    network: Network
    stream: LayerStream | None = None
    stored_as: str = ""
    nbytes: int = 0
    is_rounded: bool = False

    @property
    def held_as(self) -> str:
        """Tells apart what it computes with weights that are held otherwise; empty where they are ready."""
        return f"{self.stored_as} times 8 bits" if self.is_rounded else self.stored_as


@dataclass(frozen=True, slots=True)
class LoadedTarget:
    """A target that is ready to run.

    `stream` is None when all weights are resident; `stored_as`: what layers are kept in for every pass, by the
    name that people know, empty if from nothing; `copies` is its self-draft, `draft` another one.
    """

    network: Network
    stream: LayerStream | None
    plan: Plan
    stored_as: str = ""
    copies: LayerCopies | None = None
    draft: LoadedDraft | None = None

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Where each layer is kept."""
        return self.plan.arrangement.tiers

    def close(self) -> None:
        """End the streams' threads and give their memory back."""
        for stream in (self.copies and self.copies.stream, self.draft and self.draft.stream, self.stream):
            if stream:
                stream.close()


def plan_target(
    request: int,
    checkpoint: Checkpoint,
    draft: Checkpoint | None,
    options: LoadOptions,
    device: torch.device,
    cancellation: Cancellation,
) -> Generator[Loading, None, Plan]:
    """Where the layers go, as memory is now. Raises `InputError` if the model does not fit, `ModelError`, `Cancelled`.

    The first time that layers of this shape are to stream here, the machine is measured, and planned for once more;
    again, where rounds have shown since that it was busy then.
    """
    accelerator.keep_off_ram(device)
    arithmetic = recall_arithmetic(options, device)
    pair = PairIdentity(checkpoint, draft, options)
    bench = target_benchmark(pair, device, arithmetic)
    measured = recall_measured(pair, device, arithmetic)
    plan = _plan(pair, measured)
    of_draft = draft_benchmark(pair, device, arithmetic)
    stay_packed = (each and may_stay_packed(each.checkpoint, each.needs, device) for each in (bench, of_draft))
    matters = not plan.arrangement.ready or plan.stays_stored or any(stay_packed)
    if measured.target is None and matters:
        yield Loading(request, MEASURING, 0, 2)
        measured = replace(measured, target=bench.measure(cancellation.check))
    elif measured.target and matters and measured.target.times < MOST_TIMES and _are_low(pair, measured, plan):
        yield Loading(request, MEASURING, 0, 2)
        measured = replace(measured, target=bench.measure(cancellation.check, before=measured.target))
    if matters and measured.draft is None and of_draft:
        yield Loading(request, MEASURING, 1, 2)
        measured = measure_draft(pair, measured, cancellation.check, arithmetic)
    return _plan(pair, measured) if matters else plan


def load_planned(
    request: int,
    checkpoint: Checkpoint,
    plan: Plan,
    options: LoadOptions,
    device: torch.device,
    cancellation: Cancellation,
) -> Progress:
    """Load every layer to where the plan has it; yields progress. Raises `ModelError`, `Cancelled`."""
    if plan.arrangement.ready:
        dtype = choose_dtype(options.weights, checkpoint, device, recall_arithmetic(options, device))
        if not plan.stays_stored:
            return LoadedTarget((yield from load_ready(request, checkpoint, dtype, device, cancellation)), None, plan)
        network = yield from _load_kept(request, checkpoint, dtype, plan.few_rows, cancellation)
        return LoadedTarget(network, None, plan, name_of(own_dtype(checkpoint)))
    return (yield from _load_streamed(request, checkpoint, plan, options, device, cancellation))


def load_draft(
    request: int, draft: Checkpoint, plan: Plan, options: LoadOptions, device: torch.device, cancellation: Cancellation
) -> Generator[Loading, None, LoadedDraft]:
    """Load a draft: ready, but for weights that stay packed as planned, or in 16 bits as this is faster here."""
    if not plan.draft_rows:
        return LoadedDraft((yield from _load_ready_draft(request, draft, options, device, cancellation)))
    layers = model_sizes(draft).layers
    own = replace(
        plan,
        arrangement=all_in("device", len(layers)),
        bytes=replace(plan.bytes, expert_cache=0),
        few_rows=plan.draft_rows,
        stays_stored=True,
        is_rounded=plan.draft_is_rounded,
    )
    held = replace(options, weights=draft_weights(options.weights))
    found = yield from _load_streamed(request, draft, own, held, device, cancellation, keeps_few=True)
    inside = {id(weight) for weight in found.network.layers.parameters()}
    outside = (weight for weight in found.network.model.parameters() if id(weight) not in inside)
    nbytes = sum(weight.nbytes for layer in layers for weight in layer.weights) + sum(map(held_bytes, outside))
    return LoadedDraft(found.network, found.stream, found.stored_as, nbytes, plan.draft_is_rounded)


def _load_ready_draft(
    request: int, draft: Checkpoint, options: LoadOptions, device: torch.device, cancellation: Cancellation
) -> Generator[Loading, None, Network]:
    arithmetic = recall_arithmetic(options, device)
    dtype = draft_dtype(draft, options, device)
    if arithmetic is None or not stays_stored(draft, draft_weights(options.weights), device, arithmetic):
        network = yield from load_ready(request, draft, dtype, device, cancellation)
        return replace(network, light_rows=light_rows(network.model, share_out_head(network.model)))
    return (yield from _load_kept(request, draft, dtype, arithmetic.rows_as_stored(dtype), cancellation))


def _load_kept(
    request: int, checkpoint: Checkpoint, dtype: torch.dtype, few_rows: int, cancellation: Cancellation
) -> Generator[Loading, None, Network]:
    """Load all weights into memory for a network of `dtype`, in the 16 bits of the checkpoint, to be multiplied so."""
    own, scratch, followed = own_dtype(checkpoint), OneExpert(), list[nn.Module]()

    def keep(layer: nn.Module) -> None:
        narrow_weights(layer, own, few_rows)
        experts = keep_experts(layer, own, few_rows, scratch)
        followed.extend([experts] if experts else [])

    network = yield from load_ready(request, checkpoint, dtype, torch.device("cpu"), cancellation, keep)
    narrow_tables(network.model, own, few_rows)
    apart = {*followed, *share_out_head(network.model)}
    return replace(network, light_rows=light_rows(network.model, apart))


def keep_draft_small(draft: Network, target: Network) -> None:
    """Have each layer of a small draft take one call for few rows, where loops are compiled for the target anyway."""
    if draft.device.type == "cpu" and multiplies_stored(target.model):
        for layer in filter(takes_one_call, draft.layers):
            keep_small(layer)
        keep_small_tables(draft.model)


def load_ready(
    request: int,
    checkpoint: Checkpoint,
    dtype: torch.dtype,
    device: torch.device,
    cancellation: Cancellation,
    on_layer: Callable[[nn.Module], None] = lambda _layer: None,
) -> Generator[Loading, None, Network]:
    """Load all weights onto the device, decoded; host memory holds one layer beside them.

    `on_layer` is called with each layer that is loaded.
    """
    yield Loading(request, say("Loading {name}", name=checkpoint.name), 0, 1)
    steps = load_layerwise(checkpoint, dtype, device, on_layer)
    while True:
        cancellation.check()
        try:
            done, total = next(steps)
        except StopIteration as end:
            network: Network = end.value
            return network
        yield Loading(request, say("Loading {name}", name=checkpoint.name), done, total)


def draft_dtype(draft: Checkpoint, options: LoadOptions, device: torch.device) -> torch.dtype:
    """The number type of a draft's weights."""
    return choose_dtype(draft_weights(options.weights), draft, device, recall_arithmetic(options, device))


def _question(pair: PairIdentity, measured: MeasuredHere) -> Question:
    return question_for(pair, measured, arithmetic=recall_arithmetic(pair.options, measured.device))


def _are_low(pair: PairIdentity, measured: MeasuredHere, plan: Plan) -> bool:
    return are_low(pair.target, pair.draft, measured.device, _question(pair, measured), plan)


def _plan(pair: PairIdentity, measured: MeasuredHere) -> Plan:
    question = _question(pair, measured)
    plan = plan_pair(pair.target, pair.draft, measured.device, question)
    if plan.verdict == "no":
        raise InputError(
            joined((say("'{name}' does not fit here.", name=pair.target.name), plan.reason)),
            say("Choose smaller weights (nf4), a shorter context, or raise the limits."),
        )
    return plan


def _load_streamed(
    request: int,
    checkpoint: Checkpoint,
    plan: Plan,
    options: LoadOptions,
    device: torch.device,
    cancellation: Cancellation,
    keeps_few: bool = False,
) -> Progress:
    """`keeps_few`: see `Stored`, where rows are rounded."""
    dtype = dtype_for(options.weights, checkpoint, device, recall_arithmetic(options, device))
    yield Loading(request, say("Reading {name}", name=checkpoint.name), 0, 1)
    keeps_tables = plan.stays_stored and dtype in WRITTEN  # which is so on a processor alone
    streamable = build_streamable(checkpoint, dtype, device, keeps_tables)
    if keeps_tables:
        tables = streamable.converter.packed_tables()
        keep_packed_tables(streamable.network.model, tables, plan.few_rows, plan.is_rounded, keeps_few)
    if plan.stays_stored:
        narrow_tables(streamable.network.model, own_dtype(checkpoint), plan.few_rows)
    stored = None if options.weights in COMPRESSED else in_shards(streamable.converter, plan.stays_stored)
    if stored is None:
        kept = own_dtype(checkpoint) if options.weights == "auto" else dtype
        weights = options.weights if options.weights in COMPRESSED else name_of(kept)
        prepared = yield from prepared_layers(request, checkpoint, weights, options, cancellation)
        stored = by_codec(prepared, streamable.converter)
    decoders = stored.decoders
    if decoders and plan.is_rounded:
        decoders = [Rounding(each, keeps_few) for each in decoders]
    stream = LayerStream(
        list(streamable.network.layers),
        stored.layouts,
        plan.arrangement.tiers,
        decoders,
        copy_stream=CudaCopyStream(device) if accelerator.is_accelerator(device) else None,
        options=StreamOptions(
            expert_cache_bytes=plan.bytes.expert_cache,
            few_rows=plan.few_rows,
            host_rows=plan.few_rows,
            trunks_stay=plan.arrangement.trunks,
        ),
    )
    yield from _filled(stream, request, say("Loading {name}", name=checkpoint.name), len(stored.layouts), cancellation)
    kept_in = name_of(own_dtype(checkpoint)) if plan.stays_stored else ""
    apart = {*stream.followed_modules, *share_out_head(streamable.network.model)}
    network = replace(streamable.network, light_rows=light_rows(streamable.network.model, apart))
    return LoadedTarget(network, stream, plan, _stored_as(stored.layouts[0].codec, checkpoint) or kept_in)


def _stored_as(codec: str, checkpoint: Checkpoint) -> str:
    if codec == Packed.name:
        return ", ".join(model_sizes(checkpoint).formats)
    return codec if codec in COMPRESSED else ""


def _filled(
    stream: LayerStream, request: int, stage: str, total: int, cancellation: Cancellation
) -> Generator[Loading, None, None]:
    """Load a stream's layers, with progress; a stream that cannot be loaded is closed."""
    try:
        for done, _ in enumerate(stream.load(), start=1):
            cancellation.check()
            yield Loading(request, stage, done, total)
    except BaseException:
        stream.close()
        raise


def prepared_layers(
    request: int, checkpoint: Checkpoint, weights: str, options: LoadOptions, cancellation: Cancellation
) -> Generator[Loading, None, list[LayerLayout]]:
    """The prepared layers; prepares them first where that was not done."""
    folder = prepared_folder(cache_folder(options), checkpoint, weights)
    for step in prepare_model(checkpoint, weights, folder, cancellation, choose_device(options.device)):
        stage = say("Preparing {name} in {weights}", name=checkpoint.name, weights=weights)
        if step.seconds_left is not None:
            stage = say(
                "Preparing {name} in {weights}, {seconds} s left",
                name=checkpoint.name,
                weights=weights,
                seconds=Amount(f"{step.seconds_left:.0f}"),
            )
        yield Loading(request, stage, step.layers, step.total)
    return list(open_prepared(folder, source_fingerprint(checkpoint)).layouts())


def load_copies(
    request: int, checkpoint: Checkpoint, loaded: LoadedTarget, options: LoadOptions, cancellation: Cancellation
) -> Generator[Loading, None, LayerCopies]:
    """Copies of the layers that stream, in the compute device's memory, and the network of them and all others.

    Yields progress. Raises `ModelError`, `Cancelled`, `MemoryError`, and `CoppiceError` if they cannot be prepared.
    """
    device = loaded.network.device
    own = streamed_layers(loaded.tiers, has_gpu=accelerator.is_accelerator(device))
    every = yield from prepared_layers(request, checkpoint, COPY, options, cancellation)
    layouts = [every[index] for index in own]
    network = build_self_draft_network(loaded.network, checkpoint, own)
    stream = LayerStream(
        [network.layers[index] for index in own],
        layouts,
        ["device"] * len(own),
        decoders=[codec_named(COPY)] * len(own),
        copy_stream=CudaCopyStream(device) if accelerator.is_accelerator(device) else None,
        options=StreamOptions(few_rows=FEW_ROWS),
    )
    yield from _filled(stream, request, say("Copying {name} in 4 bits", name=checkpoint.name), len(own), cancellation)
    return LayerCopies(network, stream, sum(layout.nbytes for layout in layouts))
