"""Numbers of a few bits, found by table: a byte, or one and a half, becomes all the numbers in it with one lookup."""

import torch
from torch import Tensor

from engine.model.decoding.tables import NUMBERS, table

Levels = str
"""What codes stand for: a key of `NUMBERS`, or numbers with blanks between them. Text is a constant to a compiler."""

BYTES = 256  # there are so many different ones
ITEMS = {1: torch.float32, 2: torch.float64, 4: torch.complex128}  # what holds so many float32 numbers


def unpack(codes: Tensor, levels: Levels, *, high_first: bool = False) -> Tensor:
    """The numbers that `codes`, uint8 [rows, bytes], stand for: float32 [rows, numbers].

    `levels` are those of all codes: 4, 8 or 16 of them, for 2, 3 or 4 bits. The first number of a byte lies in
    its lowest bits, or in its highest. With 3 bits, rows take a multiple of 3 bytes. Of torch's lookups on a CPU this
    is the fastest: small tables stay in the first-level cache, and indices of 32 bits are half as long to write.
    """
    rows = len(codes)
    items = _table(levels, high_first, codes.device)
    codes = _twelve_bits(codes) if len(items) > BYTES else codes
    return items.index_select(0, codes.reshape(-1).int()).view(torch.float32).view(rows, -1)


def levels_of(codes: Tensor, levels: Levels) -> Tensor:
    """The sixteen levels' numbers of codes of 4 bits, uint8, an even number in all, each in a byte: flat float32."""
    items = _pairs(levels, codes.device).index_select(0, codes.view(-1).view(torch.int16).int())
    return items.view(torch.float32)


def _twelve_bits(codes: Tensor) -> Tensor:
    """Three bytes make two indices: int16 [rows, 2 x bytes / 3]."""
    first, middle, last = codes.view(len(codes), -1, 3).to(torch.int16).unbind(dim=2)
    return torch.stack([first | (middle & 15) << 8, middle >> 4 | last << 4], dim=2).view(len(codes), -1)


@table
def _table(levels: Levels, high_first: bool, device: torch.device) -> Tensor:
    """For every index the numbers in it, as one item: [256], or [4096] with 3 bits."""
    numbers = _numbers(levels)
    bits = len(numbers).bit_length() - 1
    index_bits = 12 if bits == 3 else 8
    places = torch.arange(0, index_bits, bits)
    index = torch.arange(1 << index_bits)[:, None] >> (places.flip(0) if high_first else places)
    items = numbers[index & len(numbers) - 1]
    return items.view(ITEMS[len(places)]).view(-1).to(device)


@table
def sixteen_levels(levels: Levels, device: torch.device) -> Tensor:
    """What each of sixteen codes stands for: float32 [16]."""
    return _numbers(levels).to(device)


@table
def _pairs(levels: Levels, device: torch.device) -> Tensor:
    """For two codes in two bytes, seen as one number of 16 bits, both levels as one item: [4096], some not in use."""
    pairs = torch.zeros(16, 256, 2)
    pairs[:, :16, 0] = _numbers(levels)
    pairs[:, :16, 1] = _numbers(levels)[:, None]
    return pairs.view(-1).view(torch.float64).to(device)


def _numbers(levels: Levels) -> Tensor:
    return torch.tensor(NUMBERS.get(levels) or [float(level) for level in levels.split()], dtype=torch.float32)
