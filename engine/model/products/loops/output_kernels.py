"""Loops for weights that lie with all outputs of an input side by side: as AWQ and GPTQ store them.

Eight rows of the matrix are a vector, and each has a sum for every group of inputs, which is then multiplied with the
group's scale. Going through a row alone would touch a line of the cache for each of its numbers. A row's sum is made in
the same order for one row of x and for several.
"""

from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array
from engine.model.products.units.fields import (
    as_numbers,
    cut,
    eight_scales,
    eight_words,
    fields,
    fields_of,
    spread,
    word_at,
    words_minus,
    words_plus,
)
from engine.model.products.vectors import fetch, fused, number, numbers, splat, store

WORD = 8  # rows of the matrix whose codes lie in one word
TILE = 4  # words at a time
LINE = 64  # bytes that come from memory together
NO_ZERO = 8  # the zero point where none are stored


def zeros_of(parts: Any, group: int, word: int) -> Any:
    """Zero points of eight rows."""
    raise NotImplementedError


def codes_of(parts: Any, column: int, word: int) -> Any:
    """Codes of eight rows."""
    raise NotImplementedError


def line_of(parts: Any, column: int, word: int) -> int:
    """The byte of the words where the codes of eight rows begin."""
    raise NotImplementedError


def _stored_zeros(parts: Any, group: int, word: int) -> Any:
    return cut(word_at(parts.zeros, group * parts.zeros.shape[1] + word))


def _no_zeros(parts: Any, group: int, word: int) -> Any:  # noqa: ARG001  # numba looks at names
    return cut(np.int64(NO_ZERO * 0x11111111))


def _turned_zeros(parts: Any, group: int, word: int) -> Any:
    stored = fields(word_at(parts.zeros, group * parts.zeros.shape[1] + word), 4, 15)
    return fields_of(words_plus(stored, parts.offset), 0, 15)


def _woven_codes(parts: Any, column: int, word: int) -> Any:
    return cut(word_at(parts.words, column * parts.words.shape[1] + word))


def _turned_codes(parts: Any, column: int, word: int) -> Any:
    some = eight_words(parts.words, (column >> 3) * parts.words.shape[1] + WORD * word)
    return fields_of(some, 4 * (column & 7), 15)


def _woven_line(parts: Any, column: int, word: int) -> int:
    return int(4 * (column * parts.words.shape[1] + word))


def _turned_line(parts: Any, column: int, word: int) -> int:
    return int(4 * ((column >> 3) * parts.words.shape[1] + WORD * word))


def _zeros_of(parts: Any, group: int, word: int) -> Any:  # noqa: ARG001
    kinds = {layouts.Outputs: _no_zeros, layouts.OutputsWithZeros: _stored_zeros, layouts.TurnedGroups: _turned_zeros}
    return kinds[parts.instance_class]


def _codes_of(parts: Any, column: int, word: int) -> Any:  # noqa: ARG001
    return _turned_codes if parts.instance_class is layouts.TurnedGroups else _woven_codes


def _line_of(parts: Any, column: int, word: int) -> Any:  # noqa: ARG001
    return _turned_line if parts.instance_class is layouts.TurnedGroups else _woven_line


overload(zeros_of)(_zeros_of)
overload(codes_of)(_codes_of)
overload(line_of)(_line_of)


@compiled
def _codes(parts: Any, column: int, word: int, zeros: Any) -> Any:
    """Codes of eight rows less their zero points, as float32."""
    return as_numbers(words_minus(codes_of(parts, column, word), zeros))


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
                fetch(parts.words, line_of(parts, column, word) + LINE)
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
        fetch(parts.words, line_of(parts, column, word) + LINE)
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
def rounded(value: Any) -> Any:
    """The bits of a float32 as those of the nearest bfloat16, ties to even; no number is 0x7FC0."""
    near = (value + np.uint32(0x7FFF) + ((value >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    is_number = (value & np.uint32(0x7FFFFFFF)) <= np.uint32(0x7F800000)
    return near if is_number else np.uint32(0x7FC0)


@compiled
def _scaled_row(parts: Any, codes: Array, group: int, word: int, row: int, out: Array) -> None:
    """A row of a tile times its scale: float32 [columns of the group]."""
    scale = number(parts.scales[group], WORD * word + row)
    for column in range(parts.group):
        out[column] = codes[WORD * TILE * column + row] * scale


@compiled
def decode(parts: Any, out: Array, begin: int, end: int) -> None:
    """Rows [begin, end) of the matrix, into the same ones of `out` float32 [rows, columns]."""
    last, size = end // WORD, parts.group
    codes = np.empty(WORD * TILE * size, np.float32)
    for group in range(out.shape[1] // size):
        for word in range(begin // WORD, last, TILE):
            _decode_tile(parts, group, word, last, codes)
            for row in range(WORD * min(TILE, last - word)):
                _scaled_row(parts, codes, group, word, row, out[WORD * word + row, group * size : (group + 1) * size])


@compiled
def decode_bfloats(parts: Any, out: Array, begin: int, end: int) -> None:
    """The same as bfloat16, in bits, uint16."""
    last, size = end // WORD, parts.group
    codes, line = np.empty(WORD * TILE * size, np.float32), np.empty(size, np.float32)
    bits = line.view(np.uint32)
    for group in range(out.shape[1] // size):
        for word in range(begin // WORD, last, TILE):
            _decode_tile(parts, group, word, last, codes)
            for row in range(WORD * min(TILE, last - word)):
                _scaled_row(parts, codes, group, word, row, line)
                target = out[WORD * word + row]
                for i in range(size):
                    target[group * size + i] = rounded(bits[i])
