"""Matrices that lie with all outputs of an input side by side: products and decoding by loops of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from engine.model.products import arrays, layouts
from engine.model.products.product import Batch, Stored, stored

MOST_IN_GROUP = 1 << 12  # columns: more would leave the caches while they are decoded


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
