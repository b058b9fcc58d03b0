"""Stored tensors as the arrays that compiled code reads, and the tables that some layouts hold besides these."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from engine.model.decoding.grids import grid, moved_grid, sign_patterns, spread_bits
from engine.model.products.layouts import Array, half_powers, levels


def array(tensor: Tensor) -> Array:
    """A tensor's memory as an array; numbers of 16 bits are seen as their bits, those of 8 as int8."""
    if tensor.dtype in {torch.bfloat16, torch.float16}:
        return tensor.view(torch.uint16).numpy()
    if tensor.dtype in {torch.float8_e4m3fn, torch.float8_e8m0fnu}:
        return tensor.view(torch.int8).numpy()
    return tensor.numpy()


def scales(tensor: Tensor) -> Array:
    """A tensor's memory as an array: float32, the bits of float16 as uint16, or those of bfloat16 as int16."""
    return tensor.view(torch.int16).numpy() if tensor.dtype == torch.bfloat16 else array(tensor)


CPU = torch.device("cpu")


def _table(make: Callable[..., Tensor], *arguments: Any) -> Callable[[], Array]:
    return lambda: array(make(*arguments, CPU))


_PATTERNS, _BITS = _table(sign_patterns), _table(spread_bits, 255, torch.uint8)

TABLES: dict[str, tuple[Callable[[], Array], ...]] = {
    "IQ4_NL": (partial(levels, "iq4"),),
    "IQ4_XS": (partial(levels, "iq4"),),
    "MXFP4": (partial(levels, "e2m1 doubled"), half_powers),
    "IQ1_S": (_table(moved_grid),),
    "IQ1_M": (_table(moved_grid),),
    "IQ2_XXS": (_table(grid, "IQ2_XXS"), _PATTERNS),
    "IQ2_XS": (_table(grid, "IQ2_XS"), _PATTERNS),
    "IQ2_S": (_table(grid, "IQ2_S"), _BITS),
    "IQ3_XXS": (_table(grid, "IQ3_XXS"), _PATTERNS),
    "IQ3_S": (_table(grid, "IQ3_S"), _BITS),
}
"""What layouts of blocks hold besides these."""
