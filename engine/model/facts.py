"""A model of which only the heads of its files are here: what they leave open follows from its network."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import torch

from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint, open_header_only
from engine.model.formats.faults import damaged
from engine.model.formats.packed import PackedWeight
from engine.model.weight_loader import WeightLoader
from engine.protocol.sentences import say


def open_facts(folder: Path) -> Checkpoint:
    """The checkpoint that facts describe: it can be planned for, but not loaded.

    bitsandbytes keeps the shape of a weight in 4 bits among its data, which are not here: then it is that of the
    network, which is made for it without weights. Raises `ModelError` for facts that cannot be used, and for a network
    that they do not fit.
    """
    checkpoint = open_header_only(folder)
    flat = {name: weight for name, weight in checkpoint.packed.items() if weight.is_flat}
    if not flat:
        return checkpoint
    shapes = _shapes(checkpoint, flat)
    shaped = {name: replace(weight, shape=shapes[name]) for name, weight in flat.items()}
    return replace(checkpoint, packed=MappingProxyType({**checkpoint.packed, **shaped}))


def _shapes(checkpoint: Checkpoint, flat: Mapping[str, PackedWeight]) -> dict[str, tuple[int, ...]]:
    """The shapes that the network gives these weights."""
    architecture = open_architecture(checkpoint)
    model = architecture.build_on_meta(torch.bfloat16)
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    destinations = WeightLoader(model, torch.bfloat16, architecture.kind).destinations(flat)
    found = {}
    for name, weight in flat.items():
        becomes = destinations.get(name)
        shape = _shape(wanted[becomes.name], weight.elements, becomes.converted) if becomes else None
        if shape is None:
            raise damaged(checkpoint.name, name, say("has not as many bytes as its shape asks for"))
        found[name] = shape
    return found


def _shape(whole: tuple[int, ...], elements: int, is_part: bool) -> tuple[int, ...] | None:
    """Of a weight of so many numbers, or one less, that is `whole`, or a part of it: None if that does not fit.

    What is stacked and concatenated on its way into the network has as many columns.
    """
    counts = (elements, elements - 1)  # two numbers lie in a byte
    if math.prod(whole) in counts:
        return whole
    columns = whole[-1] if is_part and len(whole) > 1 else 0
    return next(((count // columns, columns) for count in counts if columns and count % columns == 0), None)
