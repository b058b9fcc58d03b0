"""Loads a target where the plan puts it: resident, or streamed from its own shards or from prepared layers."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import torch

from engine.cancellation import Cancellation
from engine.errors import InputError
from engine.messages import Loading
from engine.model.checkpoint import Checkpoint
from engine.model.device import choose_dtype
from engine.model.network import Network
from engine.model.resident import load_resident
from engine.model.skeleton import Skeleton, build_skeleton
from engine.options import LoadOptions
from engine.planning import Question, plan_pair
from engine.preparation import COMPRESSED, prepare_model, prepared_folder, source_fingerprint, storage
from engine.weights.arrangement import Tier
from engine.weights.lane import CudaLane
from engine.weights.layer_stream import LayerStream
from engine.weights.layout import LayerLayout
from engine.weights.placement import Override, Plan
from engine.weights.prepared import open_prepared
from engine.weights.quantise import codec_named
from engine.weights.shards import layout_of_shards

Progress = Generator[Loading, None, "LoadedTarget"]


@dataclass(frozen=True, slots=True)
class LoadedTarget:
    """A target that is ready to run. `stream` is None when all its weights are resident."""

    network: Network
    stream: LayerStream | None
    tiers: tuple[Tier, ...]


def load_target(
    request: int,
    checkpoint: Checkpoint,
    draft: Checkpoint | None,
    options: LoadOptions,
    device: torch.device,
    cancellation: Cancellation,
) -> Progress:
    """Plan, then load; yields progress. Raises `InputError` if the model does not fit, `ModelError`, `Cancelled`."""
    plan = _plan(checkpoint, draft, options, device)
    tiers = plan.arrangement.tiers
    if plan.arrangement.ready:
        yield Loading(request, f"Loading {checkpoint.name}", 0, 1)
        network = load_resident(checkpoint, choose_dtype(options.weights, checkpoint, device), device)
        return LoadedTarget(network, None, tiers)
    return (yield from _load_streamed(request, checkpoint, tiers, options, device, cancellation))


def cache_folder(options: LoadOptions) -> Path:
    """Where prepared models are kept."""
    return Path(options.cache_dir or platformdirs.user_cache_dir("coppice")) / "prepared"


def _plan(checkpoint: Checkpoint, draft: Checkpoint | None, options: LoadOptions, device: torch.device) -> Plan:
    override = Override(
        place=options.place,
        vram_limit=options.vram_limit_bytes or None,
        ram_limit=options.ram_limit_bytes or None,
        force=options.force,
    )
    question = Question(weights=options.weights, context_tokens=options.context_tokens, override=override)
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
    tiers: Sequence[Tier],
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
        layouts = yield from _in_prepared(request, checkpoint, weights, options, cancellation)
    stream = LayerStream(
        list(skeleton.network.layers),
        layouts,
        tiers,
        decoder=None if _are_weights(layouts, skeleton) else codec_named(layouts[0].codec),
        lane=CudaLane(device) if device.type == "cuda" else None,
    )
    try:
        for done, _ in enumerate(stream.load(), start=1):
            cancellation.check()
            yield Loading(request, f"Loading {checkpoint.name}", done, len(layouts))
    except BaseException:
        stream.close()
        raise
    return LoadedTarget(skeleton.network, stream, tuple(tiers))


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


def _in_prepared(
    request: int, checkpoint: Checkpoint, weights: str, options: LoadOptions, cancellation: Cancellation
) -> Generator[Loading, None, list[LayerLayout]]:
    """The layers as they were prepared, now if not before."""
    folder = prepared_folder(cache_folder(options), checkpoint, weights)
    for step in prepare_model(checkpoint, weights, folder, cancellation):
        left = "" if step.seconds_left is None else f", {step.seconds_left:.0f} s left"
        yield Loading(request, f"Preparing {checkpoint.name} in {weights}{left}", step.layers, step.total)
    return list(open_prepared(folder, source_fingerprint(checkpoint)).layouts())


def _are_weights(layouts: Sequence[LayerLayout], skeleton: Skeleton) -> bool:
    """Whether every stored tensor is a weight as it is used, in its own number type."""
    for layout in layouts:
        shapes = skeleton.shapes(layout.index)
        if any(entry.name not in shapes or shapes[entry.name][1] != entry.dtype for entry in layout.tensors):
            return False
    return True
