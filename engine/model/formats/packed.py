"""Weights that checkpoints store packed: several stored tensors, which a format decodes into one weight."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from engine.model.safetensors_header import TensorInfo

if TYPE_CHECKING:
    from torch import Tensor

    from engine.model.products.product import Product

WHOLE_NUMBERS = "I64"  # the name of the format of numbers that stay whole in the network


class PackedFormat(Protocol):
    """Decodes packed weights. Implementations are frozen dataclasses: their fields say which variant it is."""

    @property
    def name(self) -> str:
        """What people call the format, such as `FP8` or `Q4_K`."""

    def decode(self, parts: "Mapping[str, Tensor]", out: "Tensor") -> None:
        """Write the weight into `out`, of its shape, any strides, and float32, bfloat16 or float16.

        `parts` are the stored tensors as they lie in the file, by their names in `PackedWeight.parts`, on the device of
        `out`.
        Numbers are computed in float32 and rounded once to `out`'s type. Temporaries stay within a chunk of rows. The
        bits depend on `parts` and `out`'s type alone: not on device, threads or chunks. Never raises for any content
        of `parts`: shapes and types were checked when the weight was found.
        """

    def product(self, parts: "Mapping[str, Tensor]", shape: tuple[int, int]) -> "Product | None":
        """The matrix of this shape, to be multiplied as it is stored, on the CPU; None where it has to be decoded."""


@runtime_checkable
class TurnedFormat(Protocol):
    """A format of which some weights lie with their last two dimensions turned: as loops multiply them."""

    def turned_product(self, parts: "Mapping[str, Tensor]", shape: tuple[int, int]) -> "Product | None":
        """The turned weight, a matrix of this shape, see `PackedFormat.product`; `parts` are those of one matrix."""


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """One weight under the name that an unpacked checkpoint of the model would give it.

    `shape` is that of its numbers, or only how many they are (`is_flat`); `parts` the stored tensors by
    their role in the format, such as `weight`, `scale`.
    """

    name: str
    shape: tuple[int, ...]
    parts: Mapping[str, TensorInfo]
    format: PackedFormat

    @property
    def elements(self) -> int:
        """Numbers in the weight."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts, as they are stored."""
        return sum(part.nbytes for part in self.parts.values())

    @property
    def is_flat(self) -> bool:
        """Whether only the number of its numbers is known, because the shape lies in a part of a file that is not here.

        Two numbers in a byte may be one too many.
        """
        return len(self.shape) == 1

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers in 64 bits, in the network as well."""
        return self.format.name == WHOLE_NUMBERS

    @property
    def is_stack(self) -> bool:
        """Whether it is a stack of matrices, [count, ...], each of which is decoded from its own rows of all parts."""
        stacked = [part.shape[:1] == self.shape[:1] for part in self.parts.values()]
        return len(self.shape) > 2 and all(stacked)

    def rows(self, begin: int, end: int) -> "PackedWeight":
        """Members [begin, end) of a stack, as one."""
        parts = {role: part.rows(begin, end) for role, part in self.parts.items()}
        return replace(self, shape=(end - begin, *self.shape[1:]), parts=parts)

    def member(self, index: int) -> "PackedWeight":
        """One member of a stack: a matrix, where no part of it is a vector, else a stack of one."""
        found = self.rows(index, index + 1)
        if len(self.shape) != 3 or any(len(part.shape) < 3 for part in self.parts.values()):
            return found
        parts = {role: replace(part, shape=part.shape[1:]) for role, part in found.parts.items()}
        return replace(found, shape=found.shape[1:], parts=parts)
