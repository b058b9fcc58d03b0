"""MXFP4, as gpt-oss is published: 4-bit floating-point numbers, e2m1, in blocks of 32 with a power of two as scale.

OCP Microscaling Formats (MX) v1.0. The matrices of all experts lie in one tensor, with the inputs last; the network
has them turned, as transformers' `convert_moe_packed_tensors` turns them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from engine.model.decoding.bit_fields import field
from engine.model.decoding.chunks import in_chunks
from engine.model.decoding.compiled import fused
from engine.model.decoding.lookup import levels_of
from engine.model.formats.faults import damaged
from engine.model.formats.packed import PackedWeight
from engine.model.products.arrays import array
from engine.model.products.layouts import ScaledLevels, levels
from engine.model.products.product import Product, Stored, stored
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

BLOCK = 32  # numbers that share a scale
BLOCK_BYTES = BLOCK // 2
TILE_BLOCKS = 4  # of every row are turned together: they fill a line of the cache
TILE_ROWS = 2048
E2M1 = "e2m1"

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
        """See `PackedFormat.decode`: number times power of two; also of one expert, without its dimension."""
        *_, rows, groups, _ = parts[BLOCKS].shape
        all_codes, all_scales = parts[BLOCKS].view(-1, rows, groups, BLOCK_BYTES), parts[SCALES].view(-1, rows, groups)
        targets = out.view(len(all_codes), groups * BLOCK, rows)
        for codes, scales, target in zip(all_codes, all_scales, targets, strict=True):
            inputs = target.view(groups, BLOCK_BYTES, 2, rows)

            def decode(some: slice, codes: Tensor = codes, scales: Tensor = scales, inputs: Tensor = inputs) -> None:
                for begin in range(0, rows, TILE_ROWS):
                    tile = slice(begin, begin + TILE_ROWS)
                    _decode_turned(codes[tile, some], scales[tile, some], inputs[some, :, :, tile])

            in_chunks(decode, groups, BLOCK * rows, out.device, multiple=TILE_BLOCKS)

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Product | None:
        """See `PackedFormat.product`."""
        # Stacks of experts, and turned.
        del parts, shape
        return None

    def turned_product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Stored | None:
        """See `TurnedFormat.turned_product`; `blocks` [rows, groups, 16] and `scales` [rows, groups] of one expert."""
        codes, scales = parts[BLOCKS].reshape(shape[0], -1), parts[SCALES].view(torch.uint8)
        if codes.shape[1] * 2 != shape[1]:
            return None
        group = BLOCK.bit_length() - 1
        return stored(
            lambda: ScaledLevels(array(codes), levels(E2M1), array(scales), array(_every_scale()), group),
            shape,
            codes,
            scales,
        )


def _decode_turned(codes: Tensor, scales: Tensor, out: Tensor) -> None:
    """Codes [rows, groups, 16] and their scales [rows, groups], into `out` [groups, 16, 2, rows].

    The bytes are turned before they are taken apart: they are an eighth of the numbers in them.
    """
    turned = codes.reshape(len(codes), -1).t().contiguous()
    factors = powers_of_two(scales.t().contiguous())
    for place in (0, 1):
        out[:, :, place].copy_(fused(_every_second, out.device)(turned, factors, place))


def _every_second(turned: Tensor, factors: Tensor, place: int) -> Tensor:
    """The low (0) or the high (1) numbers of bytes [16 x groups, rows] times factors: float32 [groups, 16, rows]."""
    words = turned.view(-1).view(torch.int32)
    numbers = levels_of(field(words, 4 * place, 15).view(torch.uint8), E2M1)
    return numbers.view(len(factors), BLOCK_BYTES, -1).mul_(factors[:, None])


def powers_of_two(exponents: Tensor) -> Tensor:
    """The scales, in float32, that bytes stand for as e8m0 has them: 2^-127 to 2^127, and 255 for no number."""
    return exponents.view(torch.float8_e8m0fnu).float()


@lru_cache(maxsize=1)
def _every_scale() -> Tensor:
    """What each byte stands for as a scale, float32 [256]."""
    return powers_of_two(torch.arange(256, dtype=torch.uint8))


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
