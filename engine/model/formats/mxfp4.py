"""MXFP4, as gpt-oss is published: 4-bit floating-point numbers, e2m1, in blocks of 32 with a power of two as scale.

OCP Microscaling Formats (MX) v1.0. The matrices of all experts lie in one tensor, with the inputs last; the network
has them turned, as transformers' `convert_moe_packed_tensors` turns them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from engine.model.formats.chunks import row_slices
from engine.model.formats.faults import damaged
from engine.model.formats.packed import PackedWeight
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

BLOCK = 32  # numbers that share a scale
BLOCK_BYTES = BLOCK // 2
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)

BLOCKS, SCALES = "blocks", "scales"


@dataclass(frozen=True, slots=True)
class Mxfp4:
    """`blocks` uint8 [experts, rows, groups, 16] and `scales` uint8 [experts, rows, groups].

    They make up [experts, 32 x groups, rows]: the last two dimensions are turned.
    """

    @property
    def name(self) -> str:
        """See `PackedFormat.name`."""
        return "MXFP4"

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`: number times power of two."""
        experts, rows, groups, _ = parts[BLOCKS].shape
        blocks = parts[BLOCKS].view(experts, rows * groups, BLOCK_BYTES)
        scales = parts[SCALES].view(experts, rows * groups)
        table = e2m1_fours(out.device)
        for expert in range(experts):
            target = out[expert].transpose(0, 1)
            for part in row_slices(rows, groups * BLOCK, out.device):
                inside = slice(part.start * groups, part.stop * groups)
                index = _two_bytes(blocks[expert, inside]).to(torch.int64)
                numbers = torch.gather(table.expand(len(index), -1), 1, index)
                values = numbers.view(torch.float32).mul_(powers_of_two(scales[expert, inside])[:, None])
                target[part].copy_(values.view(-1, groups * BLOCK).to(out.dtype))


def _two_bytes(codes: Tensor) -> Tensor:
    """Bytes read two at a time, wherever they begin in memory."""
    return (codes.clone() if codes.storage_offset() % 2 else codes).view(torch.uint16)


def powers_of_two(exponents: Tensor) -> Tensor:
    """The scales, in float32, that bytes stand for as e8m0 has them: 2^-127 to 2^127, and 255 for no number."""
    return exponents.view(torch.float8_e8m0fnu).float()


@lru_cache
def e2m1_fours(device: torch.device) -> Tensor:
    """The four numbers that two bytes, read as one number, stand for, low halves first.

    complex128 [65536], 16 bytes each that hold four float32: one lookup finds them all.
    """
    two_bytes = torch.arange(1 << 16).to(torch.uint16).view(torch.uint8).view(-1, 2).int()
    nibbles = torch.stack([two_bytes & 15, two_bytes >> 4], dim=2)
    values = torch.tensor([*MAGNITUDES, *(-magnitude for magnitude in MAGNITUDES)])
    return values[nibbles.view(-1)].view(torch.complex128).to(device)


def find(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> dict[str, PackedWeight]:
    """All `*_blocks` with their `*_scales`; raises `ModelError` for scales that are missing or do not fit."""
    del packing  # there is but one variant
    found = {}
    for tensor, blocks in tensors.items():
        weight = tensor.removesuffix(f"_{BLOCKS}")
        if weight == tensor:
            continue
        scales = tensors.get(f"{weight}_{SCALES}")
        if scales is None:
            raise damaged(name, weight, say("has no scales"))
        if not _fit(blocks, scales):
            raise damaged(
                name,
                weight,
                say(
                    "has scales of the shape {scales} for {shape}", scales=list(scales.shape), shape=list(blocks.shape)
                ),
            )
        experts, rows, groups, _ = blocks.shape
        shape = (experts, groups * BLOCK, rows)
        found[weight] = PackedWeight(weight, shape, {BLOCKS: blocks, SCALES: scales}, Mxfp4())
    return found


def _fit(blocks: TensorInfo, scales: TensorInfo) -> bool:
    types = blocks.dtype == "U8" and scales.dtype in {"U8", "F8_E8M0"}
    return types and len(blocks.shape) == 4 and blocks.shape == (*scales.shape, BLOCK_BYTES)
