"""Weights in the blocks of GGUF files, decoded to the numbers that ggml's own reference gives, bit for bit.

A block is some bytes for 32 or 256 numbers of a row; its layout is that of `block_*` in ggml-common.h. transformers has
decoders for most types; those here are for types that it lacks, and for those that they decode up to twice as fast on a
CPU.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from engine.model.gguf.block_types import BlockType

LEVELS_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
LEVELS_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)  # doubled

FIRST_E8M0 = (2.0**-128, 2.0**-127)  # of exponents below those of normal numbers, halved


def decode_blocks(kind: BlockType, blocks: Tensor) -> Tensor:
    """The numbers of blocks uint8 [count, bytes of a block]: float32 [count, ...], in the order of the row.

    The dimensions behind the first hold the numbers of a block; they lie in memory as they were cheapest to make.
    """
    own = _DECODERS.get(kind.name)
    if own is not None:
        return own(blocks)
    from transformers.integrations.gguf.dequant import dequantize  # noqa: PLC0415  # tables that few models need

    numbers: Tensor = dequantize(blocks, kind.number, torch.float32)
    return numbers.view(len(blocks), kind.elements)


def _halves(blocks: Tensor, begin: int) -> Tensor:
    """The float16 at a byte of every block, as float32 [count, 1]."""
    return blocks[:, begin : begin + 2].contiguous().view(torch.float16).float()


def _planes(packed: Tensor, width: int, bits: int) -> Tensor:
    """Bytes [count, parts * width] cut into fields of so many bits: uint8 [fields of a byte, parts, count, width].

    The lowest bits come first. `width` is a multiple of 4: four bytes are cut at once.
    """
    fields, parts = 8 // bits, packed.shape[1] // width
    words = packed.reshape(-1, parts, width).transpose(0, 1).contiguous().view(torch.int32)
    mask = ((1 << bits) - 1) * 0x01010101
    planes = words.new_empty((fields, *words.shape))
    for index in range(fields):
        torch.bitwise_and(words >> (bits * index), mask, out=planes[index])
    return planes.view(torch.uint8)


def _in_order(planes: Tensor) -> Tensor:
    """[fields, parts, count, width] as [count, parts, fields, width], where it lies."""
    return planes.permute(2, 1, 0, 3)


def _levels(nibbles: Tensor, levels: tuple[int, ...]) -> Tensor:
    table = torch.tensor(levels, dtype=torch.float32, device=nibbles.device)
    return table.index_select(0, nibbles.view(-1).int()).view(nibbles.shape)


def _fifth_bits(words: Tensor) -> Tensor:
    """Bytes [count, 4] whose 32 bits belong to a block's numbers, as 16 or 0: uint8 [2, 1, count, 16]."""
    places = torch.arange(32, dtype=torch.int32, device=words.device).view(2, 1, 1, 16)
    return ((words.contiguous().view(torch.int32) >> places) & 1).to(torch.uint8) << 4


def _q4_0(blocks: Tensor) -> Tensor:
    return _in_order(_planes(blocks[:, 2:], 16, 4).float().sub_(8).mul_(_halves(blocks, 0)))


def _q5_0(blocks: Tensor) -> Tensor:
    numbers = _planes(blocks[:, 6:], 16, 4).add_(_fifth_bits(blocks[:, 2:6]))
    return _in_order(numbers.float().sub_(16).mul_(_halves(blocks, 0)))


def _q5_1(blocks: Tensor) -> Tensor:
    numbers = _planes(blocks[:, 8:], 16, 4).add_(_fifth_bits(blocks[:, 4:8]))
    return _in_order(numbers.float().mul_(_halves(blocks, 0)).add_(_halves(blocks, 2)))


def _scales_k4(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Factors and offsets of the 8 groups of a Q4_K or Q5_K block, float32 [2, 4, count, 1] for their planes."""
    scales, offsets, rest = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    six_bits = torch.cat([scales & 63, (rest & 15) | ((scales >> 6) << 4)], 1)
    six_bits_off = torch.cat([offsets & 63, (rest >> 4) | ((offsets >> 6) << 4)], 1)
    factors, shifts = _halves(blocks, 0) * six_bits, _halves(blocks, 2) * six_bits_off
    return factors.view(-1, 4, 2).permute(2, 1, 0).unsqueeze(-1), shifts.view(-1, 4, 2).permute(2, 1, 0).unsqueeze(-1)


def _q4_k(blocks: Tensor) -> Tensor:
    factors, offsets = _scales_k4(blocks)
    return _in_order(_planes(blocks[:, 16:], 32, 4).float().mul_(factors).sub_(offsets))


def _q5_k(blocks: Tensor) -> Tensor:
    factors, offsets = _scales_k4(blocks)
    fifth = _planes(blocks[:, 16:48], 32, 1).view(4, 2, -1, 32).transpose(0, 1)
    numbers = _planes(blocks[:, 48:], 32, 4).add_(fifth << 4)
    return _in_order(numbers.float().mul_(factors).sub_(offsets))


def _iq4_nl(blocks: Tensor) -> Tensor:
    return _in_order(_levels(_planes(blocks[:, 2:], 16, 4), LEVELS_IQ4).mul_(_halves(blocks, 0)))


def _iq4_xs(blocks: Tensor) -> Tensor:
    low = torch.stack([blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4], 2).view(-1, 8)
    high = torch.stack([(blocks[:, 2:4] >> shift) & 3 for shift in (0, 2, 4, 6)], 2).view(-1, 8)
    factors = _halves(blocks, 0) * (low | (high << 4)).float().sub_(32)
    numbers = _levels(_planes(blocks[:, 8:], 16, 4), LEVELS_IQ4)
    return _in_order(numbers.mul_(factors.t().unsqueeze(-1)))


def _mxfp4(blocks: Tensor) -> Tensor:
    exponents = blocks[:, :1].int()
    # Half of 2 ** (exponent - 127), made of its bits; the two smallest are subnormal.
    factors = ((exponents - 1) << 23).view(torch.float32)
    for exponent, factor in enumerate(FIRST_E8M0):
        factors = torch.where(exponents == exponent, factor, factors)
    return _in_order(_levels(_planes(blocks[:, 1:], 16, 4), LEVELS_E2M1).mul_(factors))


_DECODERS: dict[str, Callable[[Tensor], Tensor]] = {
    "Q4_0": _q4_0, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q4_K": _q4_k, "Q5_K": _q5_k, "IQ4_NL": _iq4_nl, "IQ4_XS": _iq4_xs,
    "MXFP4": _mxfp4,
}  # fmt: skip
