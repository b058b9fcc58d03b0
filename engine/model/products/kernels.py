"""The loops: products of one row and of several with a matrix in any layout, and its decoding.

A row's sum is made in the same order in all of them (eight partial sums, added up at the end), so that its bits depend
neither on how many rows there are nor on how a matrix is shared out among threads.
"""

from typing import Any

import numpy as np

from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array, Unit
from engine.model.products.units import SHARED, bare_unit, bytes_of_a_row, factor, find_scales, unit
from engine.model.products.vectors import fetch, fused, numbers, splat, store, total

BLOCK = 256
GROUP = 8

@compiled
def _added(weights: Unit, line: Array, i: int, sums: Any) -> Any:
    """Partial sums with the products of a unit."""
    sums = fused(weights[0], numbers(line, i), sums)
    sums = fused(weights[1], numbers(line, i + 8), sums)
    sums = fused(weights[2], numbers(line, i + 16), sums)
    return fused(weights[3], numbers(line, i + 24), sums)


@compiled
def one_row(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    line, units, zero = x[0], x.shape[1] // 32, splat(np.float32(0))
    scales = np.empty(4 * SHARED, np.float32)
    size = bytes_of_a_row(parts)
    step = 4 * size // units
    for row in range(begin, end, 4):
        second, third, fourth = min(row + 1, end - 1), min(row + 2, end - 1), min(row + 3, end - 1)
        a = b = c = d = zero
        ahead = (row + 4) * size
        for block in range(0, units, 8):
            find_scales(parts, row, block, scales, 0)
            find_scales(parts, second, block, scales, SHARED)
            find_scales(parts, third, block, scales, 2 * SHARED)
            find_scales(parts, fourth, block, scales, 3 * SHARED)
            for at in range(block, min(block + 8, units)):
                i = 32 * at
                for line_ahead in range(0, step, 64):
                    fetch(parts[0], ahead + line_ahead)
                ahead += step
                a = _added(bare_unit(parts, row, at, scales, 0), line, i, a)
                b = _added(bare_unit(parts, second, at, scales, SHARED), line, i, b)
                c = _added(bare_unit(parts, third, at, scales, 2 * SHARED), line, i, c)
                d = _added(bare_unit(parts, fourth, at, scales, 3 * SHARED), line, i, d)
        y[0, row], y[0, second] = total(a) * factor(parts, row), total(b) * factor(parts, second)
        y[0, third], y[0, fourth] = total(c) * factor(parts, third), total(d) * factor(parts, fourth)


@compiled
def _tile_of_three(weights: Array, w: int, x: Array, i: int, sums: Array, s: int, steps: int) -> None:
    a0, a1, a2 = numbers(sums, s), numbers(sums, s + 8), numbers(sums, s + 16)
    b0, b1, b2 = numbers(sums, s + 24), numbers(sums, s + 32), numbers(sums, s + 40)
    c0, c1, c2 = numbers(sums, s + 48), numbers(sums, s + 56), numbers(sums, s + 64)
    d0, d1, d2 = numbers(sums, s + 72), numbers(sums, s + 80), numbers(sums, s + 88)
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
    store(sums, s, a0), store(sums, s + 8, a1), store(sums, s + 16, a2)
    store(sums, s + 24, b0), store(sums, s + 32, b1), store(sums, s + 40, b2)
    store(sums, s + 48, c0), store(sums, s + 56, c1), store(sums, s + 64, c2)
    store(sums, s + 72, d0), store(sums, s + 80, d1), store(sums, s + 88, d2)


@compiled
def _tile_of_two(weights: Array, w: int, x: Array, i: int, sums: Array, s: int, steps: int) -> None:
    a0, a1 = numbers(sums, s), numbers(sums, s + 8)
    b0, b1 = numbers(sums, s + 16), numbers(sums, s + 24)
    c0, c1 = numbers(sums, s + 32), numbers(sums, s + 40)
    d0, d1 = numbers(sums, s + 48), numbers(sums, s + 56)
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
    store(sums, s, a0), store(sums, s + 8, a1)
    store(sums, s + 16, b0), store(sums, s + 24, b1)
    store(sums, s + 32, c0), store(sums, s + 40, c1)
    store(sums, s + 48, d0), store(sums, s + 56, d1)


@compiled
def _packed(x: Array, threes: int) -> Array:
    rows, columns = x.shape
    packed = np.empty(rows * columns, np.float32)
    at = 0
    for block in range(0, columns, BLOCK):
        width = min(BLOCK, columns - block)
        r = 0
        while r < rows:
            count = 3 if r < 3 * threes else 2
            for i in range(block, block + width, 8):
                for each in range(r, r + count):
                    store(packed, at, numbers(x[each], i))
                    at += 8
            r += count
    return packed


@compiled
def several_rows(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    rows, columns = x.shape
    threes = rows // 3 if rows % 3 != 1 else rows // 3 - 1
    twos = (rows - 3 * threes) // 2
    packed = _packed(x, threes)
    weights, scales = np.empty(GROUP * BLOCK, np.float32), np.empty(SHARED, np.float32)
    sums = np.empty(GROUP * 8 * rows, np.float32)
    for row in range(begin, end, GROUP):
        sums[:] = 0
        for block in range(0, columns, BLOCK):
            width = min(BLOCK, columns - block)
            for each in range(GROUP):
                _decode_block(parts, min(row + each, end - 1), block // 32, width // 32, columns // 32, scales, weights, (each >> 2) * 4 * width + (each & 3) * 8)
            for quad in range(2):
                w, i, s = quad * 4 * width, rows * block, quad * 32 * rows
                for _ in range(threes):
                    _tile_of_three(weights, w, packed, i, sums, s, width // 8)
                    i += 3 * width
                    s += 96
                for _ in range(twos):
                    _tile_of_two(weights, w, packed, i, sums, s, width // 8)
                    i += 2 * width
                    s += 64
        _totals(parts, sums, y, threes, row, end)


@compiled
def _totals(parts, sums, y, threes, row, end):
    rows = len(y)
    for r in range(rows):
        t = 3 * threes
        if r < t:
            first, count = r // 3 * 96 + r % 3 * 8, 24
        else:
            first, count = t * 32 + (r - t) // 2 * 64 + (r - t) % 2 * 8, 16
        for each in range(min(GROUP, end - row)):
            y[r, row + each] = factor(parts, row + each) * total(numbers(sums, first + (each >> 2) * 32 * rows + (each & 3) * count))


@compiled
def _decode_block(parts, row, begin, units, total_units, scales, out, o):
    find_scales(parts, row, begin, scales, 0)
    size = bytes_of_a_row(parts)
    step = size // max(1, total_units)
    ahead = (row + GROUP) * size + begin * step
    for at in range(begin, begin + units):
        fetch(parts[0], ahead)
        ahead += step
        w = bare_unit(parts, row, at, scales, 0)
        store(out, o, w[0])
        store(out, o + 32, w[1])
        store(out, o + 64, w[2])
        store(out, o + 96, w[3])
        o += 128

several_rows_decoded = several_rows

@compiled
def _decode_row(parts: Any, row: int, out: Array) -> None:
    """A row of the matrix as float32 [columns]."""
    scales, units = np.empty(SHARED, np.float32), len(out) // 32
    for block in range(0, units, 8):
        find_scales(parts, row, block, scales, 0)
        for at in range(block, min(block + 8, units)):
            i = 32 * at
            weights = unit(parts, row, at, scales, 0)
            store(out, i, weights[0])
            store(out, i + 8, weights[1])
            store(out, i + 16, weights[2])
            store(out, i + 24, weights[3])


@compiled
def decode(parts: Any, out: Array, begin: int, end: int) -> None:
    """Rows [begin, end) of the matrix, into the same ones of `out` float32 [rows, columns]."""
    for row in range(begin, end):
        _decode_row(parts, row, out[row])


@compiled
def decode_bfloats(parts: Any, out: Array, begin: int, end: int) -> None:
    """The same as bfloat16, in bits, uint16: rounded to the nearest, ties to even, and no number is 0x7FC0."""
    line = np.empty(out.shape[1], np.float32)
    bits = line.view(np.uint32)
    for row in range(begin, end):
        _decode_row(parts, row, line)
        target = out[row]
        for i in range(len(line)):
            value = bits[i]
            rounded = (value + np.uint32(0x7FFF) + ((value >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
            is_number = (value & np.uint32(0x7FFFFFFF)) <= np.uint32(0x7F800000)
            target[i] = rounded if is_number else np.uint32(0x7FC0)
