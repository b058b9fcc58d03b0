"""Weights in the blocks of GGUF files, decoded to the numbers that ggml's own reference gives, bit for bit.

A block is some bytes for 32 or 256 numbers of a row; its layout is that of `block_*` in ggml-common.h.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from engine.gguf_header import BlockType
from engine.model.decoding.bit_fields import field
from engine.model.decoding.compiled import fused
from engine.model.decoding.grids import spread_bits
from engine.model.decoding.lookup import levels_of
from engine.model.decoding.tables import table
from engine.model.gguf.block_fields import halves, looked_up, nibbles, part, weave, words
from engine.model.gguf.grid_decoders import GRID_DECODERS
from engine.model.products.product import blocks as stored_blocks
from engine.model.products.product import decoded

FIRST_E8M0 = (2.0**-128, 2.0**-127)  # of exponents below those of normal numbers, halved


def decode_blocks(kind: BlockType, blocks: Tensor) -> Tensor:
    """The numbers of blocks uint8 [count, bytes of a block], in the order of the row: float32 [count x elements]."""
    numbers = torch.empty(len(blocks), kind.elements, device=blocks.device)
    if decoded(lambda: stored_blocks(kind.name, blocks, kind.elements), numbers):
        return numbers.view(-1)
    if blocks.storage_offset() % 2:
        blocks = blocks.clone()  # so that they can be seen as numbers of 16 bits
    return fused(DECODERS[kind.name], blocks.device)(blocks).view(-1)


def _groups(codes: Tensor, width: int) -> Tensor:
    """Codes as float32 [groups, width], in memory of their own."""
    return codes.view(-1, width).float()


def _fifth_bits(blocks: Tensor, begin: int) -> Tensor:
    """Four bytes whose 32 bits belong to a block's numbers, as 16 or 0: int32, four numbers in each."""
    return looked_up(part(blocks, begin, begin + 4), spread_bits(16, torch.uint8, blocks.device)).view(torch.int32)


def _q4_0(blocks: Tensor) -> Tensor:
    return _groups(nibbles(words(blocks, 2, 18), 16), 32).sub_(8).mul_(halves(blocks, 0))


def _q4_1(blocks: Tensor) -> Tensor:
    return _groups(nibbles(words(blocks, 4, 20), 16), 32).mul_(halves(blocks, 0)).add_(halves(blocks, 2))


def _five_bits(blocks: Tensor, begin: int) -> Tensor:
    """Numbers of blocks of 32 whose fifth bits begin at a byte, and whose other four follow them."""
    codes = nibbles(words(blocks, begin + 4, begin + 20), 16)
    codes.view(torch.int32).view(-1).bitwise_or_(_fifth_bits(blocks, begin))
    return _groups(codes, 32)


def _q5_0(blocks: Tensor) -> Tensor:
    return _five_bits(blocks, 2).sub_(16).mul_(halves(blocks, 0))


def _q5_1(blocks: Tensor) -> Tensor:
    return _five_bits(blocks, 4).mul_(halves(blocks, 0)).add_(halves(blocks, 2))


def _q8_0(blocks: Tensor) -> Tensor:
    return part(blocks, 2, 34).view(torch.int8).float().mul_(halves(blocks, 0))


def _bytes(parts: tuple[Tensor, ...]) -> Tensor:
    """Words int32 [count] each, side by side, as float32 [count, bytes]."""
    return torch.stack(parts, 1).view(torch.uint8).float()


def _q2_k(blocks: Tensor) -> Tensor:
    scales, packed = words(blocks, 0, 16), words(blocks, 16, 80)
    numbers = _groups(weave([field(packed, shift, 3) for shift in (0, 2, 4, 6)], 32), 16)
    factors = field(scales, 0, 15).view(torch.uint8).float().mul_(halves(blocks, 80))
    offsets = field(scales, 4, 15).view(torch.uint8).float().mul_(halves(blocks, 82))
    return numbers.mul_(factors.view(-1, 1)).sub_(offsets.view(-1, 1))


def _q3_k(blocks: Tensor) -> Tensor:
    packed, third = words(blocks, 32, 96).view(-1, 2, 8), words(blocks, 0, 32)
    third = torch.stack([third, third >> 4], 1)
    planes = [field(packed, 2 * bit, 3).bitwise_or_(field(third, bit - 2, 4)) for bit in range(4)]
    first, second, high = words(blocks, 96, 108).t().contiguous()
    factors = _bytes((
        field(first, 0, 15).bitwise_or_(field(high, -4, 48)), field(second, 0, 15).bitwise_or_(field(high, -2, 48)),
        field(first, 4, 15).bitwise_or_(field(high, 0, 48)), field(second, 4, 15).bitwise_or_(field(high, 2, 48)),
    ))  # fmt: skip
    factors.sub_(32).mul_(halves(blocks, 108))
    return _groups(weave(planes, 32), 16).sub_(4).mul_(factors.view(-1, 1))


def _scales_k4(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Factors and offsets of the 8 groups of a Q4_K or Q5_K block, float32 [8 x count, 1]."""
    scales, offsets, rest = words(blocks, 4, 16).t().contiguous()
    factors = _bytes((field(scales, 0, 63), field(rest, 0, 15).bitwise_or_(field(scales, 2, 48))))
    shifts = _bytes((field(offsets, 0, 63), field(rest, 4, 15).bitwise_or_(field(offsets, 2, 48))))
    return factors.mul_(halves(blocks, 0)).view(-1, 1), shifts.mul_(halves(blocks, 2)).view(-1, 1)


def _q4_k(blocks: Tensor) -> Tensor:
    factors, offsets = _scales_k4(blocks)
    return _groups(nibbles(words(blocks, 16, 144), 32), 32).mul_(factors).sub_(offsets)


def _q5_k(blocks: Tensor) -> Tensor:
    factors, offsets = _scales_k4(blocks)
    fifth = words(blocks, 16, 48)
    codes = nibbles(words(blocks, 48, 176), 32).view(torch.int32).view(-1)
    codes.bitwise_or_(weave([field(fifth, bit - 4, 16) for bit in range(8)], 32).view(torch.int32).view(-1))
    return _groups(codes.view(torch.uint8), 32).mul_(factors).sub_(offsets)


def _q6_k(blocks: Tensor) -> Tensor:
    high = words(blocks, 128, 192)
    codes = nibbles(words(blocks, 0, 128), 64).view(torch.int32).view(-1)
    codes.bitwise_or_(weave([field(high, shift, 48) for shift in (-4, -2, 0, 2)], 32).view(torch.int32).view(-1))
    factors = part(blocks, 192, 208).view(torch.int8).float().mul_(halves(blocks, 208))
    return _groups(codes.view(torch.uint8), 16).sub_(32).mul_(factors.view(-1, 1))


def _iq4_nl(blocks: Tensor) -> Tensor:
    return levels_of(nibbles(words(blocks, 2, 18), 16), "iq4").view(-1, 32).mul_(halves(blocks, 0))


def _iq4_xs(blocks: Tensor) -> Tensor:
    places = torch.arange(8, dtype=torch.int32, device=blocks.device)[:, None]
    low = words(blocks, 4, 8).view(-1) >> places * 4
    high = part(blocks, 2, 4).view(torch.int16).view(-1).int() >> places * 2
    factors = low.bitwise_and_(15).bitwise_or_(high.bitwise_and_(3) << 4).t().float().sub_(32)
    factors = factors.mul_(halves(blocks, 0)).reshape(-1, 1)
    return levels_of(nibbles(words(blocks, 8, 136), 16), "iq4").view(-1, 32).mul_(factors)


@table
def _half_powers(device: torch.device) -> Tensor:
    """Half of 2 ** (exponent - 127) for every byte, made of its bits; the two smallest are subnormal."""
    numbers = (torch.arange(-1, 255, dtype=torch.int32) << 23).view(torch.float32)
    numbers[:2] = torch.tensor(FIRST_E8M0)
    return numbers.to(device)


def _mxfp4(blocks: Tensor) -> Tensor:
    factors = looked_up(blocks[:, 0], _half_powers(blocks.device)).view(-1, 1)
    return levels_of(nibbles(words(blocks, 1, 17), 16), "e2m1 doubled").view(-1, 32).mul_(factors)


def _tq2_0(blocks: Tensor) -> Tensor:
    packed = words(blocks, 0, 64)
    codes = weave([field(packed, shift, 3) for shift in (0, 2, 4, 6)], 32)
    return _groups(codes, 256).sub_(1).mul_(halves(blocks, 64))


def _digits(packed: Tensor, count: int) -> Tensor:
    """Of each byte, which is a fraction, so many digits to the base 3: uint8 [blocks, count x bytes]."""
    powers = torch.tensor([3**digit for digit in range(count)], dtype=torch.int32, device=packed.device)
    moved = (packed.int()[:, None] * powers[:, None]).bitwise_and_(255)  # what stands behind the point
    return (moved.mul_(3) >> 8).to(torch.uint8).flatten(1)


def _tq1_0(blocks: Tensor) -> Tensor:
    parts = ((0, 32, 5), (32, 48, 5), (48, 52, 4))
    codes = torch.cat([_digits(part(blocks, begin, end), count) for begin, end, count in parts], 1)
    return codes.float().sub_(1).mul_(halves(blocks, 52))


DECODERS: dict[str, Callable[[Tensor], Tensor]] = {
    "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0,
    "Q2_K": _q2_k, "Q3_K": _q3_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k,
    "IQ4_NL": _iq4_nl, "IQ4_XS": _iq4_xs, "MXFP4": _mxfp4, "TQ1_0": _tq1_0, "TQ2_0": _tq2_0, **GRID_DECODERS,
}  # fmt: skip
