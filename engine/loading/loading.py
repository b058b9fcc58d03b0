"""Loads a target where the plan puts it: resident, or streamed from its own shards or from prepared layers."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import torch

from engine.cancellation import Cancellation
from engine.errors import InputError
from engine.loading.planning import Question, pair_key, plan_pair
from engine.loading.preparation import COMPRESSED, prepare_model, prepared_folder, source_fingerprint, storage
from engine.loading.rates import bench_of
from engine.loading.rates_file import Measured, RatesFile
from engine.model.checkpoint import Checkpoint
from engine.model.device import choose_dtype
from engine.model.layerwise import load_layerwise
from engine.model.network import Network
from engine.model.skeleton import Skeleton, build_skeleton
from engine.protocol.messages import Loading
from engine.protocol.options import SELF_DRAFT, LoadOptions
from engine.weights.codecs.quantise import codec_named
from engine.weights.planning.arrangement import Tier
from engine.weights.planning.placement import Override, Plan
from engine.weights.store.layout import LayerLayout
from engine.weights.store.prepared import open_prepared
from engine.weights.store.shards import layout_of_shards
from engine.weights.streaming.lane import CudaLane
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions

Progress = Generator[Loading, None, "LoadedTarget"]


@dataclass(frozen=True, slots=True)
class LayerCopies:
    """A draft that is the target, but for copies of some layers, which take `nbytes` and which `stream` decodes."""

    network: Network
    stream: LayerStream
    nbytes: int


@dataclass(frozen=True, slots=True)
class LoadedTarget:
    """A target that is ready to run. `stream` is None when all its weights are resident; `copies` draft for it."""

    network: Network
    stream: LayerStream | None
    plan: Plan
    copies: LayerCopies | None = None

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Where each layer is kept."""
        return self.plan.arrangement.tiers

    def close(self) -> None:
        """End the streams' threads and give their memory back."""
        if self.copies:
            self.copies.stream.close()
        if self.stream:
            self.stream.close()


def plan_target(
    request: int,
    checkpoint: Checkpoint,
    draft: Checkpoint | None,
    options: LoadOptions,
    device: torch.device,
    cancellation: Cancellation,
) -> Generator[Loading, None, Plan]:
    """Where the layers go, as memory is now. Raises `InputError` if the model does not fit, `ModelError`, `Cancelled`.

    The first time that layers of this shape are to stream here, the machine is measured, and planned for once more.
    """
    bench = bench_of(checkpoint, options.weights, device, cache_root(options))
    measured = bench.recall()
    plan = _plan(checkpoint, draft, options, device, measured)
    if measured is None and not plan.arrangement.ready:
        yield Loading(request, "Measuring this machine", 0, 1)
        plan = _plan(checkpoint, draft, options, device, bench.measure(cancellation.check))
    return plan


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
        dtype = choose_dtype(options.weights, checkpoint, device)
        return LoadedTarget((yield from load_ready(request, checkpoint, dtype, device, cancellation)), None, plan)
    return (yield from _load_streamed(request, checkpoint, plan, options, device, cancellation))


def load_ready(
    request: int, checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, cancellation: Cancellation
) -> Generator[Loading, None, Network]:
    """All weights on the device for good, decoded; beside them, host memory holds a layer. A draft is always ready."""
    yield Loading(request, f"Loading {checkpoint.name}", 0, 1)
    steps = load_layerwise(checkpoint, dtype, device)
    while True:
        cancellation.check()
        try:
            done, total = next(steps)
        except StopIteration as end:
            network: Network = end.value
            return network
        yield Loading(request, f"Loading {checkpoint.name}", done, total)


def draft_dtype(draft: Checkpoint, options: LoadOptions, device: torch.device) -> torch.dtype:
    """The number type of a draft's weights, which are never compressed."""
    return choose_dtype("auto" if options.weights in COMPRESSED else options.weights, draft, device)


def cache_folder(options: LoadOptions) -> Path:
    """Where prepared models are kept."""
    return cache_root(options) / "prepared"


def cache_root(options: LoadOptions) -> Path:
    """Where everything is kept that could be made again."""
    return Path(options.cache_dir or platformdirs.user_cache_dir("coppice"))


def _plan(
    checkpoint: Checkpoint,
    draft: Checkpoint | None,
    options: LoadOptions,
    device: torch.device,
    measured: Measured | None,
) -> Plan:
    override = Override(
        place=options.place,
        vram_limit=options.vram_limit_bytes or None,
        ram_limit=options.ram_limit_bytes or None,
        force=options.force,
    )
    key = pair_key(checkpoint, draft, options, options.budget)
    experience = RatesFile(cache_root(options)).recall_pair(key)
    question = Question(
        weights=options.weights,
        context_tokens=options.context_tokens,
        budget=options.budget,
        tokens_per_pass=experience.tokens_per_pass if experience else 0.0,
        rates=measured.rates if measured else None,
        drafts_itself=options.draft == SELF_DRAFT,
        override=override,
    )
    plan = plan_pair(checkpoint, draft, device, question)
    if plan.verdict == "no":
        raise InputError(
            f"'{checkpoint.name}' does not fit here. {plan.reason}",
            "Choose smaller weights (nf4), a shorter context, or raise the limits.",
        )
    return plan


def _load_streamed(
    request: int,
    checkpoint: Checkpoint,
    plan: Plan,
    options: LoadOptions,
    device: torch.device,
    cancellation: Cancellation,
) -> Progress:
    if options.weights in COMPRESSED:
        dtype = storage(options.weights, checkpoint)[1]
    else:
        dtype = choose_dtype(options.weights, checkpoint, device)
    yield Loading(request, f"Reading {checkpoint.name}", 0, 1)
    skeleton = build_skeleton(checkpoint, dtype, device)
    layouts = None if options.weights in COMPRESSED else _in_shards(skeleton)
    if layouts is None:
        weights = options.weights if options.weights in COMPRESSED else str(dtype).removeprefix("torch.")
        layouts = yield from prepared_layers(request, checkpoint, weights, options, cancellation)
    stream = LayerStream(
        list(skeleton.network.layers),
        layouts,
        plan.arrangement.tiers,
        decoder=None if _are_weights(layouts, skeleton) else codec_named(layouts[0].codec),
        lane=CudaLane(device) if device.type == "cuda" else None,
        options=StreamOptions(expert_cache_bytes=plan.bytes.expert_cache),
    )
    try:
        for done, _ in enumerate(stream.load(), start=1):
            cancellation.check()
            yield Loading(request, f"Loading {checkpoint.name}", done, len(layouts))
    except BaseException:
        stream.close()
        raise
    return LoadedTarget(skeleton.network, stream, plan)


def _in_shards(skeleton: Skeleton) -> list[LayerLayout] | None:
    """The layers where they lie in the checkpoint's own files; None if they must be converted first."""
    layouts = []
    for index in range(len(skeleton.network.layers)):
        places = skeleton.one_to_one(index)
        layout = layout_of_shards(index, places) if places else None
        if layout is None:
            return None
        layouts.append(layout)
    return layouts


def prepared_layers(
    request: int, checkpoint: Checkpoint, weights: str, options: LoadOptions, cancellation: Cancellation
) -> Generator[Loading, None, list[LayerLayout]]:
    """The layers as they were prepared, now if not before."""
    folder = prepared_folder(cache_folder(options), checkpoint, weights)
    for step in prepare_model(checkpoint, weights, folder, cancellation):
        left = "" if step.seconds_left is None else f", {step.seconds_left:.0f} s left"
        yield Loading(request, f"Preparing {checkpoint.name} in {weights}{left}", step.layers, step.total)
    return list(open_prepared(folder, source_fingerprint(checkpoint)).layouts())


def _are_weights(layouts: Sequence[LayerLayout], skeleton: Skeleton) -> bool:
    """Whether every stored tensor is a weight as it is used, in its own number type, and where it may be used."""
    for layout in layouts:
        shapes = skeleton.shapes(layout.index)
        for entry in layout.tensors:
            if entry.name not in shapes or shapes[entry.name][1] != entry.dtype or not entry.is_aligned:
                return False
    return True
