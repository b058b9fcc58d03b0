"""GGUF blocks of one to three bits a number: an index finds four or eight numbers at once in a grid.

Numbers of the grids are small and whole: eight of them are one item of 64 bits, which one lookup brings. Signs are
applied to all eight by three operations on these items. transformers has the grids, as ggml-common.h defines them.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from engine.model.decoding.grids import grid, moved_grid, sign_patterns, spread_bits
from engine.model.decoding.tables import DELTA, table
from engine.model.gguf.block_fields import both_nibbles, halves, looked_up, part

ONES = 0x0101010101010101  # one in every byte
ODD_NUMBERS = tuple(1 + 2 * scale for scale in range(16))
HIGH_BITS = tuple(scale << 8 for scale in range(16))


def _signed(points: Tensor, negative: Tensor) -> Tensor:
    """Numbers above zero, eight in each int64, some of them turned negative; float32 [items, 8].

    `negative` has bytes of 255 for these: two's complement, in which no byte carries into the next.
    """
    numbers = points.bitwise_xor_(negative).add_(negative.bitwise_and_(ONES))
    return numbers.view(torch.int8).view(-1, 8).float()


def _scaled(numbers: Tensor, factors: Tensor) -> Tensor:
    return numbers.view(factors.numel(), -1).mul_(factors.reshape(-1, 1))


def _planes(packed: Tensor, shifts: tuple[int, ...], mask: int) -> Tensor:
    """Fields of int32 [count], as one after the other comes in each: int32 [count, fields]."""
    places = torch.tensor(shifts, dtype=torch.int32, device=packed.device)[:, None]
    return (packed >> places).bitwise_and_(mask).t().contiguous()


def _scales_and_signs(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Of words int32 [count] of 28 bits of signs and a scale: float32 0.5 + scale, and int64 [count x 4]."""
    scales = (packed >> 28).bitwise_and_(15).float().add_(0.5)
    return scales, looked_up(_planes(packed, (0, 7, 14, 21), 127), sign_patterns(packed.device))


def _nibble_scales(packed: Tensor) -> Tensor:
    """1 + 2 x the low and the high half of every byte: float32 [count, 2 x bytes]."""
    pairs = both_nibbles(ODD_NUMBERS, torch.float32, packed.device)
    return looked_up(packed, pairs).view(torch.float32).view(len(packed), -1)


def _indices(packed: Tensor, high: Tensor) -> Tensor:
    """Indices whose low 8 bits are bytes, and whose higher ones lie in 16 bits each, in the same order."""
    return packed.reshape(-1).to(torch.int16).bitwise_or_(high.view(torch.int16).view(-1))


def _iq2_xxs(blocks: Tensor) -> Tensor:
    pairs = part(blocks, 2, 66).view(torch.int32).view(-1, 2)
    scales, negative = _scales_and_signs(pairs[:, 1].contiguous())
    points = looked_up(pairs[:, 0].contiguous().view(torch.uint8), grid("IQ2_XXS", blocks.device))
    factors = scales.view(len(blocks), -1).mul_(halves(blocks, 0)).mul_(0.25)
    return _scaled(_signed(points, negative), factors)


def _iq2_xs(blocks: Tensor) -> Tensor:
    packed = part(blocks, 2, 66).view(torch.int16).int()
    negative = looked_up((packed >> 9).bitwise_and_(127), sign_patterns(blocks.device))
    points = looked_up(packed.bitwise_and_(511), grid("IQ2_XS", blocks.device))
    factors = _nibble_scales(part(blocks, 66, 74)).mul_(halves(blocks, 0)).mul_(0.125)
    return _scaled(_signed(points, negative), factors)


@table
def _pairs_of_bits(device: torch.device) -> Tensor:
    """For every byte its four fields of two bits, each in front of 8 bits: int64 [256], four numbers of 16 bits."""
    fields = torch.arange(256)[:, None] >> torch.tensor([0, 2, 4, 6]) & 3
    return (fields << 8).to(torch.int16).view(torch.int64).view(-1).to(device)


def _iq2_s(blocks: Tensor) -> Tensor:
    high = looked_up(part(blocks, 66, 74), _pairs_of_bits(blocks.device))
    points = looked_up(_indices(part(blocks, 2, 34), high), grid("IQ2_S", blocks.device))
    negative = looked_up(part(blocks, 34, 66), spread_bits(255, torch.uint8, blocks.device))
    factors = _nibble_scales(part(blocks, 74, 82)).mul_(halves(blocks, 0)).mul_(0.125)
    return _scaled(_signed(points, negative), factors)


def _iq3_xxs(blocks: Tensor) -> Tensor:
    scales, negative = _scales_and_signs(part(blocks, 66, 98).view(torch.int32).view(-1))
    points = looked_up(part(blocks, 2, 66), grid("IQ3_XXS", blocks.device)).view(torch.int64)
    factors = scales.view(len(blocks), -1).mul_(halves(blocks, 0)).mul_(0.5)
    return _scaled(_signed(points, negative), factors)


def _iq3_s(blocks: Tensor) -> Tensor:
    high = looked_up(part(blocks, 66, 74), spread_bits(256, torch.int16, blocks.device))
    points = looked_up(_indices(part(blocks, 2, 66), high), grid("IQ3_S", blocks.device)).view(torch.int64)
    negative = looked_up(part(blocks, 74, 106), spread_bits(255, torch.uint8, blocks.device))
    factors = _nibble_scales(part(blocks, 106, 110)).mul_(halves(blocks, 0))
    return _scaled(_signed(points, negative), factors)


def _iq1_s(blocks: Tensor) -> Tensor:
    packed = part(blocks, 34, 50).view(torch.int16).view(-1).int()
    moved = (packed >> 4).bitwise_and_(1 << 11)  # the highest bit, of all four groups of eight
    high = (_planes(packed, (0, 3, 6, 9), 7) << 8).bitwise_or_(moved[:, None])
    points = looked_up(_indices(part(blocks, 2, 34), high.to(torch.int16)), moved_grid(blocks.device))
    scales = (packed >> 12).bitwise_and_(7).mul_(2).add_(1).float().view(len(blocks), -1)
    return _scaled(points.view(torch.int8).float(), scales.mul_(halves(blocks, 0)).mul_(DELTA))


def _iq1_m(blocks: Tensor) -> Tensor:
    packed = part(blocks, 48, 56).view(torch.int16).int()
    # Each of the four words holds four bits of the block's scale in front of three bits for each of four scales.
    places = torch.tensor([12, 8, 4, 0], dtype=torch.int32, device=blocks.device)
    whole = (packed & 0xF000) >> places
    whole = whole[:, 0] | whole[:, 1] | whole[:, 2] | whole[:, 3]
    scales = _planes(packed.view(-1), (0, 3, 6, 9), 7).mul_(2).add_(1).float().view(len(blocks), -1)
    factors = scales.mul_(whole.to(torch.int16).view(torch.float16).float()[:, None]).mul_(DELTA)
    high = looked_up(part(blocks, 32, 48), both_nibbles(HIGH_BITS, torch.int16, blocks.device))
    points = looked_up(_indices(part(blocks, 0, 32), high), moved_grid(blocks.device))
    return _scaled(points.view(torch.int8).float(), factors)


GRID_DECODERS: dict[str, Callable[[Tensor], Tensor]] = {
    "IQ2_XXS": _iq2_xxs, "IQ2_XS": _iq2_xs, "IQ2_S": _iq2_s, "IQ3_XXS": _iq3_xxs, "IQ3_S": _iq3_s, "IQ1_S": _iq1_s,
    "IQ1_M": _iq1_m,
}  # fmt: skip
"""By the type's name: blocks uint8 [count, bytes] to float32, in the order of the row."""
