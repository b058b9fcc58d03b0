"""A weight that is multiplied as it is stored: few rows with a matrix, on the threads that torch may use.

Nothing is copied: products are views of stored bytes, cheap to make, and valid as long as these lie where they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from engine.model.decoding.workers import work_through
from engine.model.products import layouts
from engine.model.products.compiling import has_compiler
from engine.model.products.layouts import UNIT

SMALLEST = 1 << 17  # weights of a matrix: with fewer, calls take longer than what they save
MOST_ROWS = 32  # of x at a time, about: the more, the less often the matrix is decoded; as measured, more gain nothing
WORTH_A_THREAD = 1 << 19  # weights times rows that a thread takes longer for than to be woken
TOGETHER = 16  # rows whose words may lie in one line of the cache
SHARES = 4  # of a matrix for each thread: one that is held up elsewhere does not hold up all
WRITTEN = frozenset({torch.float32, torch.bfloat16})
QUICK = frozenset({layouts.Bfloats, layouts.Halves, layouts.Integers})
"""Layouts whose numbers are decoded anew for every four rows of x."""


TABLES: dict[str, tuple[Callable[[], layouts.Array], ...]] = {
    "IQ4_NL": (partial(layouts.levels, "iq4"),),
    "IQ4_XS": (partial(layouts.levels, "iq4"),),
    "MXFP4": (partial(layouts.levels, "e2m1 doubled"), layouts.half_powers),
}
"""What layouts of GGUF's blocks hold besides them."""


class Product(Protocol):
    """Multiplies rows with a weight [weight rows, columns], which it does not own."""

    def __call__(self, x: Tensor) -> Tensor:
        """x times the turned weight: float32 [rows, columns], contiguous, to float32 [rows, weight rows], on the CPU.

        A row's bits depend on it and the weight alone: not on threads, nor on the rows beside it.
        """


@dataclass(frozen=True, slots=True)
class Stored:
    """A matrix [rows, columns] in one of the layouts."""

    parts: Any
    rows: int
    columns: int

    def __call__(self, x: Tensor) -> Tensor:
        """See `Product`."""
        y = x.new_empty(len(x), self.rows)
        self.into(x, y)
        return y

    def into(self, x: Tensor, y: Tensor) -> None:
        """Write the product into y [rows, weight rows], whose rows may lie apart."""
        kernels = _kernels()
        step = -(
            -len(x) // max(1, round(len(x) / MOST_ROWS))
        )  # alike: a last one of a row would cost as much as others
        for begin in range(0, len(x), step):
            some, found = x[begin : begin + step].numpy(), y[begin : begin + step].numpy()
            several = kernels.several_rows if type(self.parts) in QUICK else kernels.several_rows_decoded
            kernel = kernels.one_row if len(some) == 1 else several
            self._share(lambda rows: kernel(self.parts, some, found, rows.start, rows.stop), len(some))  # noqa: B023

    def decode(self, out: Tensor) -> None:
        """Write the matrix into `out`, of its shape, contiguous, float32 or bfloat16."""
        kernels, target = _kernels(), layouts.array(out)
        decode = kernels.decode if out.dtype == torch.float32 else kernels.decode_bfloats
        self._share(lambda rows: decode(self.parts, target, rows.start, rows.stop), 1)

    def _share(self, work: Callable[[slice], None], times: int) -> None:
        """Do `work` for all rows, side by side where it is enough for that."""
        threads = torch.get_num_threads()
        most = self.rows * self.columns * times // WORTH_A_THREAD
        count = max(1, min(SHARES * threads, most)) if threads > 1 else 1
        step = -(-self.rows // count // TOGETHER) * TOGETHER
        shares = [slice(begin, min(begin + step, self.rows)) for begin in range(0, self.rows, step)]
        work_through(work, shares, _CPU, by_torch=False)


_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Joined:
    """Matrices of the same columns, one below the other."""

    matrices: Sequence[Product]

    def __call__(self, x: Tensor) -> Tensor:
        """See `Product`."""
        return torch.cat([matrix(x) for matrix in self.matrices], dim=1)


@dataclass(frozen=True, slots=True)
class Alternating:
    """Matrices of the same shape, a row of each in turns."""

    matrices: Sequence[Product]

    def __call__(self, x: Tensor) -> Tensor:
        """See `Product`."""
        return torch.stack([matrix(x) for matrix in self.matrices], dim=-1).flatten(-2)


@dataclass(frozen=True, slots=True)
class Woven:
    """A matrix whose rows are stored, in each of the `heads`, with those of both halves in turns."""

    matrix: Product
    heads: int

    def __call__(self, x: Tensor) -> Tensor:
        """See `Product`."""
        y = self.matrix(x)
        return y.view(len(y), self.heads, -1, 2).transpose(2, 3).reshape(y.shape)


def stored(make: Callable[[], Any], shape: Sequence[int], *tensors: Tensor) -> Stored | None:
    """A matrix in the layout that `make` gives.

    None if there is no compiler, the matrix is small, or the tensors do not lie as loops need them.
    """
    if len(shape) != 2 or shape[1] % UNIT or shape[0] * shape[1] < SMALLEST:
        return None
    if not all(tensor.device.type == "cpu" and tensor.is_contiguous() for tensor in tensors):
        return None
    return Stored(make(), *shape) if has_compiler() else None


def decoded(find: Callable[[], Stored | None], out: Tensor) -> bool:
    """Write the matrix that `find` gives into `out`; False, and nothing is written, if it gives none for this `out`."""
    if out.ndim != 2 or out.device.type != "cpu" or out.dtype not in WRITTEN or not out.is_contiguous():
        return False
    matrix = find() if out.numel() >= SMALLEST else None
    if matrix is None:
        return False
    matrix.decode(out)
    return True


def plain(numbers: Tensor) -> Stored | None:
    """A matrix of bfloat16 or float16; None for others."""
    if numbers.dtype == torch.bfloat16:
        return stored(lambda: layouts.Bfloats(layouts.array(numbers)), numbers.shape, numbers)
    if numbers.dtype == torch.float16:
        return stored(lambda: layouts.Halves(layouts.array(numbers)), numbers.shape, numbers)
    return None


def integers(codes: Tensor, absmax: Tensor, level: float) -> Stored | None:
    """A matrix of int8 [rows, columns] times float32 [rows] times a number."""
    return stored(
        lambda: layouts.Integers(layouts.array(codes), layouts.array(absmax), np.float32(level)),
        codes.shape,
        codes,
        absmax,
    )


def blocks(kind: str, rows: Tensor, columns: int) -> Stored | None:
    """A matrix of GGUF's blocks of a type, uint8 [rows, bytes]; None for types without a loop."""
    layout = layouts.BLOCKS.get(kind)
    if layout is None:
        return None
    tables = TABLES.get(kind, ())
    return stored(lambda: layout(layouts.array(rows), *(make() for make in tables)), (len(rows), columns), rows)


@lru_cache(maxsize=1)
def _kernels() -> Any:
    """The compiled loops; numba is imported with them."""
    from engine.model.products import kernels  # noqa: PLC0415

    return kernels
