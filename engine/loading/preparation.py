"""Preparing a model: its layers, converted from a checkpoint one at a time, stored as the stream wants them."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from engine.cancellation import Cancellation
from engine.errors import InputError
from engine.model.blueprint import draw_blueprint
from engine.model.checkpoint import CONFIG, Checkpoint
from engine.model.device import DTYPES
from engine.weights.codecs.quantise import codec_named
from engine.weights.store.fingerprint import fingerprint
from engine.weights.store.manifest import Recipe
from engine.weights.store.prepared import folder_name
from engine.weights.store.preparing import PrepareProgress, Work, prepare

COMPRESSED = ("nf4", "int8")


def source_fingerprint(checkpoint: Checkpoint) -> str:
    """The state of the files that a checkpoint's prepared layers depend on."""
    return fingerprint([checkpoint.folder / CONFIG, *checkpoint.shards])


def prepared_folder(cache: Path, checkpoint: Checkpoint, weights: str) -> Path:
    """Where a checkpoint prepared in this way belongs in the cache; another state of its files has another place."""
    return cache / folder_name(checkpoint.name, weights, source_fingerprint(checkpoint))


def storage(weights: str, checkpoint: Checkpoint) -> tuple[str, torch.dtype]:
    """The codec, and the number type that weights are read as before it stores them; raises `InputError`.

    Compressed weights are made from the checkpoint's own numbers.
    """
    if weights in DTYPES:
        return "plain", DTYPES[weights]
    if weights in COMPRESSED:
        own = str(checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype"))
        return weights, DTYPES.get(own, torch.bfloat16)
    raise InputError(f"Weights '{weights}' cannot be prepared.", "Choose one of " + ", ".join((*COMPRESSED, *DTYPES)))


def prepare_model(
    checkpoint: Checkpoint, weights: str, folder: Path, cancellation: Cancellation
) -> Iterator[PrepareProgress]:
    """Convert a checkpoint's layers into `folder`, one at a time; yields after each, and goes on where a run stopped.

    Where all is done already, it is over at once: only the files' sizes are compared then (see `prepared.verify`).
    `weights`: `nf4`, `int8`, `bfloat16`, `float16` or `float32`. Raises `Cancelled` between two layers; `InputError`
    and `ModelError` for what cannot be prepared; `CoppiceError` if the disk is too small or fails.
    """
    name, dtype = storage(weights, checkpoint)
    codec = codec_named(name)
    state = source_fingerprint(checkpoint)
    blueprint = draw_blueprint(checkpoint, dtype)

    def stored_bytes(index: int) -> int:
        outlines = (codec.outline(weight, *shape) for weight, shape in blueprint.shapes(index).items())
        return sum(tensor.nbytes for outline in outlines for tensor in outline.values())

    def make(index: int) -> dict[str, Tensor]:
        stored: dict[str, Tensor] = {}
        for weight, tensor in blueprint.weights(index):
            stored |= codec.encode(weight, tensor)
            del tensor  # or the next one would be made beside it
        return stored

    number = str(dtype).removeprefix("torch.")
    recipe = Recipe(checkpoint.name, str(checkpoint.folder.resolve()), state, name, number, len(blueprint))
    layer_bytes = [stored_bytes(index) for index in range(len(blueprint))]
    yield from prepare(folder, Work(recipe, layer_bytes, make, lambda: source_fingerprint(checkpoint)), cancellation)
