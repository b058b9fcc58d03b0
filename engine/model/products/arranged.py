"""Matrices that lie otherwise than they are multiplied: in parts, in another order, or with outputs side by side.

Those with all outputs of an input side by side have loops of their own.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, overload

import torch
from torch import Tensor

from engine.model.products import arrays, layouts
from engine.model.products.compiling import has_compiler
from engine.model.products.product import Batch, Product, Stored, native, stored, times_all

MOST_IN_GROUP = 1 << 12  # columns: more would leave the caches while they are decoded


@dataclass(frozen=True, slots=True)
class Joined:
    """Matrices of the same columns, one below the other."""

    matrices: Sequence[Product]

    def __call__(self, x: Tensor) -> Tensor:
        """See `Product`."""
        return times_all([self], x)[0]

    def wide(self, x: Tensor) -> Tensor | None:
        """See `Product`."""
        found = [each for matrix in self.matrices if (each := matrix.wide(x)) is not None]
        return torch.cat(found, dim=1) if len(found) == len(self.matrices) else None

    def begin(self, x: Tensor, batch: Batch) -> Callable[[], Tensor]:
        """See `Product`."""
        found = [matrix.begin(x, batch) for matrix in self.matrices]
        return lambda: torch.cat([each() for each in found], dim=1)


@dataclass(frozen=True, slots=True)
class Alternating:
    """Matrices of the same shape, a row of each in turns."""

    matrices: Sequence[Product]

    def __call__(self, x: Tensor) -> Tensor:
        """See `Product`."""
        return times_all([self], x)[0]

    def wide(self, x: Tensor) -> Tensor | None:
        """See `Product`."""
        found = [each for matrix in self.matrices if (each := matrix.wide(x)) is not None]
        return torch.stack(found, dim=-1).flatten(-2) if len(found) == len(self.matrices) else None

    def begin(self, x: Tensor, batch: Batch) -> Callable[[], Tensor]:
        """See `Product`."""
        found = [matrix.begin(x, batch) for matrix in self.matrices]
        return lambda: torch.stack([each() for each in found], dim=-1).flatten(-2)


@dataclass(frozen=True, slots=True)
class Woven:
    """A matrix whose rows are stored, in each of the `heads`, with those of both halves in turns."""

    matrix: Product
    heads: int

    def __call__(self, x: Tensor) -> Tensor:
        """See `Product`."""
        return times_all([self], x)[0]

    def begin(self, x: Tensor, batch: Batch) -> Callable[[], Tensor]:
        """See `Product`."""
        found = self.matrix.begin(x, batch)
        return lambda: self._woven(found())

    def wide(self, x: Tensor) -> Tensor | None:
        """See `Product`."""
        found = self.matrix.wide(x)
        return None if found is None else self._woven(found)

    def _woven(self, y: Tensor) -> Tensor:
        return y.reshape(len(y), self.heads, -1, 2).transpose(2, 3).reshape(y.shape)


@dataclass(frozen=True, slots=True)
class Outputs(Stored):
    """A matrix [rows, columns] in one of the layouts that `output_kernels` multiply: rows in eights."""

    @property
    def takes_bfloats(self) -> bool:
        """No: see `wide`."""
        return False

    def begin(self, x: Tensor, batch: Batch) -> Callable[[], Tensor]:
        """See `Product`."""
        return Stored.begin(self, batch.keep(x.float()), batch)

    def wide(self, x: Tensor) -> Tensor | None:
        """None: a block of rows would touch every line of the cache that holds codes."""
        del x
        return None

    def decode(self, out: Tensor) -> None:
        """See `Stored.decode`."""
        kernels, batch = _kernels(), Batch()
        decode = kernels.decode if out.dtype == torch.float32 else kernels.decode_bfloats
        batch.add(partial(decode, self.parts, arrays.array(out)), self.rows, self.columns)
        batch.run()


@overload
def rounding(product: Product, keeps_few: bool = False) -> Product: ...


@overload
def rounding(product: None, keeps_few: bool = False) -> None: ...


def rounding(product: Product | None, keeps_few: bool = False) -> Product | None:
    """The same product with rows of float32, which are all that it is handed, rounded to 8 bits as far as loops do it.

    See `loops.rounded`. `keeps_few`: see `Stored`.
    """
    if isinstance(product, Stored):
        return product.rounding(keeps_few)
    if isinstance(product, Joined | Alternating):
        return type(product)([rounding(matrix, keeps_few) for matrix in product.matrices])
    return Woven(rounding(product.matrix, keeps_few), product.heads) if isinstance(product, Woven) else product


def rounds_blocks(kinds: Iterable[str]) -> bool:
    """Whether rows are multiplied in 8 bits here with GGUF's blocks of one of these types."""
    found = layouts.ROUNDED & {layouts.BLOCKS.get(kind) for kind in kinds}
    return bool(found) and has_compiler() and native().rounded.is_able()


def outputs(make: Callable[[], Any], shape: Sequence[int], group: int, *tensors: Tensor) -> Outputs | None:
    """A matrix in the layout that `make` gives; None as of `stored`."""
    if shape[0] % 8 or not 0 < group <= MOST_IN_GROUP or group % layouts.UNIT or tensors[0].dtype != torch.int32:
        return None
    found = stored(make, shape, *tensors)
    return None if found is None else Outputs(found.parts, found.rows, found.columns)


@lru_cache(maxsize=1)
def _kernels() -> Any:
    """The compiled loops; numba is imported with them."""
    from engine.model.products.loops import output_kernels  # noqa: PLC0415

    return output_kernels
