"""The loops: products of one row and of several with a matrix in any layout, and its decoding.

A row's sum is made in the same order in all of them (eight partial sums, added up at the end), so that its bits depend
neither on how many rows there are nor on how a matrix is shared out among threads. (One row has another loop where a
layout's weights are whole numbers: `whole_numbers`.)

Memory is asked for what is multiplied next: processors see several rows that are read at once less well ahead.
"""

from typing import Any

import numpy as np

from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array, Unit
from engine.model.products.units.by_layout import SHARED, bare_unit, bytes_of_a_row, factor, find_scales, unit
from engine.model.products.vectors import fetch, fused, numbers, splat, store, total

GROUP = 8  # rows of the matrix that are decoded for all rows of x: two quads of which each goes through a tile
BLOCK = 256  # columns of them at a time, whose scales are found at once: 8 KiB, which stay in the first-level cache
UNITS = BLOCK // UNIT
AHEAD = 4  # rows later what memory is asked for is decoded
LINE = 64  # bytes that come from memory together


@compiled
def _added(weights: Unit, line: Array, i: int, sums: Any) -> Any:
    """Partial sums with the products of a unit."""
    sums = fused(weights[0], numbers(line, i), sums)
    sums = fused(weights[1], numbers(line, i + 8), sums)
    sums = fused(weights[2], numbers(line, i + 16), sums)
    return fused(weights[3], numbers(line, i + 24), sums)


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
        a = b = c = d = zero
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
                a = _added(bare_unit(parts, row, at, scales, 0), line, i, a)
                b = _added(bare_unit(parts, second, at, scales, SHARED), line, i, b)
                c = _added(bare_unit(parts, third, at, scales, 2 * SHARED), line, i, c)
                d = _added(bare_unit(parts, fourth, at, scales, 3 * SHARED), line, i, d)
        y[0, row], y[0, second] = total(a) * factor(parts, row), total(b) * factor(parts, second)
        y[0, third], y[0, fourth] = total(c) * factor(parts, third), total(d) * factor(parts, fourth)


@compiled
def several_rows(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    """The same for x of two rows and more: a block of the matrix is decoded once for all of them.

    Partial sums of a group of rows are kept from block to block: [quad, row of x, row of the quad, 8].
    """
    rows, columns = x.shape
    threes = rows // 3 - (rows % 3 == 1)  # tiles of three rows of x; two more rows, or four, are in tiles of two
    packed = _packed(x, threes)
    weights, scales = np.empty(GROUP * BLOCK, np.float32), np.empty(SHARED, np.float32)
    sums = np.empty(GROUP * rows * 8, np.float32)
    size = bytes_of_a_row(parts)
    for row in range(begin, end, GROUP):
        sums[:] = 0
        for block in range(0, columns, BLOCK):
            width = min(BLOCK, columns - block)
            for each in range(GROUP):
                out = each // 4 * 4 * width + each % 4 * 8
                _decode_block(parts, min(row + each, end - 1), block, width, scales, weights, out)
            ahead = (row + GROUP) * size + GROUP * size * block // columns
            bytes_ahead = GROUP * size * width // columns
            _multiply_block(weights, packed, rows * block, sums, rows, width // 8, threes, parts[0], ahead, bytes_ahead)
        _write_totals(parts, sums, y, row, min(row + GROUP, end))


@compiled
def _packed(x: Array, threes: int) -> Array:
    """x as tiles read it, one number behind the other: [block, tile, 8 columns of the block, row of the tile, 8]."""
    rows, columns = x.shape
    packed = np.empty(rows * columns, np.float32)
    at = 0
    for block in range(0, columns, BLOCK):
        r = 0
        while r < rows:
            after = r + (3 if r < 3 * threes else 2)
            for i in range(block, min(block + BLOCK, columns), 8):
                for each in range(r, after):
                    store(packed, at, numbers(x[each], i))
                    at += 8
            r = after
    return packed


@compiled
def _decode_block(parts: Any, row: int, begin: int, width: int, scales: Array, out: Array, i: int) -> None:
    """A part of a row of the matrix, as one of a quad: [8 columns, row of the quad, 8]."""
    find_scales(parts, row, begin // UNIT, scales, 0)
    for at in range(begin // UNIT, (begin + width) // UNIT):
        weights = bare_unit(parts, row, at, scales, 0)
        store(out, i, weights[0])
        store(out, i + 32, weights[1])
        store(out, i + 64, weights[2])
        store(out, i + 96, weights[3])
        i += 128


@compiled
def _multiply_block(
    weights: Array,
    x: Array,
    begin: int,
    sums: Array,
    rows: int,
    steps: int,
    threes: int,
    matrix: Array,
    ahead: int,
    bytes_ahead: int,
) -> None:
    """Products of a decoded block with all rows of x, whose block begins at `begin`.

    Between the tiles memory is asked for a part of what lies `ahead` in the matrix.
    """
    twos = (rows - 3 * threes) // 2
    part = bytes_ahead // (2 * (threes + twos))
    s = 0
    for quad in range(2):
        w, i = quad * 32 * steps, begin
        for tile in range(threes + twos):
            for place in range(ahead, ahead + part, LINE):
                fetch(matrix, place)
            ahead += part
            if tile < threes:
                _tile_of_three(weights, w, x, i, sums, s, steps)
                i += 24 * steps
                s += 96
            else:
                _tile_of_two(weights, w, x, i, sums, s, steps)
                i += 16 * steps
                s += 64


@compiled
def _tile_of_three(weights: Array, w: int, x: Array, i: int, sums: Array, s: int, steps: int) -> None:
    """Four rows of the matrix, a to d, times three of x: sums, rows of x and a weight fill sixteen registers."""
    a0, b0, c0, d0 = numbers(sums, s), numbers(sums, s + 8), numbers(sums, s + 16), numbers(sums, s + 24)
    a1, b1, c1, d1 = numbers(sums, s + 32), numbers(sums, s + 40), numbers(sums, s + 48), numbers(sums, s + 56)
    a2, b2, c2, d2 = numbers(sums, s + 64), numbers(sums, s + 72), numbers(sums, s + 80), numbers(sums, s + 88)
    for _ in range(steps):
        x0, x1, x2 = numbers(x, i), numbers(x, i + 8), numbers(x, i + 16)
        some = numbers(weights, w)
        a0, a1, a2 = fused(some, x0, a0), fused(some, x1, a1), fused(some, x2, a2)
        some = numbers(weights, w + 8)
        b0, b1, b2 = fused(some, x0, b0), fused(some, x1, b1), fused(some, x2, b2)
        some = numbers(weights, w + 16)
        c0, c1, c2 = fused(some, x0, c0), fused(some, x1, c1), fused(some, x2, c2)
        some = numbers(weights, w + 24)
        d0, d1, d2 = fused(some, x0, d0), fused(some, x1, d1), fused(some, x2, d2)
        w += 32
        i += 24
    _store_four(sums, s, a0, b0, c0, d0)
    _store_four(sums, s + 32, a1, b1, c1, d1)
    _store_four(sums, s + 64, a2, b2, c2, d2)


@compiled
def _tile_of_two(weights: Array, w: int, x: Array, i: int, sums: Array, s: int, steps: int) -> None:
    """The same with two rows of x."""
    a0, b0, c0, d0 = numbers(sums, s), numbers(sums, s + 8), numbers(sums, s + 16), numbers(sums, s + 24)
    a1, b1, c1, d1 = numbers(sums, s + 32), numbers(sums, s + 40), numbers(sums, s + 48), numbers(sums, s + 56)
    for _ in range(steps):
        x0, x1 = numbers(x, i), numbers(x, i + 8)
        some = numbers(weights, w)
        a0, a1 = fused(some, x0, a0), fused(some, x1, a1)
        some = numbers(weights, w + 8)
        b0, b1 = fused(some, x0, b0), fused(some, x1, b1)
        some = numbers(weights, w + 16)
        c0, c1 = fused(some, x0, c0), fused(some, x1, c1)
        some = numbers(weights, w + 24)
        d0, d1 = fused(some, x0, d0), fused(some, x1, d1)
        w += 32
        i += 16
    _store_four(sums, s, a0, b0, c0, d0)
    _store_four(sums, s + 32, a1, b1, c1, d1)


@compiled
def _store_four(out: Array, i: int, a: Any, b: Any, c: Any, d: Any) -> None:
    store(out, i, a)
    store(out, i + 8, b)
    store(out, i + 16, c)
    store(out, i + 24, d)


@compiled
def _write_totals(parts: Any, sums: Array, y: Array, begin: int, end: int) -> None:
    """Sums of at most a group of rows of the matrix, for all rows of x."""
    rows = len(y)
    for r in range(rows):
        for row in range(begin, end):
            each = row - begin
            s = (each // 4 * rows + r) * 32 + each % 4 * 8
            y[r, row] = total(numbers(sums, s)) * factor(parts, row)


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
            _store_four(out, UNIT * at, weights[0], weights[1], weights[2], weights[3])


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
