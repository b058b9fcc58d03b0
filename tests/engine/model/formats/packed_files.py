"""Packed layers in a file, found and decoded as a checkpoint's are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.model.formats.packed import PackedWeight
from engine.model.formats.table import find_packed
from engine.model.safetensors_header import read_header
from tests.engine.tensor_files import read_tensors

LAYER = "model.layers.0.mlp.up_proj"


def find_in(folder: Path, packing: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, PackedWeight]:
    """What is found of a layer's tensors, by the ends of their names, in a file of their own."""
    file = folder / "layer.safetensors"
    save_file({f"{LAYER}.{name}": part.contiguous() for name, part in tensors.items()}, file)
    return dict(find_packed("it", {"quantization_config": packing}, read_header(file)))


def read_parts(weight: PackedWeight) -> dict[str, Tensor]:
    """The stored tensors of a weight by their roles."""
    shard = next(iter(weight.parts.values())).shard
    header, tensors = read_header(shard), read_tensors(shard)
    names = {info: name for name, info in header.items()}
    return {role: tensors[names[info]] for role, info in weight.parts.items()}


def same_bits(found: Tensor, expected: Tensor) -> bool:
    """Zeros of another sign are other bits."""
    plain = (tensor.clone(memory_format=torch.contiguous_format).view(torch.uint8) for tensor in (found, expected))
    return (found.dtype, found.shape) == (expected.dtype, expected.shape) and torch.equal(*plain)


def require_decoded(weight: PackedWeight, expected: Tensor) -> None:
    """Fail unless the weight is decoded to these float32 numbers, rounded once, whatever it is written into."""
    rows, columns = expected.shape
    assert weight.shape == (rows, columns)
    parts = read_parts(weight)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        stack = torch.full((3, rows, columns), torch.nan, dtype=dtype)
        turned = torch.full((columns + 5, rows), torch.nan, dtype=dtype)
        apart = torch.full((rows, 2 * columns), torch.nan, dtype=dtype)[:, ::2]
        for out in (stack[1], turned[5:].t(), apart):
            weight.format.decode(parts, out)
            assert same_bits(out, expected.to(dtype)), (weight.format, dtype, out.stride())
        assert stack[::2].isnan().all()
        assert turned[:5].isnan().all()
