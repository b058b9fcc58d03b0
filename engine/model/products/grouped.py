"""Products of many matrices at once, each with rows of its own: the experts of a mixture that a pass is routed to.

One call shares out all of them among the threads. An expert alone is too small for that, and has too few rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.products.matrix_unit import has_tiles, in_tiles
from engine.model.products.product import Alternating, Batch, Joined, Product, Stored


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
    """Rows of x [rows, columns], contiguous, times the turned matrices [out, columns]: float32 [rows, out].

    Of bfloat16, several rows of a group are multiplied as tiles where the processor can (`Product`); one is not.

    All members have pieces alike. Rows of no group are left as they are, without any meaning. A row's bits depend on it
    and its matrix alone, as those of `Product`.
    """
    first = groups[0].member
    found = [x.new_empty(len(x), piece.rows, dtype=torch.float32) for piece in first.pieces]
    rows, results, batch = x.float().numpy(), [y.numpy() for y in found], Batch()
    tiled = x.dtype == torch.bfloat16 and has_tiles()
    for group in groups:
        some = slice(group.begin, group.end)
        tiles = in_tiles(x[some]).numpy() if tiled and group.end - group.begin > 1 else None
        for piece, y in zip(group.member.pieces, results, strict=True):
            if tiles is None:
                piece.add(rows[some], y[some], batch)
            else:
                piece.add_tiles(tiles, y[some], batch)
    batch.run()
    if len(found) == 1:
        return found[0]
    return torch.stack(found, -1).flatten(-2) if first.is_woven else torch.cat(found, dim=1)
