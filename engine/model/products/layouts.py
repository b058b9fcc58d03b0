"""How weights lie in memory: the arrays that compiled code reads, by a name for each way.

All are matrices [rows, columns] whose columns are a multiple of `UNIT`. Arrays share the memory of the stored tensors.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

UNIT = 32  # numbers of a row that are decoded at once

Array = np.ndarray[Any, Any]


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


class Blocks(NamedTuple):
    """Base of the ways of GGUF: uint8 [rows, bytes], block behind block."""

    blocks: Array


def array(tensor: Tensor) -> Array:
    """A tensor's memory as an array; numbers of 16 bits are seen as their bits, those of 8 as int8."""
    if tensor.dtype in {torch.bfloat16, torch.float16}:
        return tensor.view(torch.uint16).numpy()
    return tensor.numpy()
