"""Numbers of a few bits, found by table: a byte, or one and a half, becomes all the numbers in it with one lookup."""

from functools import lru_cache

import torch
from torch import Tensor

ITEMS = {1: torch.float32, 2: torch.complex64, 4: torch.complex128}  # what holds so many float32 numbers


class Unpacker:
    """Unpacks chunks one after the other into the same memory: fresh pages cost as much as the lookups.

    `levels` are those of all codes: 4, 8, 16 or 256 of them, for 2, 3, 4 or 8 bits. The first number of a byte lies in
    its lowest bits, or in its highest. `gather` is the fastest of torch's lookups on a CPU, and the only one that
    shares rows among threads; small tables stay in the first-level cache.
    """

    def __init__(self, levels: tuple[float, ...], device: torch.device, *, high_first: bool = False) -> None:
        self._table = _table(levels, high_first, device)
        self._has_3_bits = len(levels) == 8
        self._index = torch.empty(0, dtype=torch.int64, device=device)
        self._items = torch.empty(0, dtype=self._table.dtype, device=device)

    def unpack(self, codes: Tensor) -> Tensor:
        """The numbers that `codes`, uint8 [rows, bytes], stand for, until the next ones: float32 [rows, numbers].

        With 3 bits, rows take a multiple of 3 bytes.
        """
        codes = _twelve_bits(codes) if self._has_3_bits else codes
        size = codes.numel()
        if size > len(self._index):
            self._index, self._items = self._index.new_empty(size), self._items.new_empty(size)
        index, items = (buffer[:size].view(codes.shape) for buffer in (self._index, self._items))
        torch.gather(self._table.expand(len(codes), -1), 1, index.copy_(codes), out=items)
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
