"""The loop for processors that multiply pairs of bfloat16 (AVX-512 BF16), but have no matrix unit.

One instruction adds the products of 32 columns to sixteen sums in float32, of two columns each: twice as many as of
float32. A matrix is rounded to bfloat16, as it is where it is decoded for torch's products in that type. Sums are made
in the same order for every row, so that its bits depend neither on the other rows nor on threads.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array
from engine.model.products.units.bfloat_units import (
    added_pairs,
    bfloats_at,
    bfloats_of,
    find_factors,
    store_bfloats,
    write_units,
)
from engine.model.products.units.by_layout import SHARED, bytes_of_a_row
from engine.model.products.units.sixteen import many_store, many_total, sixteen_numbers
from engine.model.products.vectors import fetch

WIDE = 32  # columns that are multiplied at once
HALF = WIDE // 2  # sums
QUAD, GROUP = 4, 8  # rows of the matrix that go through a tile, and that are decoded for all rows of x
FEW_NUMBERS = 10 << 16  # of x: so many, 1.25 MiB, stay in most second-level caches from group to group
WIDER = 4  # times as many rows of the matrix are decoded where x has more
BLOCK = 1024  # columns of them at a time: 16 KiB, which stay in the first-level cache
WIDTH = BLOCK + WIDE  # of a decoded row in memory: rows of a tile must not fall into the same set of a cache
SHARING = 8  # units whose scales are found at once
LINE = 64  # bytes that come from memory together


Quad = tuple[int, int, int, int]
"""Where four rows of the matrix lie."""


@compiled
def paired_rows(parts: Any, packed: Array, y: Array, begin: int, end: int) -> None:
    """x of two rows and more, see `pack`, times rows [begin, end) of the matrix, into y float32 [rows, all rows].

    A block of the matrix is decoded once for all rows of x. Partial sums of a group of rows are kept from block to
    block: [quad, row of x, row of the quad, 16].
    """
    rows, size = len(y), bytes_of_a_row(parts)
    columns = len(packed) // rows
    group = GROUP if len(packed) <= FEW_NUMBERS else WIDER * GROUP
    memory, room = np.empty(group * WIDTH + WIDE, np.uint16), np.empty(group * rows * HALF + HALF, np.float32)
    weights, sums = memory[-memory.ctypes.data % LINE // 2 :], room[-room.ctypes.data % LINE // 4 :]
    source, scales, tiles = _numbers(parts, weights), np.empty(SHARED, np.float32), _threes(rows) + _twos(rows)
    for row in range(begin, end, group):
        count = min(group, end - row)
        sums[:] = 0
        for block in range(0, columns, BLOCK):
            width = min(BLOCK, columns - block)
            place, step = _bring(parts, row, count, block, width, scales, weights)
            ahead, part = (row + group) * size + group * size * block // columns, group * size * width // columns
            part = part * QUAD // (group * tiles)
            for quad in range(0, count, QUAD):
                second, third, last = min(quad + 1, count - 1), min(quad + 2, count - 1), min(quad + 3, count - 1)
                four = place + quad * step, place + second * step, place + third * step, place + last * step
                s = quad * rows * HALF
                _multiply(source, four, packed, rows * block, sums, s, rows, width // WIDE, parts[0], (ahead, part))
                ahead += part * tiles
        _write_totals(sums, y, row, row + count)


@compiled
def _threes(rows: int) -> int:
    """How many tiles of three rows of x there are; two more rows, or four, are in tiles of two."""
    return rows // 3 - (rows % 3 == 1)


@compiled
def _twos(rows: int) -> int:
    return (rows - 3 * _threes(rows)) // 2


@compiled
def pack(x: Array, runs: Array, packed: Array) -> None:
    """Write rows of x, bfloat16 in bits [rows, columns], as tiles read them: each of `runs` behind the other.

    A run is rows [begin, end), two and more: [block, tile, columns by 32, row of the tile, 32].
    """
    at, none = 0, np.empty(0, np.int64)
    for run in range(len(runs)):
        for block in range(0, x.shape[1], BLOCK):
            at = _pack_block(x, none, runs[run, 0], runs[run, 1], block, packed, at)


@compiled
def pack_wide(x: Array, numbers: Array, packed: Array, begin: int, end: int) -> None:
    """The same of blocks [begin, end) of all rows of x, float32, which are one run; `numbers`: see `kernels.pack`."""
    at = len(x) * BLOCK * begin
    for block in range(BLOCK * begin, min(BLOCK * end, x.shape[1]), BLOCK):
        at = _pack_block(x, numbers, 0, len(x), block, packed, at)


@compiled
def _pack_block(x: Array, numbers: Array, begin: int, end: int, block: int, packed: Array, at: int) -> int:
    r, twos = begin, begin + 3 * _threes(end - begin)
    while r < end:
        after = r + (3 if r < twos else 2)
        for i in range(block, min(block + BLOCK, x.shape[1]), WIDE):
            for each in range(r, after):
                store_bfloats(packed, at, _some(x[numbers[each] if len(numbers) else each], i))
                at += WIDE
        r = after
    return at


def _some(line: Array, i: int) -> Any:
    """Thirty-two numbers, as bfloat16."""
    raise NotImplementedError


def _rounded(line: Array, i: int) -> Any:
    return bfloats_of(sixteen_numbers(line, i), sixteen_numbers(line, i + HALF))


def _as_they_are(line: Array, i: int) -> Any:
    return bfloats_at(line, i)


def _some_of(line: Array, i: int) -> Callable[..., Any]:
    del i
    return _rounded if line.dtype is types.float32 else _as_they_are


overload(_some)(_some_of)


def _numbers(parts: Any, weights: Array) -> Array:
    """Where tiles read the matrix: what `_bring` writes it into, or the matrix itself."""
    raise NotImplementedError


def _bring(parts: Any, row: int, count: int, block: int, width: int, scales: Array, weights: Array) -> tuple[int, int]:
    """Have columns [block, block + width) of so many rows in `_numbers`: where these begin, and from row to row."""
    raise NotImplementedError


def _decode(parts: Any, row: int, count: int, block: int, width: int, scales: Array, weights: Array) -> tuple[int, int]:
    for each in range(count):
        i, end = each * WIDTH, (block + width) // UNIT
        for unit in range(block // UNIT, end, SHARING):
            find_factors(parts, row + each, unit, scales)
            write_units(parts, row + each, unit, min(unit + SHARING, end), scales, weights, i)
            i += SHARING * UNIT
    return 0, WIDTH


def _stay(parts: Any, row: int, count: int, block: int, width: int, scales: Array, weights: Array) -> tuple[int, int]:  # noqa: ARG001  # numba looks at names
    columns = parts.numbers.shape[1]
    return row * columns + block, columns


def _matrix(parts: Any, weights: Array) -> Array:  # noqa: ARG001  # numba looks at names
    return parts.numbers.reshape(-1)  # type: ignore[no-any-return]


def _memory(parts: Any, weights: Array) -> Array:  # noqa: ARG001
    return weights


def _numbers_of(parts: Any, weights: Array) -> Callable[..., Array]:
    del weights
    return _matrix if parts.instance_class is layouts.Bfloats else _memory


def _bringing(
    parts: Any, row: int, count: int, block: int, width: int, scales: Array, weights: Array
) -> Callable[..., tuple[int, int]]:
    del row, count, block, width, scales, weights
    return _stay if parts.instance_class is layouts.Bfloats else _decode


overload(_numbers)(_numbers_of)
overload(_bring)(_bringing)


@compiled
def _multiply(
    weights: Array,
    four: Quad,
    x: Array,
    i: int,
    sums: Array,
    s: int,
    rows: int,
    steps: int,
    matrix: Array,
    asked: tuple[int, int],
) -> None:
    """Products of a block of four rows of the matrix with all rows of x, whose block begins at i.

    Between the tiles memory is asked for a part of what comes later in the matrix: from which byte on, and how much.
    """
    threes, twos, (ahead, part) = _threes(rows), _twos(rows), asked
    for tile in range(threes + twos):
        for place in range(ahead, ahead + part, LINE):
            fetch(matrix, place)
        ahead += part
        if tile < threes:
            _tile_of_three(weights, four, x, i, sums, s, steps)
            i += 3 * WIDE * steps
            s += 3 * QUAD * HALF
        else:
            _tile_of_two(weights, four, x, i, sums, s, steps)
            i += 2 * WIDE * steps
            s += 2 * QUAD * HALF


@compiled
def _tile_of_three(weights: Array, four: Quad, x: Array, i: int, sums: Array, s: int, steps: int) -> None:
    """Four rows of the matrix, a to d, times three of x."""
    a0, b0, c0, d0 = _four(sums, s)
    a1, b1, c1, d1 = _four(sums, s + QUAD * HALF)
    a2, b2, c2, d2 = _four(sums, s + 2 * QUAD * HALF)
    a, b, c, d = four
    for step in range(0, WIDE * steps, WIDE):
        x0, x1, x2 = bfloats_at(x, i), bfloats_at(x, i + WIDE), bfloats_at(x, i + 2 * WIDE)
        some = bfloats_at(weights, a + step)
        a0, a1, a2 = added_pairs(some, x0, a0), added_pairs(some, x1, a1), added_pairs(some, x2, a2)
        some = bfloats_at(weights, b + step)
        b0, b1, b2 = added_pairs(some, x0, b0), added_pairs(some, x1, b1), added_pairs(some, x2, b2)
        some = bfloats_at(weights, c + step)
        c0, c1, c2 = added_pairs(some, x0, c0), added_pairs(some, x1, c1), added_pairs(some, x2, c2)
        some = bfloats_at(weights, d + step)
        d0, d1, d2 = added_pairs(some, x0, d0), added_pairs(some, x1, d1), added_pairs(some, x2, d2)
        i += 3 * WIDE
    _store_four(sums, s, a0, b0, c0, d0)
    _store_four(sums, s + QUAD * HALF, a1, b1, c1, d1)
    _store_four(sums, s + 2 * QUAD * HALF, a2, b2, c2, d2)


@compiled
def _tile_of_two(weights: Array, four: Quad, x: Array, i: int, sums: Array, s: int, steps: int) -> None:
    """The same with two rows of x."""
    a0, b0, c0, d0 = _four(sums, s)
    a1, b1, c1, d1 = _four(sums, s + QUAD * HALF)
    a, b, c, d = four
    for step in range(0, WIDE * steps, WIDE):
        x0, x1 = bfloats_at(x, i), bfloats_at(x, i + WIDE)
        some = bfloats_at(weights, a + step)
        a0, a1 = added_pairs(some, x0, a0), added_pairs(some, x1, a1)
        some = bfloats_at(weights, b + step)
        b0, b1 = added_pairs(some, x0, b0), added_pairs(some, x1, b1)
        some = bfloats_at(weights, c + step)
        c0, c1 = added_pairs(some, x0, c0), added_pairs(some, x1, c1)
        some = bfloats_at(weights, d + step)
        d0, d1 = added_pairs(some, x0, d0), added_pairs(some, x1, d1)
        i += 2 * WIDE
    _store_four(sums, s, a0, b0, c0, d0)
    _store_four(sums, s + QUAD * HALF, a1, b1, c1, d1)


@compiled
def _four(sums: Array, s: int) -> Any:
    return (
        sixteen_numbers(sums, s),
        sixteen_numbers(sums, s + HALF),
        sixteen_numbers(sums, s + 2 * HALF),
        sixteen_numbers(sums, s + 3 * HALF),
    )


@compiled
def _store_four(sums: Array, s: int, a: Any, b: Any, c: Any, d: Any) -> None:
    many_store(sums, s, a)
    many_store(sums, s + HALF, b)
    many_store(sums, s + 2 * HALF, c)
    many_store(sums, s + 3 * HALF, d)


@compiled
def _write_totals(sums: Array, y: Array, begin: int, end: int) -> None:
    """Sums of at most a group of rows of the matrix, for all rows of x."""
    rows = len(y)
    for r in range(rows):
        for row in range(begin, end):
            each = row - begin
            s = (each // QUAD * rows + r) * QUAD * HALF + each % QUAD * HALF
            y[r, row] = many_total(sixteen_numbers(sums, s))
