"""Numbers of a few bits, found by table: a byte, or one and a half, becomes all the numbers in it with one lookup."""

from functools import lru_cache

import torch
from torch import Tensor

ITEMS = {1: torch.float32, 2: torch.complex64, 4: torch.complex128}  # what holds so many float32 numbers


def unpack(codes: Tensor, levels: tuple[float, ...], *, high_first: bool = False) -> Tensor:
    """The numbers that `codes`, uint8 [rows, bytes], stand for: float32 [rows, 8 x bytes / bits].

    `levels` are those of all codes: 4, 8, 16 or 256 of them, for 2, 3, 4 or 8 bits. The first number lies in the lowest
    bits, or in the highest. With 3 bits, rows take a multiple of 3 bytes. `gather` is the fastest of torch's lookups
    on a CPU, and the only one that shares rows among threads; small tables stay in the first-level cache.
    """
    table = _table(levels, high_first, codes.device)
    index = _twelve_bits(codes) if len(levels) == 8 else codes.to(torch.int64)
    return torch.gather(table.expand(len(index), -1), 1, index).view(torch.float32)


def _twelve_bits(codes: Tensor) -> Tensor:
    """Three bytes make two indices: int64 [rows, 2 x bytes / 3]."""
    first, middle, last = codes.view(len(codes), -1, 3).to(torch.int64).unbind(dim=2)
    return torch.stack([first | (middle & 15) << 8, middle >> 4 | last << 4], dim=2).view(len(codes), -1)


@lru_cache
def _table(levels: tuple[float, ...], high_first: bool, device: torch.device) -> Tensor:
    """For every index the numbers in it, as one item: [256], or [4096] with 3 bits."""
    bits = len(levels).bit_length() - 1
    index_bits = 12 if bits == 3 else 8
    places = torch.arange(0, index_bits, bits)
    index = torch.arange(1 << index_bits)[:, None] >> (places.flip(0) if high_first else places)
    numbers = torch.tensor(levels, dtype=torch.float32)[index & len(levels) - 1]
    return numbers.view(ITEMS[len(places)]).view(-1).to(device)
