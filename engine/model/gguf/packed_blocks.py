"""GGUF: weights as llama.cpp stores them, in blocks or as plain numbers, brought into the order that transformers has.

llama.cpp's converter permutes rows of queries and keys, adds 1 to some norms and keeps the matrices of a fused weight
apart. All of that is undone where a weight is written to its place: it costs no pass of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from engine.gguf_header import BlockType
from engine.model.decoding.chunks import chunk_weights, in_chunks
from engine.model.formats.packed import WHOLE_NUMBERS
from engine.model.gguf.block_decoders import decode_blocks
from engine.model.products.arranged import Alternating, Joined, Woven
from engine.model.products.product import Product, Stored, blocks, decoded, plain

Order = Literal[
    "same", "heads", "joined", "halves", "woven", "turned", "woven turned", "latent", "grouped", "grouped columns",
    "by key heads", "by groups", "behind", "frames", "patches",
]  # fmt: skip
"""How stored parts lie in a weight: as they are; with the rows of each of the `heads` halved and woven (the rotary
pairs of llama.cpp); one behind the other in the dimension before the last, or the only one; the same in the last
one, turned; alternating in the last one; with the last two dimensions turned; both; in the rows of each of the
`heads`, `split` rows of keys, turned, and behind them those of values, if there are any; the rows from `split` on,
or the columns, of `groups` parts in each of the `heads`, the first parts of all heads before the second ones; the
rows of each of the `heads`, `split` of queries, as many of keys and those of values from the first part, the others
from the second; the same of one part, in which every head has `split` rows of queries, and as many of keys as of
values; the first `split` rows, and those behind them; one behind the other in the third dimension; the colours of
each pixel apart, of rows with `heads` lines of `groups` pixels."""


Undo = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Gguf:
    """The parts `"0"`, `"1"`, ... hold rows of blocks, uint8 [..., bytes], or plain numbers; `kinds` are their types.

    `plus` is added to every number, and `times` multiplied with it; with `is_log`, a number is the logarithm of `sign`
    times what is stored.
    """

    kinds: tuple[BlockType, ...]
    order: Order = "same"
    heads: int = 0
    split: int = 0
    groups: int = 0
    plus: float = 0.0
    times: float = 1.0
    is_log: bool = False
    sign: float = -1.0

    @property
    def name(self) -> str:
        """See `PackedFormat.name`."""
        return self.kinds[0].name

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`."""
        undo = self._undo()
        for number, (kind, targets) in enumerate(zip(self.kinds, self._targets(out), strict=True)):
            part, begin = parts[str(number)], 0
            if len(targets) == 1:
                _fill(kind, part, targets[0], undo)
                continue
            for target in targets:
                count = target.numel() // target.shape[-1]
                _fill(kind, part[begin : begin + count], target, undo)
                begin += count

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Product | None:
        """See `PackedFormat.product`: of parts as they are, one below the other, or with the rows of heads woven."""
        if self._undo() or self.order not in {"same", "joined", "heads"}:
            return None
        found = self._matrices(parts, shape[1])
        if not found:
            return None
        if self.order == "heads":
            return Woven(found[0], self.heads)
        return found[0] if len(found) == 1 else Joined(found)

    def turned_product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Product | None:
        """See `TurnedFormat.turned_product`."""
        if self._undo() or self.order not in {"turned", "halves", "woven turned"}:
            return None
        found = self._matrices(parts, shape[1])
        if not found or sum(matrix.rows for matrix in found) != shape[0]:
            return None
        if len(found) == 1:
            return found[0]
        return Alternating(found) if self.order == "woven turned" else Joined(found)

    def _matrices(self, parts: Mapping[str, Tensor], columns: int) -> list[Stored]:
        """The parts, each a matrix as it is stored; none if there is no loop for one of them."""
        found = []
        for number, kind in enumerate(self.kinds):
            part = parts[str(number)]
            rows = part.view(-1, columns) if kind.plain else part.reshape(-1, columns // kind.elements * kind.nbytes)
            matrix = plain(rows) if kind.plain else blocks(kind.name, rows, columns)
            if matrix is None:
                return []
            found.append(matrix)
        return found

    def _undo(self) -> Undo | None:
        if self.is_log:
            sign = self.sign
            return lambda numbers: torch.log(sign * numbers)
        plus, times = self.plus, self.times
        if times != 1.0:
            return lambda numbers: numbers * times + plus
        return (lambda numbers: numbers + plus) if plus else None

    def _targets(self, out: Tensor) -> list[list[Tensor]]:
        """For each part, the views of a weight in which its rows lie as they are stored, one view behind the other."""
        if self.order == "heads":
            rows = out if out.ndim > 1 else out.unsqueeze(-1)
            return [[rows.view(self.heads, 2, -1, rows.shape[1]).transpose(1, 2)]]
        if self.order == "grouped":
            rows = out.view(len(out), -1)
            behind = rows[self.split :].view(self.heads, self.groups, -1, rows.shape[1]).transpose(0, 1)
            return [[rows[: self.split], behind] if self.split else [behind]]
        if self.order == "by groups":
            heads = out.view(self.heads, -1, out.shape[1])
            return [[heads[:, : self.split], *heads[:, self.split :].chunk(2, 1)]]
        if self.order == "by key heads":
            heads = out.view(self.heads, -1, out.shape[1])
            values = (heads.shape[1] - 2 * self.split) // 2
            ends = (0, self.split, 2 * self.split, 2 * self.split + values)
            return [[heads[:, begin:end] for begin, end in pairwise(ends)], [heads[:, ends[-1] :]]]
        if self.order in {"frames", "patches"}:
            return self._targets_of_pictures(out)
        return [[target] for target in self._whole_targets(out, len(self.kinds))]

    def _targets_of_pictures(self, out: Tensor) -> list[list[Tensor]]:
        if self.order == "frames":
            return [[frame] for frame in out.unbind(2)]
        return [[out.view(len(out), self.heads, self.groups, -1).permute(0, 3, 1, 2)]]

    def _whole_targets(self, out: Tensor, count: int) -> list[Tensor]:
        if self.order == "behind":
            return [out[: self.split], out[self.split :]]
        if self.order == "joined":
            return list((out if out.ndim > 1 else out.unsqueeze(-1)).chunk(count, -2))
        if self.order == "halves":
            return [half.transpose(-1, -2) for half in out.chunk(count, -1)]
        if self.order == "grouped columns":
            return [out.view(len(out), self.heads, self.groups, -1).transpose(1, 2)]
        if self.order == "latent":
            heads = out.view(self.heads, -1, out.shape[-1])
            return [heads[:, : self.split].transpose(-1, -2), heads[:, self.split :]][:count]
        woven = [out[..., part::count] for part in range(count)] if "woven" in self.order else [out]
        return [part.transpose(-1, -2) for part in woven] if "turned" in self.order else woven


@dataclass(frozen=True, slots=True)
class WholeNumbers:
    """The part `"0"` holds whole numbers: of 32 bits, or the bytes of those of 64 from metadata, at any byte.

    With a `limit` they are indices below it: any other one would be looked up outside of what it is an index of.
    """

    limit: int = 0
    name = WHOLE_NUMBERS

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`; `out` holds whole numbers, too."""
        stored = parts["0"]
        out.copy_(stored.clone().view(torch.int64) if stored.dtype == torch.uint8 else stored)
        if self.limit:
            out.clamp_(0, self.limit - 1)

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Product | None:
        """Nothing is multiplied with them."""


def _fill(kind: BlockType, part: Tensor, target: Tensor, undo: Undo | None) -> None:
    """Decode the rows of a part into `target`, whose last dimensions are a row's, and whose others are all rows."""
    if kind.plain and part.dtype == torch.uint8:  # from metadata, where numbers lie at any byte
        part = part.clone().view(torch.float32)
    target = target.view(-1) if target.ndim == 0 else target
    columns = target.numel() // (part.numel() // part.shape[-1]) if part.ndim > 1 else target.shape[-1]
    rows = part.view(-1, columns) if kind.plain else part.view(-1, part.shape[-1])
    is_direct = not kind.plain and not undo and target.is_contiguous()
    if is_direct and decoded(lambda: blocks(kind.name, rows, columns), target.view(-1, columns)):
        return
    if target.ndim == 1:
        target = target.unsqueeze(0)
    inner = len(rows) // len(target)  # rows for every index of the first dimension
    if target.ndim > 2 and inner * columns > chunk_weights(target.device, target.numel()):
        for index, inside in enumerate(target):
            _fill(kind, rows[index * inner : (index + 1) * inner], inside, undo)
        return

    def put(some: slice) -> None:
        _put(kind, rows[some.start * inner : some.stop * inner], target[some], undo)

    in_chunks(put, len(target), inner * columns, target.device)


def _put(kind: BlockType, rows: Tensor, place: Tensor, undo: Undo | None) -> None:
    numbers = rows.float() if kind.plain else decode_blocks(kind, rows.reshape(-1, kind.nbytes))
    if undo:
        numbers = undo(numbers)
    place.copy_(numbers.view(place.shape))
