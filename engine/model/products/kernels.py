"""The loops: products of one row and of several with a matrix in any layout, and its decoding.

A row's sum is made in the same order in all of them (eight partial sums, added up at the end), so that its bits depend
neither on how many rows there are nor on how a matrix is shared out among threads.
"""

from typing import Any

import numpy as np

from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array, Unit
from engine.model.products.units import bare_unit, factor, unit
from engine.model.products.vectors import fused, numbers, splat, store, total


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
    line, units, zero = x[0], x.shape[1] // 32, splat(np.float32(0))
    for row in range(begin, end, 4):
        second, third, fourth = min(row + 1, end - 1), min(row + 2, end - 1), min(row + 3, end - 1)
        a = b = c = d = zero
        for at in range(units):
            i = 32 * at
            a = _added(bare_unit(parts, row, at), line, i, a)
            b = _added(bare_unit(parts, second, at), line, i, b)
            c = _added(bare_unit(parts, third, at), line, i, c)
            d = _added(bare_unit(parts, fourth, at), line, i, d)
        y[0, row], y[0, second] = total(a) * factor(parts, row), total(b) * factor(parts, second)
        y[0, third], y[0, fourth] = total(c) * factor(parts, third), total(d) * factor(parts, fourth)


@compiled
def several_rows(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    """The same for more rows, four and two rows of the matrix at a time; for numbers that are quickly decoded."""
    units, zero, most = x.shape[1] // 32, splat(np.float32(0)), x.shape[0] - 1
    for row in range(begin, end, 2):
        other = min(row + 1, end - 1)
        for r in range(0, x.shape[0], 4):
            r1, r2, r3 = min(r + 1, most), min(r + 2, most), min(r + 3, most)
            x0, x1, x2, x3 = x[r], x[r1], x[r2], x[r3]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
            for at in range(units):
                i = 32 * at
                weights = bare_unit(parts, row, at)
                a0, a1 = _added(weights, x0, i, a0), _added(weights, x1, i, a1)
                a2, a3 = _added(weights, x2, i, a2), _added(weights, x3, i, a3)
                weights = bare_unit(parts, other, at)
                b0, b1 = _added(weights, x0, i, b0), _added(weights, x1, i, b1)
                b2, b3 = _added(weights, x2, i, b2), _added(weights, x3, i, b3)
            f, g = factor(parts, row), factor(parts, other)
            y[r, row], y[r1, row], y[r2, row], y[r3, row] = f * total(a0), f * total(a1), f * total(a2), f * total(a3)
            y[r, other], y[r1, other] = g * total(b0), g * total(b1)
            y[r2, other], y[r3, other] = g * total(b2), g * total(b3)


@compiled
def several_rows_decoded(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    """The same for numbers that take longer to decode: two rows of the matrix are decoded once for all rows of x."""
    columns, zero, most = x.shape[1], splat(np.float32(0)), x.shape[0] - 1
    buffer = np.empty((2, columns), np.float32)
    first, second = buffer[0], buffer[1]
    for row in range(begin, end, 2):
        other = min(row + 1, end - 1)
        _decode_row(parts, row, first)
        _decode_row(parts, other, second)
        for r in range(0, x.shape[0], 4):
            r1, r2, r3 = min(r + 1, most), min(r + 2, most), min(r + 3, most)
            x0, x1, x2, x3 = x[r], x[r1], x[r2], x[r3]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
            for at in range(columns // 8):
                i = 8 * at
                a, b = numbers(first, i), numbers(second, i)
                some = numbers(x0, i)
                a0, b0 = fused(a, some, a0), fused(b, some, b0)
                some = numbers(x1, i)
                a1, b1 = fused(a, some, a1), fused(b, some, b1)
                some = numbers(x2, i)
                a2, b2 = fused(a, some, a2), fused(b, some, b2)
                some = numbers(x3, i)
                a3, b3 = fused(a, some, a3), fused(b, some, b3)
            y[r, row], y[r1, row], y[r2, row], y[r3, row] = total(a0), total(a1), total(a2), total(a3)
            y[r, other], y[r1, other], y[r2, other], y[r3, other] = total(b0), total(b1), total(b2), total(b3)


@compiled
def _decode_row(parts: Any, row: int, out: Array) -> None:
    """A row of the matrix as float32 [columns]."""
    for at in range(len(out) // 32):
        i = 32 * at
        weights = unit(parts, row, at)
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
