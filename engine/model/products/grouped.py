"""Products of many matrices at once, each with rows of its own: the experts of a mixture that a pass is routed to.

One call shares out all of them among the threads. An expert alone is too small for that, and has too few rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.model.products.matrix_unit import TILED_FROM, has_tiles, in_tiles
from engine.model.products.product import Alternating, Batch, Joined, Product, Stored, native


@dataclass(frozen=True, slots=True)
class Member:
    """One matrix of a stack in its `pieces`: one below the other, or their rows in turns (`is_woven`)."""

    pieces: tuple[Stored, ...]
    is_woven: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A matrix, and the rows [begin, end) of x that are multiplied with it."""

    member: Member
    begin: int
    end: int


def member_of(product: Product | None) -> Member | None:
    """A product as a member of a stack; None for those whose loops cannot be called together."""
    if isinstance(product, Stored):
        return Member((product,))
    if isinstance(product, Joined | Alternating):
        pieces = tuple(matrix for matrix in product.matrices if isinstance(matrix, Stored))
        return Member(pieces, isinstance(product, Alternating)) if len(pieces) == len(product.matrices) else None
    return None


def multiply(groups: Sequence[Group], x: Tensor) -> Tensor:
    """Rows of x [rows, columns] times the turned matrices [out, columns]: float32 [rows, out].

    Of bfloat16, many rows of a group are multiplied as tiles where the processor can (`TILED_FROM`); few are not.

    Where each group has one row, x may be one row for all (`expand`). All members have pieces alike. Rows of no group
    are left as they are, without any meaning. A row's bits depend on what those of `Product` do.
    """
    first = groups[0].member
    is_one = len(x) > 1 and x.stride(0) == 0 and x.stride(1) == 1 and len(groups) == len(x)
    rows = x[:1].float() if is_one else x.float().contiguous()
    step = 0 if is_one else rows.shape[1]  # in numbers
    tiled = x.dtype == torch.bfloat16 and has_tiles()
    found = [x.new_empty(len(x), piece.rows, dtype=torch.float32) for piece in first.pieces]
    batch, here, there = Batch(), rows.data_ptr(), [y.data_ptr() for y in found]
    for group in groups:
        begin, count = group.begin, group.end - group.begin
        tiles = in_tiles(x[begin : group.end]).numpy() if tiled and count >= TILED_FROM else None
        for piece, y, place in zip(group.member.pieces, found, there, strict=True):
            if tiles is None:
                batch.multiply(piece, here + 4 * begin * step, place + 4 * begin * piece.rows, count)
            else:
                piece.add_tiles(tiles, y[begin : group.end].numpy(), batch)
    batch.run()
    if len(found) == 1:
        return found[0]
    return torch.stack(found, -1).flatten(-2) if first.is_woven else torch.cat(found, dim=1)


def mixed(outputs: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    """Outputs of pairs of a row and an expert, weighted, and each row's added up: float32 [rows, width].

    outputs: float32 [pairs, width], in an `order` int64 [pairs] of places in weights, float32 [rows, chosen]. Always
    added in the order of the router's choice, whichever expert was computed first.
    """
    found = outputs.new_empty(len(weights), outputs.shape[1])
    native().mix(outputs.contiguous().numpy(), order.numpy(), weights.contiguous().numpy(), found.numpy())
    return found


@dataclass(frozen=True, slots=True)
class Gate:
    """What lies between the stacks of gated experts, of up rows in both halves: silu(first) * second.

    With a `limit` gpt-oss's, of rows in turns: see `steps.clamped_gate`.
    """

    limit: float = 0.0
    alpha: float = 1.0

    def __call__(self, inner: Tensor) -> Tensor:
        """Of float32 [rows, 2 x width], contiguous, which may be written to: [rows, width].

        Each row as compiled steps compute it that is alone.
        """
        if not self.limit:
            native().gate_halves(inner.numpy())
            return inner[:, : inner.shape[1] // 2]
        found = inner.new_empty(len(inner), inner.shape[1] // 2)
        native().gate_woven(inner.numpy(), np.float32(self.alpha), np.float32(self.limit), found.numpy())
        return found
