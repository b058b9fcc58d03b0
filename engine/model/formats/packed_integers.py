"""Whole numbers of 2, 3, 4 or 8 bits in 32-bit words, as GPTQ and compressed-tensors store them.

Bits are packed without gaps along a row, lowest first: 32 numbers take as many words as a number has bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.model.decoding.chunks import in_chunks
from engine.model.decoding.compiled import fused
from engine.model.decoding.grouped import as_matrix, column_groups, in_rows, scale_groups
from engine.model.decoding.lookup import Levels, unpack
from engine.model.products.arranged import outputs
from engine.model.products.arrays import array, scales
from engine.model.products.layouts import Groups, GroupsWithZeros, TurnedGroups, places
from engine.model.products.product import Stored, decoded, stored

BITS = (2, 3, 4, 8)
WORD_BITS = 32
UNIT_PLACES = 5  # compiled loops decode so many numbers with one scale, as a power of two
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
        if decoded(lambda: self.product(parts, (out.shape[0], out.shape[1])), out):
            return
        codes, scales = self._turn(parts[CODES]), as_matrix(self._turn(parts[SCALES]), len(out))
        zeros = self._turn(parts[ZEROS]) if ZEROS in parts else None
        unsigned = zeros is not None and zeros.dtype == torch.int32
        if zeros is not None and not unsigned:
            zeros = as_matrix(zeros, len(out))
        group_of = column_groups(parts.get(ORDER), out.shape[1], self.group, scales.shape[1], out.device)
        lowest = 0 if unsigned else -(1 << self.bits - 1)
        levels = self._levels(lowest)

        def decode(rows: slice) -> None:
            stored = self._bytes(codes[rows])
            own = None
            if zeros is not None and unsigned:
                words = zeros[rows.start * self.bits // WORD_BITS : words_for(rows.stop, self.bits)]
                own = self._zero_points(words)[: rows.stop - rows.start]
            elif zeros is not None:
                own = zeros[rows].float()
            step = fused(_scaled, out.device)
            out[rows].copy_(step(stored, levels, lowest, out.shape[1], scales[rows].float(), own, group_of))

        in_chunks(decode, len(out), out.shape[1], out.device, multiple=WORD_BITS)

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Stored | None:
        """See `PackedFormat.product`."""
        group, codes, found, zeros = places(self.group), parts[CODES], parts[SCALES], parts.get(ZEROS)
        if self.bits != 4 or group is None or group < UNIT_PLACES or (zeros is not None and zeros.dtype != torch.int32):
            return None
        groups = shape[1] >> group
        if found.shape != ((groups, shape[0]) if self.turned else (shape[0], groups)):
            return None
        if ORDER in parts and column_groups(parts[ORDER], shape[1], self.group, groups, codes.device) is not None:
            return None
        if zeros is None:
            make_groups = partial(Groups, array(codes.view(torch.uint8)), scales(found), group)
            return None if self.turned else stored(make_groups, shape, codes, found)

        def make() -> GroupsWithZeros | TurnedGroups:
            others = array(zeros), self.zero_offset
            return (
                TurnedGroups(array(codes), scales(found), self.group, *others)
                if self.turned
                else GroupsWithZeros(array(codes.view(torch.uint8)), scales(found), group, *others)
            )

        tensors = codes, found, zeros
        return outputs(make, shape, self.group, *tensors) if self.turned else stored(make, shape, *tensors)

    def _turn(self, part: Tensor) -> Tensor:
        return part.t() if self.turned else part

    def _levels(self, lowest: int) -> Levels:
        """Those of codes; none for whole bytes, which need no table."""
        return "" if self.bits == 8 else " ".join(map(str, range(lowest, lowest + (1 << self.bits))))

    def _zero_points(self, words: Tensor) -> Tensor:
        """Of words int32 [words, groups]: float32 [numbers, groups]."""
        mask, stored = (1 << self.bits) - 1, self._bytes(words.t())
        if self.bits == 8:
            return stored.int().add_(self.zero_offset).bitwise_and_(mask).float().t().contiguous()
        levels = " ".join(str(level + self.zero_offset & mask) for level in range(mask + 1))
        return unpack(stored, levels).t().contiguous()

    def _bytes(self, words: Tensor) -> Tensor:
        """Words as bytes, row by row; rows of 3 bits end with three words, as numbers lie across their borders."""
        whole = in_rows(words)
        if self.bits == 3 and words.shape[1] % 3:
            whole = torch.nn.functional.pad(whole, (0, -words.shape[1] % 3))
        return whole.view(torch.uint8)


def _scaled(
    stored: Tensor,
    levels: Levels,
    lowest: int,
    columns: int,
    scales: Tensor,
    zeros: Tensor | None,
    group_of: Tensor | None,
) -> Tensor:
    """Numbers of `stored`, bytes in rows, less zero points times scales: float32 [rows, columns]."""
    numbers = unpack(stored, levels) if levels else stored.float().add_(lowest)
    return scale_groups(numbers[:, :columns].contiguous(), scales, zeros, group_of)
