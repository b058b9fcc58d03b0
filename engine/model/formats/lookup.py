"""Numbers of a few bits, found by table: a byte, or one and a half, becomes all the numbers in it with one lookup."""

from functools import lru_cache

import torch
from torch import Tensor

ITEMS = {1: torch.float32, 2: torch.float64, 4: torch.complex128}  # what holds so many float32 numbers


def unpack(codes: Tensor, levels: tuple[float, ...], *, high_first: bool = False) -> Tensor:
    """The numbers that `codes`, uint8 [rows, bytes], stand for: float32 [rows, numbers].

    `levels` are those of all codes: 4, 8, 16 or 256 of them, for 2, 3, 4 or 8 bits. The first number of a byte lies in
    its lowest bits, or in its highest. With 3 bits, rows take a multiple of 3 bytes. Of torch's lookups on a CPU this
    is the fastest: small tables stay in the first-level cache, and indices of 32 bits are half as long to write.
    """
    rows = len(codes)
    codes = _twelve_bits(codes) if len(levels) == 8 else codes
    items = _table(levels, high_first, codes.device).index_select(0, codes.reshape(-1).int())
    return items.view(torch.float32).view(rows, -1)


def levels_of(codes: Tensor, levels: tuple[float, ...]) -> Tensor:
    """The sixteen levels' numbers of codes of 4 bits, uint8, an even number in all, each in a byte: flat float32."""
    items = _pairs(levels, codes.device).index_select(0, codes.view(-1).view(torch.int16).int())
    return items.view(torch.float32)


def _twelve_bits(codes: Tensor) -> Tensor:
    """Three bytes make two indices: int16 [rows, 2 x bytes / 3]."""
    first, middle, last = codes.view(len(codes), -1, 3).to(torch.int16).unbind(dim=2)
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


@lru_cache
def _pairs(levels: tuple[float, ...], device: torch.device) -> Tensor:
    """For two codes in two bytes, seen as one number of 16 bits, both levels as one item: [4096], some not in use."""
    table = torch.zeros(16, 256, 2)
    table[:, :16, 0] = torch.tensor(levels)
    table[:, :16, 1] = torch.tensor(levels)[:, None]
    return table.view(-1).view(torch.float64).to(device)
