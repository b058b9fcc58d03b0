"""Takes the blocks of GGUF files apart: scales, and numbers of a few bits, as bytes in the order of the row."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.model.decoding.bit_fields import field
from engine.model.decoding.tables import table


def part(blocks: Tensor, begin: int, end: int) -> Tensor:
    """Bytes [begin, end) of every block, as a copy that may be seen as words: uint8 [count, end - begin]."""
    return torch.narrow_copy(blocks, 1, begin, end - begin)


def words(blocks: Tensor, begin: int, end: int) -> Tensor:
    """The same as int32 [count, (end - begin) / 4]."""
    return part(blocks, begin, end).view(torch.int32)


def halves(blocks: Tensor, begin: int) -> Tensor:
    """The float16 at an even byte of every block, as float32 [count, 1]; blocks begin at an even byte, too."""
    return blocks.view(torch.float16)[:, begin // 2, None].float()


def weave(planes: Sequence[Tensor], width: int) -> Tensor:
    """Runs of `width` bytes (a multiple of 4) of contiguous planes in turn: uint8 [runs, planes x width].

    They are moved as floating-point numbers, for which torch has a loop that copies whole runs.
    """
    return torch.cat([plane.view(torch.float32).view(-1, width // 4) for plane in planes], 1).view(torch.uint8)


def nibbles(packed: Tensor, width: int) -> Tensor:
    """Words int32 with two numbers in a byte: `width` low ones, then as many high ones; uint8 [..., 2 x width]."""
    return weave((field(packed, 0, 15), field(packed, 4, 15)), width)


def looked_up(codes: Tensor, table: Tensor) -> Tensor:
    """The items of a table, [entries], at codes of any shape; flat."""
    return table.index_select(0, codes.reshape(-1).int())


@table
def both_nibbles(numbers: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """For every byte the numbers that its low and its high half stand for: 256 items of two numbers."""
    codes = torch.arange(256)[:, None] >> torch.tensor([0, 4]) & 15
    pairs = torch.tensor(numbers, dtype=dtype)[codes]
    return pairs.view(torch.int32 if dtype.itemsize == 2 else torch.float64).view(-1).to(device)
