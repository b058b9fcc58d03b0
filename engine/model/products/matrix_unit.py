"""Whether this processor has a unit that multiplies tiles of bfloat16 (AMX), and rows as such tiles.

A tile is 16 rows of 64 bytes. One instruction adds the products of 16 rows of a weight, 32 columns of each, with 16
rows of x to 256 sums in float32. So passes of up to some 32 rows cost about as much as decoding the weight to bfloat16;
fewer rows than `TILED_FROM` are multiplied sooner by loops for float32, which hold what they decode in registers.
"""

import ctypes
import platform
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.model.products.compiling import has_compiler

TILE_ROWS, TILE_COLUMNS = 16, 32
TILED_FROM = 5  # as measured of blocks of all usual kinds: 4 rows take as long either way
NEEDED = frozenset({"amx-tile", "amx-bf16", "avx512bf16", "avx512vl", "avx512bw"})
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18  # Linux on x86-64; see its documentation of xstate


@lru_cache(maxsize=1)
def has_tiles() -> bool:
    """Whether compiled code may use such a unit: the system lets a process do so that has asked for it."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64" or not has_compiler():
        return False
    from numba.core.registry import cpu_target  # noqa: PLC0415  # it may compile for less than what is here

    features = set(cpu_target.target_context.codegen().magic_tuple()[2].split(","))
    return {f"+{name}" for name in NEEDED} <= features and _is_permitted()


def _is_permitted() -> bool:
    try:
        return bool(ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0)
    except (OSError, AttributeError):
        return False


def in_tiles(x: Tensor, runs: Sequence[tuple[int, int]] = ()) -> Tensor:
    """Rows of x, bfloat16 [rows, columns], contiguous, as the second factor of products of tiles.

    int16 [tiles of rows, tiles of columns, 16 pairs of columns x 16 rows x 2], the last rows filled up with zeros.
    `runs`: rows [begin, end) of x that have tiles of their own, one run behind the other; all rows unless given.
    """
    some = np.array(runs or [(0, len(x))], np.int64)
    count, steps = int((-(-(some[:, 1] - some[:, 0]) // TILE_ROWS)).sum()), x.shape[1] // TILE_COLUMNS
    tiles = torch.empty(count, steps, TILE_ROWS * TILE_COLUMNS, dtype=torch.int16)
    _loops().fill_tiles(x.view(torch.int32).numpy(), some, tiles.view(torch.int32).numpy())
    return tiles


@lru_cache(maxsize=1)
def _loops() -> Any:
    """What is compiled; numba is imported with it."""
    from engine.model.products.loops import tiles  # noqa: PLC0415

    return tiles
