"""Loops for weights that lie with all outputs of an input side by side: as AWQ stores them.

Eight rows of the matrix are a vector, and each has a sum for every group of inputs, which is then multiplied with the
group's scale. Going through a row alone would touch a line of the cache for each of its numbers. A row's sum is made in
the same order for one row of x and for several.
"""

from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.fields import as_numbers, cut, eight_scales, spread, word_at, words_minus
from engine.model.products.layouts import Array
from engine.model.products.vectors import fetch, fused, numbers, splat, store

WORD = 8  # rows of the matrix whose codes lie in one word
TILE = 4  # words at a time
LINE = 16  # words that come from memory together
NO_ZERO = 8  # the zero point where none are stored


def zeros_of(parts: Any, group: int, word: int) -> Any:
    """Zero points of eight rows."""
    raise NotImplementedError


def _stored_zeros(parts: Any, group: int, word: int) -> Any:
    return cut(word_at(parts.zeros, group * parts.zeros.shape[1] + word))


def _no_zeros(parts: Any, group: int, word: int) -> Any:  # noqa: ARG001  # numba looks at names
    return cut(np.int64(NO_ZERO * 0x11111111))


def _zeros_of(parts: Any, group: int, word: int) -> Any:  # noqa: ARG001
    return _stored_zeros if parts.instance_class is layouts.OutputsWithZeros else _no_zeros


overload(zeros_of)(_zeros_of)


@compiled
def _codes(parts: Any, column: int, word: int, zeros: Any) -> Any:
    """Codes of eight rows less their zero points, as float32."""
    return as_numbers(words_minus(cut(word_at(parts.words, column * parts.words.shape[1] + word)), zeros))


@compiled
def _words_of_tile(word: int, end: int) -> tuple[int, int, int, int]:
    """Four words; behind the last one that again."""
    return word, min(word + 1, end - 1), min(word + 2, end - 1), min(word + 3, end - 1)


@compiled
def _add_group(parts: Any, group: int, word: int, found: Any, y: Array, r: int) -> None:
    """Add a group's sum times its scale to those of eight rows."""
    i = r * y.shape[1] + WORD * word
    scales = eight_scales(parts.scales, group * parts.scales.shape[1] + WORD * word)
    store(y, i, fused(found, scales, numbers(y, i)))


@compiled
def one_row(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    """x [1, columns] times rows [begin, end) of the matrix, into y [1, all rows]; rows in multiples of eight."""
    zero, last, size = splat(np.float32(0)), end // WORD, parts.group
    y[0, begin:end] = 0
    for group in range(x.shape[1] // size):
        for word in range(begin // WORD, last, TILE):
            _, second, third, fourth = _words_of_tile(word, last)
            zeros = zeros_of(parts, group, word)
            zeros2, zeros3 = zeros_of(parts, group, second), zeros_of(parts, group, third)
            zeros4 = zeros_of(parts, group, fourth)
            a = b = c = d = zero
            for column in range(group * size, (group + 1) * size):
                fetch(parts.words, 4 * (column * parts.words.shape[1] + word + LINE))
                factor = spread(x, column)
                a = fused(_codes(parts, column, word, zeros), factor, a)
                b = fused(_codes(parts, column, second, zeros2), factor, b)
                c = fused(_codes(parts, column, third, zeros3), factor, c)
                d = fused(_codes(parts, column, fourth, zeros4), factor, d)
            _add_group(parts, group, word, a, y, 0)
            if word + 1 < last:
                _add_group(parts, group, second, b, y, 0)
            if word + 2 < last:
                _add_group(parts, group, third, c, y, 0)
            if word + 3 < last:
                _add_group(parts, group, fourth, d, y, 0)


@compiled
def several_rows(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    """The same for x of two rows and more: a tile is decoded once for all of them."""
    last, size = end // WORD, parts.group
    codes = np.empty(WORD * TILE * size, np.float32)
    y[:, begin:end] = 0
    for group in range(x.shape[1] // size):
        for word in range(begin // WORD, last, TILE):
            _decode_tile(parts, group, word, last, codes)
            for r in range(0, len(x), 2):
                _multiply_tile(parts, codes, group, word, last, x, y, r, min(r + 1, len(x) - 1))


@compiled
def _decode_tile(parts: Any, group: int, word: int, last: int, out: Array) -> None:
    """Codes of a group of four words: [column, 32 rows]."""
    size, i = parts.group, 0
    words = _words_of_tile(word, last)
    zeros, zeros2 = zeros_of(parts, group, words[0]), zeros_of(parts, group, words[1])
    zeros3, zeros4 = zeros_of(parts, group, words[2]), zeros_of(parts, group, words[3])
    for column in range(group * size, (group + 1) * size):
        fetch(parts.words, 4 * (column * parts.words.shape[1] + word + LINE))
        store(out, i, _codes(parts, column, words[0], zeros))
        store(out, i + 8, _codes(parts, column, words[1], zeros2))
        store(out, i + 16, _codes(parts, column, words[2], zeros3))
        store(out, i + 24, _codes(parts, column, words[3], zeros4))
        i += WORD * TILE


@compiled
def _multiply_tile(
    parts: Any, codes: Array, group: int, word: int, last: int, x: Array, y: Array, r: int, other: int
) -> None:
    """Two rows of x, which may be the same one, times a tile."""
    zero, size, i = splat(np.float32(0)), parts.group, 0
    a = b = c = d = e = f = g = h = zero
    for column in range(group * size, (group + 1) * size):
        factor, second = spread(x, r * x.shape[1] + column), spread(x, other * x.shape[1] + column)
        some = numbers(codes, i)
        a, e = fused(some, factor, a), fused(some, second, e)
        some = numbers(codes, i + 8)
        b, f = fused(some, factor, b), fused(some, second, f)
        some = numbers(codes, i + 16)
        c, g = fused(some, factor, c), fused(some, second, g)
        some = numbers(codes, i + 24)
        d, h = fused(some, factor, d), fused(some, second, h)
        i += WORD * TILE
    _add_tile(parts, group, word, last, (a, b, c, d), y, r)
    if other != r:
        _add_tile(parts, group, word, last, (e, f, g, h), y, other)


@compiled
def _add_tile(parts: Any, group: int, word: int, last: int, found: Any, y: Array, r: int) -> None:
    _add_group(parts, group, word, found[0], y, r)
    if word + 1 < last:
        _add_group(parts, group, word + 1, found[1], y, r)
    if word + 2 < last:
        _add_group(parts, group, word + 2, found[2], y, r)
    if word + 3 < last:
        _add_group(parts, group, word + 3, found[3], y, r)


@compiled
def decode(parts: Any, out: Array, begin: int, end: int) -> None:
    """Rows [begin, end) of the matrix, into the same ones of `out` float32 [rows, columns]."""
    last, size = end // WORD, parts.group
    codes = np.empty(WORD * TILE * size, np.float32)
    scaled = np.empty(WORD * TILE, np.float32)
    for group in range(out.shape[1] // size):
        for word in range(begin // WORD, last, TILE):
            _decode_tile(parts, group, word, last, codes)
            for each in range(min(TILE, last - word)):
                place = group * parts.scales.shape[1] + WORD * (word + each)
                store(scaled, WORD * each, eight_scales(parts.scales, place))
            for row in range(WORD * min(TILE, last - word)):
                line, scale = out[WORD * word + row], scaled[row]
                for column in range(size):
                    line[group * size + column] = codes[WORD * TILE * column + row] * scale
