"""The loops: products of one row and of several with a matrix in any layout, and its decoding.

A row's sum is made in the same order in all of them (`WIDE` partial sums, added up at the end), so that its bits depend
neither on how many rows there are nor on how a matrix is shared out among threads. (One row has another loop where a
layout's weights are whole numbers: `whole_numbers`.)

Memory is asked for what is multiplied next: processors see several rows that are read at once less well ahead.
"""

from typing import Any

import numpy as np

from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array, Unit
from engine.model.products.units.by_layout import SHARED, bare_unit, bytes_of_a_row, factor, find_scales, unit
from engine.model.products.units.sixteen import WIDE, wide_fused, wide_numbers, wide_store, wide_total
from engine.model.products.vectors import fetch, fused, numbers, plus, splat, store, total

GROUP = 8  # rows of the matrix that are decoded for all rows of x: quads of which each goes through a tile
FEW_NUMBERS = 5 << 16  # of x: so many, 1.25 MiB, stay in most second-level caches from group to group
WIDER = 4  # times as many rows of the matrix are decoded where x has more, as it comes from farther away each time
BLOCK = 256  # columns of them at a time, whose scales are found at once: 8 KiB, which stay in the first-level cache
UNITS = BLOCK // UNIT
AHEAD = 4  # rows later what memory is asked for is decoded
LINE = 64  # bytes that come from memory together
SECOND = 32 if WIDE == 8 else 8  # numbers from the first eight columns of sixteen to the others, see `_decode_block`


@compiled
def copy(numbers: Array, begin: int, out: Array, count: int) -> None:
    """So many of the numbers, from one on, to the beginning of `out`.

    What one slice would do; for that numba compiles the sentence of an error, and text, which takes two seconds.
    """
    for i in range(count):
        out[i] = numbers[begin + i]


@compiled
def _added(weights: Unit, line: Array, i: int, sums: Any, others: Any) -> Any:
    """Partial sums with the products of a unit: of every first eight columns of `WIDE`, and of the others."""
    sums = fused(weights[0], numbers(line, i), sums)
    if WIDE == 16:
        others = fused(weights[1], numbers(line, i + 8), others)
        sums = fused(weights[2], numbers(line, i + 16), sums)
        return sums, fused(weights[3], numbers(line, i + 24), others)
    sums = fused(weights[1], numbers(line, i + 8), sums)
    sums = fused(weights[2], numbers(line, i + 16), sums)
    return fused(weights[3], numbers(line, i + 24), sums), others


@compiled
def one_row(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    """x [1, columns] times rows [begin, end) of the matrix, into y [1, all rows].

    Each sum waits for its last product: four at a time fill the processor.
    """
    line, units, zero = x[0], x.shape[1] // UNIT, splat(np.float32(0))
    scales, size = np.empty(4 * SHARED, np.float32), bytes_of_a_row(parts)
    step = 4 * size // units
    for row in range(begin, end, 4):
        second, third, fourth = min(row + 1, end - 1), min(row + 2, end - 1), min(row + 3, end - 1)
        a = b = c = d = a2 = b2 = c2 = d2 = zero
        ahead = (row + 4) * size
        for block in range(0, units, UNITS):
            find_scales(parts, row, block, scales, 0)
            find_scales(parts, second, block, scales, SHARED)
            find_scales(parts, third, block, scales, 2 * SHARED)
            find_scales(parts, fourth, block, scales, 3 * SHARED)
            for at in range(block, min(block + UNITS, units)):
                i = UNIT * at
                for place in range(ahead, ahead + step, LINE):
                    fetch(parts[0], place)
                ahead += step
                a, a2 = _added(bare_unit(parts, row, at, scales, 0), line, i, a, a2)
                b, b2 = _added(bare_unit(parts, second, at, scales, SHARED), line, i, b, b2)
                c, c2 = _added(bare_unit(parts, third, at, scales, 2 * SHARED), line, i, c, c2)
                d, d2 = _added(bare_unit(parts, fourth, at, scales, 3 * SHARED), line, i, d, d2)
        y[0, row], y[0, second] = total(plus(a, a2)) * factor(parts, row), total(plus(b, b2)) * factor(parts, second)
        y[0, third], y[0, fourth] = (
            total(plus(c, c2)) * factor(parts, third),
            total(plus(d, d2)) * factor(parts, fourth),
        )


@compiled
def several_rows(parts: Any, packed: Array, y: Array, begin: int, end: int) -> None:
    """The same for x of two rows and more, which lies as `pack` writes it; y is [rows of x, all rows].

    A block of the matrix is decoded once for all rows of x. Partial sums of a group of rows are kept from block to
    block: [quad, row of x, row of the quad, `WIDE`].
    """
    rows = len(y)
    columns = len(packed) // rows
    group = GROUP if len(packed) <= FEW_NUMBERS else WIDER * GROUP
    weights, scales = _numbers(group * BLOCK), np.empty(SHARED, np.float32)
    sums = _numbers(group * rows * WIDE)
    size = bytes_of_a_row(parts)
    for row in range(begin, end, group):
        sums[:] = 0
        for block in range(0, columns, BLOCK):
            width = min(BLOCK, columns - block)
            for each in range(group):
                out = each // 4 * 4 * width + each % 4 * WIDE
                _decode_block(parts, min(row + each, end - 1), block, width, scales, weights, out)
            place = parts[0], (row + group) * size + group * size * block // columns, group * size * width // columns
            _multiply_block(weights, packed, rows * block, sums, rows, width // WIDE, *place)
        _write_totals(parts, sums, y, row, min(row + group, end))


@compiled
def _threes(rows: int) -> int:
    """How many tiles of three rows of x there are; two more rows, or four, are in tiles of two."""
    return rows // 3 - (rows % 3 == 1)


@compiled
def pack(x: Array, numbers: Array, packed: Array, begin: int, end: int) -> None:
    """Write blocks [begin, end) of the columns of x [rows, columns] as tiles read them, one number behind the other.

    `packed` is [block, tile, columns by `WIDE`, row of the tile, `WIDE`], and begins at a line of the cache. `numbers`:
    where in x each of the rows is, int64 [rows]; none if they lie one behind the other.
    """
    rows, columns = x.shape
    threes, at = _threes(rows), rows * BLOCK * begin
    for block in range(BLOCK * begin, min(BLOCK * end, columns), BLOCK):
        r = 0
        while r < rows:
            after = r + (3 if r < 3 * threes else 2)
            for i in range(block, min(block + BLOCK, columns), WIDE):
                for each in range(r, after):
                    wide_store(packed, at, wide_numbers(x[numbers[each] if len(numbers) else each], i))
                    at += WIDE
            r = after


@compiled
def _numbers(count: int) -> Array:
    """Room for float32 numbers that begins at a line of the cache: so none that are read together lie in two."""
    room = np.empty(count + LINE // 4, np.float32)
    return room[-room.ctypes.data % LINE // 4 :]


@compiled
def _decode_block(parts: Any, row: int, begin: int, width: int, scales: Array, out: Array, i: int) -> None:
    """A part of a row of the matrix, as one of a quad: [columns by `WIDE`, row of the quad, `WIDE`]."""
    find_scales(parts, row, begin // UNIT, scales, 0)
    for at in range(begin // UNIT, (begin + width) // UNIT):
        weights = bare_unit(parts, row, at, scales, 0)
        store(out, i, weights[0])
        store(out, i + SECOND, weights[1])
        store(out, i + 64, weights[2])
        store(out, i + 64 + SECOND, weights[3])
        i += 128


@compiled
def _multiply_block(
    weights: Array,
    x: Array,
    begin: int,
    sums: Array,
    rows: int,
    steps: int,
    matrix: Array,
    ahead: int,
    bytes_ahead: int,
) -> None:
    """Products of a decoded block with all rows of x, whose block begins at `begin`.

    Between the tiles memory is asked for a part of what lies `ahead` in the matrix.
    """
    threes, quads = _threes(rows), len(weights) // (4 * BLOCK)
    twos = (rows - 3 * threes) // 2
    part = bytes_ahead // (quads * (threes + twos))
    s = 0
    for quad in range(quads):
        w, i = quad * 4 * WIDE * steps, begin
        for tile in range(threes + twos):
            for place in range(ahead, ahead + part, LINE):
                fetch(matrix, place)
            ahead += part
            if tile < threes:
                _tile_of_three(weights, w, x, i, sums, s, steps)
                i += 3 * WIDE * steps
                s += 12 * WIDE
            else:
                _tile_of_two(weights, w, x, i, sums, s, steps)
                i += 2 * WIDE * steps
                s += 8 * WIDE


@compiled
def _tile_of_three(weights: Array, w: int, x: Array, i: int, sums: Array, s: int, steps: int) -> None:
    """Four rows of the matrix, a to d, times three of x: sums, rows of x and a weight fill sixteen registers."""
    a0, b0, c0, d0 = _four(sums, s)
    a1, b1, c1, d1 = _four(sums, s + 4 * WIDE)
    a2, b2, c2, d2 = _four(sums, s + 8 * WIDE)
    for _ in range(steps):
        x0, x1, x2 = wide_numbers(x, i), wide_numbers(x, i + WIDE), wide_numbers(x, i + 2 * WIDE)
        some = wide_numbers(weights, w)
        a0, a1, a2 = wide_fused(some, x0, a0), wide_fused(some, x1, a1), wide_fused(some, x2, a2)
        some = wide_numbers(weights, w + WIDE)
        b0, b1, b2 = wide_fused(some, x0, b0), wide_fused(some, x1, b1), wide_fused(some, x2, b2)
        some = wide_numbers(weights, w + 2 * WIDE)
        c0, c1, c2 = wide_fused(some, x0, c0), wide_fused(some, x1, c1), wide_fused(some, x2, c2)
        some = wide_numbers(weights, w + 3 * WIDE)
        d0, d1, d2 = wide_fused(some, x0, d0), wide_fused(some, x1, d1), wide_fused(some, x2, d2)
        w += 4 * WIDE
        i += 3 * WIDE
    _store_four(sums, s, a0, b0, c0, d0)
    _store_four(sums, s + 4 * WIDE, a1, b1, c1, d1)
    _store_four(sums, s + 8 * WIDE, a2, b2, c2, d2)


@compiled
def _tile_of_two(weights: Array, w: int, x: Array, i: int, sums: Array, s: int, steps: int) -> None:
    """The same with two rows of x."""
    a0, b0, c0, d0 = _four(sums, s)
    a1, b1, c1, d1 = _four(sums, s + 4 * WIDE)
    for _ in range(steps):
        x0, x1 = wide_numbers(x, i), wide_numbers(x, i + WIDE)
        some = wide_numbers(weights, w)
        a0, a1 = wide_fused(some, x0, a0), wide_fused(some, x1, a1)
        some = wide_numbers(weights, w + WIDE)
        b0, b1 = wide_fused(some, x0, b0), wide_fused(some, x1, b1)
        some = wide_numbers(weights, w + 2 * WIDE)
        c0, c1 = wide_fused(some, x0, c0), wide_fused(some, x1, c1)
        some = wide_numbers(weights, w + 3 * WIDE)
        d0, d1 = wide_fused(some, x0, d0), wide_fused(some, x1, d1)
        w += 4 * WIDE
        i += 2 * WIDE
    _store_four(sums, s, a0, b0, c0, d0)
    _store_four(sums, s + 4 * WIDE, a1, b1, c1, d1)


@compiled
def _four(sums: Array, i: int) -> Any:
    return (
        wide_numbers(sums, i),
        wide_numbers(sums, i + WIDE),
        wide_numbers(sums, i + 2 * WIDE),
        wide_numbers(sums, i + 3 * WIDE),
    )


@compiled
def _store_four(out: Array, i: int, a: Any, b: Any, c: Any, d: Any) -> None:
    wide_store(out, i, a)
    wide_store(out, i + WIDE, b)
    wide_store(out, i + 2 * WIDE, c)
    wide_store(out, i + 3 * WIDE, d)


@compiled
def _write_totals(parts: Any, sums: Array, y: Array, begin: int, end: int) -> None:
    """Sums of at most a group of rows of the matrix, for all rows of x."""
    rows = len(y)
    for r in range(rows):
        for row in range(begin, end):
            each = row - begin
            s = (each // 4 * rows + r) * 4 * WIDE + each % 4 * WIDE
            y[r, row] = wide_total(wide_numbers(sums, s)) * factor(parts, row)


@compiled
def _decode_row(parts: Any, row: int, out: Array, scales: Array) -> None:
    """A row of the matrix as float32 [columns]."""
    units, size = len(out) // UNIT, bytes_of_a_row(parts)
    ahead, part = (row + AHEAD) * size, UNITS * size // units
    for block in range(0, units, UNITS):
        for place in range(ahead, ahead + part, LINE):
            fetch(parts[0], place)
        ahead += part
        find_scales(parts, row, block, scales, 0)
        for at in range(block, min(block + UNITS, units)):
            weights = unit(parts, row, at, scales, 0)
            store(out, UNIT * at, weights[0])
            store(out, UNIT * at + 8, weights[1])
            store(out, UNIT * at + 16, weights[2])
            store(out, UNIT * at + 24, weights[3])


@compiled
def decode(parts: Any, out: Array, begin: int, end: int) -> None:
    """Rows [begin, end) of the matrix, into the same ones of `out` float32 [rows, columns]."""
    scales = np.empty(SHARED, np.float32)
    for row in range(begin, end):
        _decode_row(parts, row, out[row], scales)


@compiled
def decode_from(parts: Any, out: Array, begin: int, end: int) -> None:
    """Rows [begin, end) of the matrix, into all of `out` float32 [end - begin, columns]."""
    scales = np.empty(SHARED, np.float32)
    for row in range(begin, end):
        _decode_row(parts, row, out[row - begin], scales)


@compiled
def decode_bfloats(parts: Any, out: Array, begin: int, end: int) -> None:
    """The same as bfloat16, in bits, uint16: rounded to the nearest, ties to even, and no number is 0x7FC0."""
    line, scales = np.empty(out.shape[1], np.float32), np.empty(SHARED, np.float32)
    bits = line.view(np.uint32)
    for row in range(begin, end):
        _decode_row(parts, row, line, scales)
        target = out[row]
        for i in range(len(line)):
            value = bits[i]
            rounded = (value + np.uint32(0x7FFF) + ((value >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
            is_number = (value & np.uint32(0x7FFFFFFF)) <= np.uint32(0x7F800000)
            target[i] = rounded if is_number else np.uint32(0x7FC0)
