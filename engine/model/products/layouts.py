"""How weights lie in memory: the arrays that compiled code reads, by a name for each way.

All are matrices [rows, columns] whose columns are a multiple of `UNIT`. Arrays share the memory of the stored tensors,
see `arrays`. Nothing here imports torch: processes that do nothing but compile have no need of it.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from engine.model.decoding.tables import NUMBERS

UNIT = 32  # numbers of a row that are decoded at once
TOGETHER = 32  # rows whose words may lie in one line of the cache, or that loops take together

Array = np.ndarray[Any, Any]

Unit = tuple[Any, Any, Any, Any]
"""In compiled code: four vectors of eight numbers."""


class Floats(NamedTuple):
    """float32 [rows, columns]."""

    numbers: Array


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


class Levels(NamedTuple):
    """Sixteen `levels` by codes of 4 bits, uint8 [rows, columns / 2], the first one high, times `absmax` float32.

    2 ** `block` numbers share an absmax; blocks run on across rows.
    """

    codes: Array
    absmax: Array
    block: int
    levels: Array


class NestedLevels(NamedTuple):
    """The same with an absmax in 8 bits: one of 256 `steps`, times `scales` float32, plus `offset`.

    2 ** `group` blocks share a scale.
    """

    codes: Array
    absmax: Array
    block: int
    levels: Array
    steps: Array
    scales: Array
    group: int
    offset: np.float32


class ScaledLevels(NamedTuple):
    """Sixteen `levels` by codes of 4 bits, uint8 [rows, columns / 2], the first one low.

    2 ** `group` columns share a scale: one of 256 `steps` by `scales` uint8 [rows, groups].
    """

    codes: Array
    levels: Array
    scales: Array
    steps: Array
    group: int


class Bytes(NamedTuple):
    """e4m3, its bits as int8 [rows, columns], times `scales` float32 [grid rows, grid columns] by 1/256.

    2 ** `block_rows` times 2 ** `block_columns` numbers share a scale.
    """

    codes: Array
    scales: Array
    block_rows: int
    block_columns: int


class Groups(NamedTuple):
    """Codes of 4 bits, uint8 [rows, columns / 2], the first one low, less 8, times `scales` [rows, groups].

    2 ** `group` columns share a scale, in float32, float16 or (its bits) bfloat16.
    """

    codes: Array
    scales: Array
    group: int


class GroupsWithZeros(NamedTuple):
    """The same less zero points of 4 bits: `zeros` int32 [words, groups], each those of eight rows, plus `offset`."""

    codes: Array
    scales: Array
    group: int
    zeros: Array
    offset: int


class GroupsWithOwnZeros(NamedTuple):
    """The same less zero points of 4 bits: `zeros` int32 [rows, words], each those of eight groups of a row."""

    codes: Array
    scales: Array
    group: int
    zeros: Array


class TurnedGroups(NamedTuple):
    """Codes of 4 bits in `words` int32 [columns / 8, rows], of eight columns each, less zero points, times scales.

    `group` columns share `scales` [groups, rows], as above, and `zeros` int32 [groups, rows / 8], each those of eight
    rows, plus `offset`.
    """

    words: Array
    scales: Array
    group: int
    zeros: Array
    offset: int


class Outputs(NamedTuple):
    """Codes of 4 bits less 8, times scales: `words` int32 [columns, rows / 8], each of eight rows as AutoAWQ has them.

    `group` columns share `scales` [groups, rows], as above.
    """

    words: Array
    scales: Array
    group: int


class OutputsWithZeros(NamedTuple):
    """The same less zero points: `zeros` int32 [groups, rows / 8], in words alike."""

    words: Array
    scales: Array
    group: int
    zeros: Array


class Q40(NamedTuple):
    """GGUF's Q4_0: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q41(NamedTuple):
    """GGUF's Q4_1: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q50(NamedTuple):
    """GGUF's Q5_0: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q51(NamedTuple):
    """GGUF's Q5_1: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q80(NamedTuple):
    """GGUF's Q8_0: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q2K(NamedTuple):
    """GGUF's Q2_K: uint8 [rows, bytes], block behind block."""

    blocks: Array


class Q3K(NamedTuple):
    """GGUF's Q3_K: uint8 [rows, bytes], block behind block."""

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


class Iq2Xxs(NamedTuple):
    """GGUF's IQ2_XXS, its `grid` int64 [256] of eight numbers an item, and `signs` of eight by index, int64 [128]."""

    blocks: Array
    grid: Array
    signs: Array


class Iq2Xs(NamedTuple):
    """GGUF's IQ2_XS, its `grid` int64 [512] of eight numbers an item, and `signs` of eight by index, int64 [128]."""

    blocks: Array
    grid: Array
    signs: Array


class Iq2S(NamedTuple):
    """GGUF's IQ2_S, its `grid` int64 [1024] of eight numbers an item, and `signs` of eight by index, int64 [256]."""

    blocks: Array
    grid: Array
    signs: Array


class Iq3Xxs(NamedTuple):
    """GGUF's IQ3_XXS, its `grid` int32 [256] of four numbers an item, and `signs` of eight by index, int64 [128]."""

    blocks: Array
    grid: Array
    signs: Array


class Iq3S(NamedTuple):
    """GGUF's IQ3_S, its `grid` int32 [512] of four numbers an item, and `signs` of eight by index, int64 [256]."""

    blocks: Array
    grid: Array
    signs: Array


class Iq1S(NamedTuple):
    """GGUF's IQ1_S, and its `grid` int64 [4096]: eighths of eight numbers moved up, behind them all moved down."""

    blocks: Array
    grid: Array


class Iq1M(NamedTuple):
    """GGUF's IQ1_M, and its `grid` int64 [4096]: eighths of eight numbers moved up, behind them all moved down."""

    blocks: Array
    grid: Array


class Mxfp4(NamedTuple):
    """GGUF's MXFP4, the sixteen `levels` of its codes, and what each byte stands for as a scale, float32 `steps`."""

    blocks: Array
    levels: Array
    steps: Array


BLOCKS: dict[str, type[Any]] = {
    "Q4_0": Q40,
    "Q4_1": Q41,
    "Q5_0": Q50,
    "Q5_1": Q51,
    "Q8_0": Q80,
    "Q2_K": Q2K,
    "Q3_K": Q3K,
    "Q4_K": Q4K,
    "Q5_K": Q5K,
    "Q6_K": Q6K,
    "IQ4_NL": Iq4Nl,
    "IQ4_XS": Iq4Xs,
    "IQ1_S": Iq1S,
    "IQ1_M": Iq1M,
    "IQ2_XXS": Iq2Xxs,
    "IQ2_XS": Iq2Xs,
    "IQ2_S": Iq2S,
    "IQ3_XXS": Iq3Xxs,
    "IQ3_S": Iq3S,
    "MXFP4": Mxfp4,
}
"""By the name of the blocks' type."""

ROUNDED = frozenset({Q2K, Q3K, Q4K, Q5K, Q6K, Q40, Q41, Q50, Q51, Mxfp4})
"""Those with which rows in 8 bits are multiplied: see `loops.rounded`."""


def places(size: int) -> int | None:
    """Which power of two a size is; None for others."""
    return size.bit_length() - 1 if size > 0 and not size & (size - 1) else None


@lru_cache
def levels(kind: str) -> Array:
    """The sixteen numbers that codes of 4 bits stand for, by a key of `NUMBERS`: float32 [32].

    Behind them lie the same bytes: first the lowest of each number, at last the highest.
    """
    numbers = np.array(NUMBERS[kind], np.dtype("<f4"))
    planes = np.ascontiguousarray(numbers.view(np.uint8).reshape(16, 4).T)
    return np.concatenate([numbers, planes.reshape(-1).view(np.float32)])


@lru_cache
def half_powers() -> Array:
    """Half of 2 ** (exponent - 127) for every byte, float32 [256]; the two smallest are subnormal."""
    return np.ldexp(np.float32(1), np.arange(256) - 128)
