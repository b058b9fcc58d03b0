"""What a network computes between products, in one thread: norms of rows, and heads that are turned by their position.

Tensors are handed over as addresses of float32, one number behind the other. A number's bits do not depend on how many
rows there are.
"""

from typing import Any

import numba
import numpy as np

from engine.model.products.addresses import floats, shorts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT
from engine.model.products.vectors import (
    exponential,
    fused,
    minus,
    numbers,
    over,
    plus,
    splat,
    store,
    times,
    total,
)

LANES = 8


@compiled
def norm_rows(x: int, weight: int, y: int, rows: int, width: int, epsilon: float, more: float) -> None:
    """Write into y [rows, width] the rows of x by their root mean square, times `weight` [width] + `more`.

    `width` is a multiple of 32.
    """
    scale = numba.carray(floats(weight), width)
    added, small = np.float32(more), np.float32(epsilon)
    for row in range(rows):
        line, out = numba.carray(floats(x + 4 * row * width), width), numba.carray(floats(y + 4 * row * width), width)
        a = b = c = d = splat(np.float32(0))
        for i in range(0, width, UNIT):
            a = fused(numbers(line, i), numbers(line, i), a)
            b = fused(numbers(line, i + 8), numbers(line, i + 8), b)
            c = fused(numbers(line, i + 16), numbers(line, i + 16), c)
            d = fused(numbers(line, i + 24), numbers(line, i + 24), d)
        by = np.float32(1) / np.sqrt(total(plus(plus(a, b), plus(c, d))) / np.float32(width) + small)
        for i in range(width):
            out[i] = (scale[i] + added) * (line[i] * by)


@compiled
def turn_heads(
    x: int, cosine: int, sine: int, y: int, step: int, rows: int, heads: int, width: int, by_pairs: bool, turned: int
) -> None:
    """Write into y [heads, rows, width] the heads of x [rows, heads, width], turned by the embedding of each row.

    `cosine` and `sine` are [rows, turned]: so many numbers of a head are turned, and others stay. `step`: numbers from
    one head of y to the next one. `by_pairs`: numbers that turn together stand side by side in x, instead of in both
    halves of what is turned; in y they stand in halves.
    """
    half = turned // 2
    for row in range(rows):
        c, s = (
            numba.carray(floats(cosine + 4 * row * turned), turned),
            numba.carray(floats(sine + 4 * row * turned), turned),
        )
        for head in range(heads):
            some = numba.carray(floats(x + 4 * (row * heads + head) * width), width)
            out = numba.carray(floats(y + 4 * (head * step + row * width)), width)
            if by_pairs:
                for i in range(half):
                    out[i] = some[2 * i] * c[i] - some[2 * i + 1] * s[i]
                    out[i + half] = some[2 * i + 1] * c[i + half] + some[2 * i] * s[i + half]
            else:
                for i in range(half):
                    out[i] = some[i] * c[i] - some[i + half] * s[i]
                    out[i + half] = some[i + half] * c[i + half] + some[i] * s[i + half]
            for i in range(turned, width):
                out[i] = some[i]


@compiled
def place_heads(x: int, y: int, step: int, rows: int, heads: int, width: int) -> None:
    """Write the heads of x [rows, heads, width] into y [heads, rows, width] as they are; `step`: see `turn_heads`."""
    for row in range(rows):
        for head in range(heads):
            some = numba.carray(floats(x + 4 * (row * heads + head) * width), width)
            out = numba.carray(floats(y + 4 * (head * step + row * width)), width)
            for i in range(width):
                out[i] = some[i]


@compiled
def narrow_heads(x: int, y: int, step: int, heads: int, width: int) -> None:
    """Write the heads of x [heads, width] into y as bfloat16, rounded to the nearest, of two to the even one.

    `step`: numbers from one head of y to the next one.
    """
    some = numba.carray(floats(x), heads * width)
    for head in range(heads):
        out = numba.carray(shorts(y + 2 * head * step), width)
        for i in range(width):
            out[i] = np.int16(_rounded(some[head * width + i]) >> 16)


@compiled
def _rounded(number: float) -> Any:
    """The bits of a number whose first half is the bfloat16 next to it, of two the even one."""
    bits = np.float32(number).view(np.int32)
    return bits + 0x7FFF + ((bits >> 16) & 1)


@compiled
def widen(x: int, y: int, count: int) -> None:
    """Write bfloat16 numbers into y as float32."""
    some, out = numba.carray(shorts(x), count), numba.carray(floats(y), count)
    for i in range(count):
        out[i] = np.int32(np.int32(some[i]) << 16).view(np.float32)


@compiled
def round_numbers(x: int, count: int) -> None:
    """Have numbers of float32 be those next to them that bfloat16 holds."""
    some = numba.carray(floats(x), count)
    for i in range(count):
        some[i] = np.int32(_rounded(some[i]) & ~0xFFFF).view(np.float32)


@compiled
def norm_narrow_rows(x: int, weight: int, y: int, rows: int, width: int, epsilon: float, more: float) -> None:
    """`norm_rows` of rows, weights and what is written that are all bfloat16: it is rounded once."""
    wide, scale = np.empty(width, np.float32), np.empty(width, np.float32)
    # As other numbers, and plain ones, numba would compile all that is called once more.
    line: Any = np.int64(wide.ctypes.data)
    by: Any = np.int64(scale.ctypes.data)
    none: Any = np.int64(0)
    one: Any = np.int64(1)
    small: Any = np.float32(epsilon)
    added: Any = np.float32(more)
    widen(weight, by, width)
    for row in range(rows):
        widen(x + 2 * row * width, line, width)
        norm_rows(line, by, line, one, width, small, added)
        narrow_heads(line, y + 2 * row * width, none, one, width)


@compiled
def gate(x: int, y: int, z: int, count: int) -> None:
    """Write x / (1 + e to the power of -x) * y into z, which may be x; `count` is a multiple of 8."""
    gate, up, out = numba.carray(floats(x), count), numba.carray(floats(y), count), numba.carray(floats(z), count)
    zero, one = splat(np.float32(0)), splat(np.float32(1))
    for i in range(0, count, LANES):
        some = numbers(gate, i)
        store(out, i, times(over(some, plus(one, exponential(minus(zero, some)))), numbers(up, i)))


@compiled
def clamped_gate(gate: int, up: int, step: int, bias: int, y: int, count: int, alpha: float, limit: float) -> None:
    """gpt-oss's: (up + 1) * gate / (1 + e to the power of -alpha * gate), of clamped numbers; `count` as of `gate`.

    `step`: numbers from one of either to the next. `bias`: of gates and ups in turns, or 0 for none.
    """
    gates, ups = numba.carray(floats(gate), step * count), numba.carray(floats(up), step * count)
    biases, out = numba.carray(floats(bias), 2 * count if bias else 0), numba.carray(floats(y), count)
    some, others = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    one, slope = splat(np.float32(1)), splat(np.float32(-alpha))
    for i in range(0, count, LANES):
        for lane in range(LANES):
            g, u = gates[step * (i + lane)], ups[step * (i + lane)]
            if bias:
                g, u = g + biases[2 * (i + lane)], u + biases[2 * (i + lane) + 1]
            g = limit if g > limit else g  # what is no number stays so
            u = limit if u > limit else u
            some[lane], others[lane] = g, -limit if u < -limit else u
        g = numbers(some, 0)
        store(out, i, times(plus(numbers(others, 0), one), over(g, plus(one, exponential(times(g, slope))))))


@compiled
def add(x: int, y: int, z: int, count: int) -> None:
    """Write x + y into z."""
    one, other, found = numba.carray(floats(x), count), numba.carray(floats(y), count), numba.carray(floats(z), count)
    for i in range(count):
        found[i] = one[i] + other[i]


@compiled
def add_weighted(x: int, weight: float, y: int, count: int) -> None:
    """Add x, times a weight, to y."""
    some, found = numba.carray(floats(x), count), numba.carray(floats(y), count)
    for i in range(count):
        found[i] += some[i] * weight
