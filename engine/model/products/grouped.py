"""Products of many matrices at once, each with rows of its own: the experts of a mixture that a pass is routed to.

One call shares out all of them among the threads. An expert alone is too small for that, and has too few rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from engine.model.decoding.workers import work_through
from engine.model.products.product import (
    MOST_ROWS,
    QUICK,
    SHARES,
    TOGETHER,
    WORTH_A_THREAD,
    Alternating,
    Joined,
    Product,
    Stored,
)

_CPU = torch.device("cpu")


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


@dataclass(frozen=True, slots=True)
class _Task:
    kernel: Any
    parts: Any
    x: Any
    y: Any
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


def multiply(groups: Sequence[Group], x: Tensor, out: int) -> Tensor:
    """Rows of x, float32 [rows, columns], contiguous, times the turned matrices [out, columns]: float32 [rows, out].

    All members have pieces alike. Rows of no group are left as they are, without any meaning. A row's bits depend on it
    and its matrix alone, as those of `Product`.
    """
    first = groups[0].member
    if len(first.pieces) == 1:
        y = x.new_empty(len(x), out)
        _work(groups, x, [y])
        return y
    found = [x.new_empty(len(x), piece.rows) for piece in first.pieces]
    _work(groups, x, found)
    return torch.stack(found, -1).flatten(-2) if first.is_woven else torch.cat(found, dim=1)


def _work(groups: Sequence[Group], x: Tensor, found: Sequence[Tensor]) -> None:
    """Write the products of each piece into its own result."""
    threads = torch.get_num_threads()
    whole = sum((g.end - g.begin) * piece.rows * piece.columns for g in groups for piece in g.member.pieces)
    count = max(1, min(SHARES * threads, whole // WORTH_A_THREAD)) if threads > 1 else 1
    tasks = list(_tasks(groups, x.numpy(), [y.numpy() for y in found], whole // count + 1))

    def work(some: slice) -> None:
        for each in tasks[some]:
            each.kernel(each.parts, each.x, each.y, each.begin, each.end)

    slices = [slice(number, number + 1) for number in range(len(tasks))] if count > 1 else [slice(0, len(tasks))]
    work_through(work, slices, _CPU, by_torch=False)


def _tasks(groups: Sequence[Group], x: Any, found: Sequence[Any], most: int) -> Iterator[_Task]:
    """Calls of loops of about `most` products of two numbers each."""
    kernels = _kernels()
    for group in groups:
        rows = group.end - group.begin
        step = -(-rows // max(1, round(rows / MOST_ROWS)))
        for begin in range(group.begin, group.end, step):
            some = slice(begin, min(begin + step, group.end))
            for piece, y in zip(group.member.pieces, found, strict=True):
                several = kernels.several_rows if type(piece.parts) in QUICK else kernels.several_rows_decoded
                kernel = kernels.one_row if some.stop - some.start == 1 else several
                own = (some.stop - some.start) * piece.rows * piece.columns
                part = -(-piece.rows // -(-own // most) // TOGETHER) * TOGETHER
                for first in range(0, piece.rows, part):
                    yield _Task(kernel, piece.parts, x[some], y[some], first, min(first + part, piece.rows))


@lru_cache(maxsize=1)
def _kernels() -> Any:
    """The compiled loops; numba is imported with them."""
    from engine.model.products import kernels  # noqa: PLC0415

    return kernels
