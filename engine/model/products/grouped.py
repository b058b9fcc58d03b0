"""Products of many matrices at once, each with rows of its own: the experts of a mixture that a pass is routed to.

One call shares out all of them among the threads. An expert alone is too small for that, and has too few rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.model.products.arranged import Alternating, Joined
from engine.model.products.bfloat_loops import BfloatLoop, bfloat_loop
from engine.model.products.product import Batch, Product, Stored, native


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

    @property
    def rows(self) -> int:
        """How many these are."""
        return self.end - self.begin

    def places(self, y: int, width: int) -> Iterator[tuple[Stored, int]]:
        """Its pieces, and for each where its products begin in y float32 [rows of x, `width`], an address."""
        y += 4 * self.begin * width
        for piece in self.member.pieces:
            yield piece, y
            y += 4 * piece.rows


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

    Of bfloat16, many rows of a group are multiplied by the loop for these, where there is one; few are not.

    Where each group has one row, x may be one row for all (`expand`). All members have pieces alike. Rows of no group
    are left as they are, without any meaning. A row's bits depend on what those of `Product` do.
    """
    first = groups[0].member
    width = sum(piece.rows for piece in first.pieces)
    found = torch.empty(len(x), width, dtype=torch.float32)
    is_narrow = x.dtype == torch.bfloat16
    takes_bfloats = is_narrow and all(piece.takes_bfloats for piece in first.pieces)
    loop = bfloat_loop() if takes_bfloats else None
    are_many = [loop is not None and _are_many(each, loop) for each in groups]
    many = [each for each, is_one_of_many in zip(groups, are_many, strict=True) if is_one_of_many]
    few = [each for each, is_one_of_many in zip(groups, are_many, strict=True) if not is_one_of_many]
    batch, there = Batch(), found.data_ptr()
    is_one = len(x) > 1 and x.stride(0) == 0 and x.stride(1) == 1 and len(groups) == len(x)
    if few:
        rows = x[:1].float() if is_one else x.float().contiguous()
        here, step = rows.data_ptr(), 0 if is_one else 4 * rows.shape[1]
    for group in few:
        for piece, y in group.places(there, width):
            batch.multiply(piece, here + group.begin * step, y, group.rows, width, is_narrow)
    if many and loop:
        arranged = batch.keep(loop.arrange(x, [(group.begin, group.end) for group in many]))
        here, step = arranged.data_ptr(), arranged[0].nbytes
        for group in many:
            for piece, y in group.places(there, width):
                batch.multiply_bfloats(piece, here, y, group.rows, loop, width)
            here += step * -(-group.rows // loop.together)
    batch.run()
    if first.is_woven:
        return found.view(len(x), len(first.pieces), -1).transpose(1, 2).flatten(1)
    return found


def _are_many(group: Group, loop: BfloatLoop) -> bool:
    """Whether a group's rows of bfloat16 are multiplied by the loop for these."""
    return group.rows >= loop.from_rows and group.member.pieces[0].order_of(group.rows) is None


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

    With a `limit` gpt-oss's, of rows in turns: see `between.clamped_gate`.
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
