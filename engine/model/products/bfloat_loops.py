"""How this processor multiplies several rows of bfloat16, and rows of x as such loops read them.

A matrix unit (AMX) adds the products of 16 rows of a weight, 32 columns of each, with 16 rows of x to 256 sums in
float32: a tile. So passes of up to some 32 rows cost about as much as decoding the weight to bfloat16. Other processors
with AVX-512 multiply pairs (AVX-512 BF16): twice as many products as of float32.
"""

import ctypes
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.model.products.compiling import has_compiler

if TYPE_CHECKING:
    from torch import Tensor

TILE_ROWS, TILE_COLUMNS = 16, 32
PAIRED = frozenset({"avx512f", "avx512bf16", "avx512vl", "avx512bw"})
TILED = PAIRED | {"amx-tile", "amx-bf16"}
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18  # Linux on x86-64; see its documentation of xstate

Runs = Sequence[tuple[int, int]]
"""Rows [begin, end) of x, one run behind the other; those of each are multiplied with one matrix."""


@dataclass(frozen=True, slots=True)
class BfloatLoop:
    """A loop for several rows of bfloat16.

    `kind`: of x, see `native.loop_of`. `from_rows`: fewer are multiplied sooner by loops for float32. `together`: rows
    of x that lie together; the last ones of a run are filled up. `leaves_plain`: whether torch's product is left what
    is stored in bfloat16. `arrange`: rows of x as the loop reads them, [rows by `together` of all runs, ...].
    """

    kind: str
    from_rows: int
    together: int
    leaves_plain: bool
    arrange: "Callable[[Tensor, Runs], Tensor]"


def loop_for(x: "Tensor") -> BfloatLoop | None:
    """The one for rows of x; None where they are multiplied in float32."""
    import torch  # noqa: PLC0415

    loop = bfloat_loop() if x.dtype == torch.bfloat16 else None
    return loop if loop is not None and len(x) >= loop.from_rows else None


def in_tiles(x: "Tensor", runs: Runs = ()) -> "Tensor":
    """Rows of x, bfloat16 [rows, columns], contiguous, as the second factor of products of tiles.

    int16 [tiles of rows, tiles of columns, 16 pairs of columns x 16 rows x 2], the last rows filled up with zeros. Each
    of `runs` has tiles of its own; all rows are one run unless given.
    """
    import torch  # noqa: PLC0415  # not where nothing is done but compile

    some = np.array(runs or [(0, len(x))], np.int64)
    count, steps = int((-(-(some[:, 1] - some[:, 0]) // TILE_ROWS)).sum()), x.shape[1] // TILE_COLUMNS
    tiles = torch.empty(count, steps, TILE_ROWS * TILE_COLUMNS, dtype=torch.int16)
    _tiles().fill_tiles(x.view(torch.int32).numpy(), some, tiles.view(torch.int32).numpy())
    return tiles


def in_pairs(x: "Tensor", runs: Runs = ()) -> "Tensor":
    """Rows of x, bfloat16 [rows, columns], contiguous, as loops for pairs read them: see `loops.pairs.pack`.

    int16 [rows of all runs, columns], whose numbers lie otherwise than in rows; runs are of two rows and more.
    """
    import torch  # noqa: PLC0415  # not where nothing is done but compile

    some = np.array(runs or [(0, len(x))], np.int64)
    packed = torch.empty(int((some[:, 1] - some[:, 0]).sum()), x.shape[1], dtype=torch.int16)
    _pairs().pack(x.view(torch.uint16).numpy(), some, packed.view(torch.uint16).view(-1).numpy())
    return packed


TILES = BfloatLoop("tiled", from_rows=5, together=TILE_ROWS, leaves_plain=True, arrange=in_tiles)
PAIRS = BfloatLoop("paired", from_rows=2, together=1, leaves_plain=False, arrange=in_pairs)


@lru_cache(maxsize=1)
def bfloat_loop() -> BfloatLoop | None:
    """The one for this processor; None where rows of bfloat16 are multiplied in float32."""
    if platform.machine() not in {"x86_64", "AMD64"} or not has_compiler():
        return None
    from numba.core.registry import cpu_target  # noqa: PLC0415  # it may compile for less than what is here

    features = set(cpu_target.target_context.codegen().magic_tuple()[2].split(","))
    if {f"+{name}" for name in TILED} <= features and _may_use_tiles():
        return TILES
    return PAIRS if {f"+{name}" for name in PAIRED} <= features else None


def _may_use_tiles() -> bool:
    """Whether the system lets this process use the matrix unit, for which it has to be asked."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0)
    except (OSError, AttributeError):
        return False


@lru_cache(maxsize=1)
def _tiles() -> Any:
    """What is compiled; numba is imported with it."""
    from engine.model.products.loops import tiles  # noqa: PLC0415

    return tiles


@lru_cache(maxsize=1)
def _pairs() -> Any:
    """The same."""
    from engine.model.products.loops import pairs  # noqa: PLC0415

    return pairs
