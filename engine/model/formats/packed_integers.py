"""Whole numbers of 2, 3, 4 or 8 bits in 32-bit words, as GPTQ and compressed-tensors store them.

Bits are packed without gaps along a row, lowest first: 32 numbers take as many words as a number has bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.formats.chunks import row_slices
from engine.model.formats.grouped import as_matrix, column_groups, scale_groups
from engine.model.formats.lookup import unpack

BITS = (2, 3, 4, 8)
WORD_BITS = 32
CODES, SCALES, ZEROS, ORDER = "codes", "scales", "zeros", "order"


def words_for(numbers: int, bits: int) -> int:
    """How many words `numbers` take."""
    return -(-numbers * bits // WORD_BITS)


@dataclass(frozen=True, slots=True)
class PackedIntegers:
    """Codes less zero points times scales.

    `codes` int32 [rows, words]; `scales` [rows, groups]; `zeros` int32 [words, groups], packed along the rows, or int8
    [rows, groups], or not there: then codes are signed; `order` int32 [columns], the group of each column, or not
    there. `turned`: all parts of two dimensions are stored the other way round. `zero_offset` is added to zero points.
    """

    method: str
    bits: int
    group: int
    turned: bool = False
    zero_offset: int = 0

    @property
    def name(self) -> str:
        """See `PackedFormat.name`."""
        return f"{self.method} {self.bits} bit"

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`."""
        codes, scales = self._turn(parts[CODES]), as_matrix(self._turn(parts[SCALES]), len(out))
        zeros = self._turn(parts[ZEROS]) if ZEROS in parts else None
        unsigned = zeros is not None and zeros.dtype == torch.int32
        if zeros is not None and not unsigned:
            zeros = as_matrix(zeros, len(out))
        group_of = column_groups(parts.get(ORDER), out.shape[1], self.group, scales.shape[1], out.device)
        for rows in row_slices(*out.shape, out.device, multiple=WORD_BITS):
            numbers = self._numbers(_in_rows(codes[rows]), unsigned)[:, : out.shape[1]].contiguous()
            own = None if zeros is None else self._zeros(zeros, rows)
            out[rows].copy_(scale_groups(numbers, scales[rows].float(), own, group_of))

    def _turn(self, part: Tensor) -> Tensor:
        return part.t() if self.turned else part

    def _numbers(self, words: Tensor, unsigned: bool) -> Tensor:
        lowest = 0 if unsigned else -(1 << self.bits - 1)
        if self.bits == 8:
            return words.view(torch.uint8).float().add_(lowest)
        if self.bits == 3:
            words = _whole_triples(words)
        return unpack(words.view(torch.uint8), _levels(self.bits, lowest))

    def _zeros(self, zeros: Tensor, rows: slice) -> Tensor:
        """The zero points of some rows, float32 [rows, groups]; the first row begins a word."""
        if zeros.dtype != torch.int32:
            return zeros[rows].float()
        some = slice(rows.start * self.bits // WORD_BITS, words_for(rows.stop, self.bits))
        words = _in_rows(zeros[some].t())
        if self.bits == 3:
            words = _whole_triples(words)
        mask = (1 << self.bits) - 1
        levels = tuple(float(level + self.zero_offset & mask) for level in range(mask + 1))
        return unpack(words.view(torch.uint8), levels)[:, : rows.stop - rows.start].t().contiguous()


def _levels(bits: int, lowest: int) -> tuple[float, ...]:
    return tuple(map(float, range(lowest, lowest + (1 << bits))))


def _in_rows(words: Tensor) -> Tensor:
    """A copy that can be seen as bytes: `contiguous` leaves a single column's strides as they are.

    What is turned is taken out first, and then turned: so torch reads memory in order.
    """
    whole = words.t().contiguous().t() if words.stride(0) == 1 else words
    return whole.clone(memory_format=torch.contiguous_format)


def _whole_triples(words: Tensor) -> Tensor:
    """Rows lengthened to a multiple of 3 words: numbers of 3 bits lie across their borders."""
    return torch.nn.functional.pad(words, (0, -words.shape[1] % 3)) if words.shape[1] % 3 else words
