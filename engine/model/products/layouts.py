"""How weights lie in memory: the arrays that compiled code reads, by a name for each way.

All are matrices [rows, columns] whose columns are a multiple of `UNIT`. Arrays share the memory of the stored tensors.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.model.decoding.lookup import NUMBERS

UNIT = 32  # numbers of a row that are decoded at once

Array = np.ndarray[Any, Any]

Unit = tuple[Any, Any, Any, Any]
"""In compiled code: four vectors of eight numbers."""


class Bfloats(NamedTuple):
    """bfloat16, its bits as uint16 [rows, columns]."""

    numbers: Array


class Halves(NamedTuple):
    """float16, its bits as uint16 [rows, columns]."""

    numbers: Array


class Integers(NamedTuple):
    """int8 `codes` [rows, columns] times `absmax` float32 [rows], times `level`."""

    codes: Array
    absmax: Array
    level: np.float32


class Q40(NamedTuple):
    """GGUF's Q4_0: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q41(NamedTuple):
    """GGUF's Q4_1: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q80(NamedTuple):
    """GGUF's Q8_0: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q4K(NamedTuple):
    """GGUF's Q4_K: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q5K(NamedTuple):
    """GGUF's Q5_K: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q6K(NamedTuple):
    """GGUF's Q6_K: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Iq4Nl(NamedTuple):
    """GGUF's IQ4_NL, and the sixteen `levels` of its codes, float32."""

    blocks: Array
    levels: Array


class Iq4Xs(NamedTuple):
    """GGUF's IQ4_XS, with the same levels."""

    blocks: Array
    levels: Array


BLOCKS: dict[str, type[Any]] = {
    "Q4_0": Q40,
    "Q4_1": Q41,
    "Q8_0": Q80,
    "Q4_K": Q4K,
    "Q5_K": Q5K,
    "Q6_K": Q6K,
    "IQ4_NL": Iq4Nl,
    "IQ4_XS": Iq4Xs,
}
"""By the name of the blocks' type."""


def array(tensor: Tensor) -> Array:
    """A tensor's memory as an array; numbers of 16 bits are seen as their bits, those of 8 as int8."""
    if tensor.dtype in {torch.bfloat16, torch.float16}:
        return tensor.view(torch.uint16).numpy()
    return tensor.numpy()


@lru_cache
def levels(kind: str) -> Array:
    """The sixteen numbers that codes of 4 bits stand for, float32, by a key of `NUMBERS`."""
    return np.array(NUMBERS[kind], np.float32)
