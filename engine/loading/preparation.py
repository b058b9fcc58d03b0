"""Preparing a model: its layers, converted from a checkpoint one at a time, stored as the stream wants them."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import Cancellation, InputError
from engine.model.checkpoint import Checkpoint
from engine.model.device import (
    SMALLEST,
    Arithmetic,
    choose_dtype,
    has_narrow_weights,
    is_exact_faster,
    own_dtype,
    own_dtype_on,
)
from engine.model.layer_converter import open_layer_converter
from engine.model.products.arranged import rounds_blocks
from engine.number_types import COMPUTED, computed_types, name_of
from engine.protocol.options import LoadOptions
from engine.protocol.sentences import say
from engine.weights.codecs.codec import Codec, codec_named
from engine.weights.planning.needs import ModelNeeds
from engine.weights.store.manifest import Recipe, fingerprint
from engine.weights.store.prepare import PrepareProgress, Work, prepare
from engine.weights.store.prepared_model import folder_name

COMPRESSED = ("nf4", "int8")
CPU = torch.device("cpu")


def source_fingerprint(checkpoint: Checkpoint) -> str:
    """The state of the files that a checkpoint's prepared layers depend on."""
    return fingerprint(checkpoint.files)


def prepared_folder(cache: Path, checkpoint: Checkpoint, weights: str) -> Path:
    """Where a checkpoint prepared in this way belongs in the cache; another state of its files has another place."""
    return cache / folder_name(checkpoint.name, weights, source_fingerprint(checkpoint))


def storage(weights: str, checkpoint: Checkpoint) -> tuple[str, torch.dtype]:
    """The codec, and the number type that weights are read as before it stores them; raises `InputError`.

    Compressed weights are made from the checkpoint's own numbers.
    """
    if weights in COMPUTED:
        return "plain", computed_types()[weights]
    if weights in COMPRESSED:
        return weights, own_dtype(checkpoint)
    raise InputError(
        say("Weights '{weights}' cannot be prepared.", weights=weights),
        say("Choose one of {names}.", names=", ".join((*COMPRESSED, *COMPUTED))),
    )


def dtype_for(
    weights: str, checkpoint: Checkpoint, device: torch.device, arithmetic: Arithmetic | None = None
) -> torch.dtype:
    """The number type that a target computes in, with its weights held in this way on this device.

    `arithmetic`: see `choose_dtype`.
    """
    if weights in COMPRESSED:
        return torch.float32 if is_exact_faster(checkpoint, device, arithmetic) else own_dtype_on(device, checkpoint)
    return choose_dtype(weights, checkpoint, device, arithmetic)


def stays_stored(checkpoint: Checkpoint, weights: str, device: torch.device, arithmetic: Arithmetic | None) -> bool:
    """Whether weights in 16 bits stay so, and are multiplied so, because that is faster than holding them ready."""
    if weights != "auto" or device.type != "cpu" or arithmetic is None or not has_narrow_weights(checkpoint):
        return False
    return arithmetic.rows_as_stored(choose_dtype(weights, checkpoint, device, arithmetic)) > 0


def may_stay_packed(checkpoint: Checkpoint, needs: ModelNeeds, device: torch.device) -> bool:
    """Whether packed layers might be multiplied as they are, where a processor is measured to be fast at that."""
    return device.type == "cpu" and needs.codec == "packed" and checkpoint.parameters >= SMALLEST


def rounds(
    options: LoadOptions, checkpoint: Checkpoint, device: torch.device, arithmetic: Arithmetic | None = None
) -> bool:
    """Whether what a target's weights are multiplied with is rounded to 8 bits: that was asked for and can be done."""
    if options.activations != "int8" or options.weights in COMPRESSED:
        return False
    return _can_round(options.weights, checkpoint, device, arithmetic)


def draft_rounds(
    options: LoadOptions, draft: Checkpoint, device: torch.device, arithmetic: Arithmetic | None = None
) -> bool:
    """The same of a draft's, if these stay packed: a draft only proposes, so that nobody has to ask for it."""
    return _can_round(draft_weights(options.weights), draft, device, arithmetic)


def _can_round(weights: str, checkpoint: Checkpoint, device: torch.device, arithmetic: Arithmetic | None) -> bool:
    """Whether there are loops: for networks in float32 on a processor."""
    if device.type != "cpu" or dtype_for(weights, checkpoint, device, arithmetic) != torch.float32:
        return False
    return rounds_blocks({weight.format.name for weight in checkpoint.packed.values()})


def words_of_rounding(activations: str, is_rounded: bool) -> str:
    """What a person should know of it; empty where nobody asked for it."""
    if activations == "exact":
        return ""
    if not is_rounded:
        return say(
            "Nothing is rounded to 8 bits: this is for models in GGUF's blocks of whole numbers, in "
            "float32 on a processor with AVX2."
        )
    return say(
        "What quantised weights are multiplied with is rounded to 8 bits: the text can differ where two tokens are "
        "nearly equally likely."
    )


def draft_weights(weights: str) -> str:
    """How a draft's weights are held beside a target's `weights`: a draft is never compressed."""
    return "auto" if weights in COMPRESSED else weights


def prepare_model(
    checkpoint: Checkpoint, weights: str, folder: Path, cancellation: Cancellation, device: torch.device = CPU
) -> Iterator[PrepareProgress]:
    """Convert a checkpoint's layers into `folder`, one at a time; yields after each, and goes on where a run stopped.

    Where all is done already, it is over at once: only the files' sizes are compared then (see `prepared.verify`).
    `weights`: `nf4`, `int8`, `bfloat16`, `float16` or `float32`. `device`: what compresses them. Raises `Cancelled`
    between two layers; `InputError` and `ModelError` for what cannot be prepared; `CoppiceError` if the disk is too
    small or fails.
    """
    name, dtype = storage(weights, checkpoint)
    codec = codec_named(name)
    state = source_fingerprint(checkpoint)
    converter = open_layer_converter(checkpoint, dtype)

    def outline(index: int) -> dict[str, Tensor]:
        stored: dict[str, Tensor] = {}
        for weight, shape in converter.shapes(index).items():
            stored |= codec.outline(weight, *shape)
        return stored

    def make(index: int) -> dict[str, Tensor]:
        stored: dict[str, Tensor] = {}
        for weight, tensor in converter.weights(index):
            stored |= _encoded(codec, weight, tensor, device)
            del tensor  # else it would stay in memory beside the next one
        return stored

    number = name_of(dtype)
    recipe = Recipe(checkpoint.name, str(checkpoint.path.resolve()), state, name, number, len(converter))
    outlines = [outline(index) for index in range(len(converter))]
    yield from prepare(folder, Work(recipe, outlines, make, lambda: source_fingerprint(checkpoint)), cancellation)


def _encoded(codec: Codec, name: str, tensor: Tensor, device: torch.device) -> dict[str, Tensor]:
    """As `codec` stores a weight, on the CPU; compressed by CUDA, to the same bytes, where there is room for it."""
    if device.type == "cuda" and name not in codec.outline(name, tuple(tensor.shape), tensor.dtype):
        try:
            return {part: stored.cpu() for part, stored in codec.encode(name, tensor.to(device)).items()}
        except torch.OutOfMemoryError:  # other programs may use it: the processor has room for a matrix
            pass
    return codec.encode(name, tensor)
