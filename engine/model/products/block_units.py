"""Units of GGUF's blocks, of which each has 32 numbers, or 256 in 8 units; offsets as of `block_*` in ggml-common.h.

Where 256 numbers share a block, what their units are scaled by is found first, for all of them: see `SCALES`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array, Unit
from engine.model.products.vectors import (
    field,
    first,
    first_high,
    fused,
    half,
    last,
    last_high,
    less,
    levels_of,
    lower,
    many_less,
    masked,
    minus,
    placed,
    plus,
    shifted,
    signed,
    sixteen,
    splat,
    spread_half,
    stacked,
    store,
    thirty_two,
    times,
    united,
    upper,
    word,
)

HIGH = np.float32(2.0**-24)  # what the numbers of bytes with a sign are divided by


@compiled
def signed_numbers(begin: Any, end: Any, scale: Any) -> Unit:
    """Twice sixteen bytes with a sign times a scale. By a power of two nothing is rounded."""
    factor = times(scale, splat(HIGH))
    return (
        times(first_high(begin), factor),
        times(last_high(begin), factor),
        times(first_high(end), factor),
        times(last_high(end), factor),
    )


def _q4_0(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 18 * at
    codes = sixteen(line, i + 2)
    return signed_numbers(less(masked(codes, 15), 8), less(shifted(codes, 4), 8), spread_half(line, i))


def _q4_1(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 20 * at
    scale, least, codes = spread_half(line, i), spread_half(line, i + 2), sixteen(line, i + 4)
    low, high = masked(codes, 15), shifted(codes, 4)
    return (
        plus(times(first(low), scale), least),
        plus(times(last(low), scale), least),
        plus(times(first(high), scale), least),
        plus(times(last(high), scale), least),
    )


def _q8_0(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 34 * at
    scale = spread_half(line, i)
    return (
        times(signed(line, i + 2), scale),
        times(signed(line, i + 10), scale),
        times(signed(line, i + 18), scale),
        times(signed(line, i + 26), scale),
    )


@compiled
def _scales_k4(line: Array, i: int, scales: Array, own: int) -> None:
    """Factors and offsets of the 8 groups of a Q4_K or Q5_K block that begins at a byte.

    Of 6 bits each, those of the last four groups have their upper two bits beside those of the first four.
    """
    begin, middle, end = np.int64(word(line, i + 4)), np.int64(word(line, i + 8)), np.int64(word(line, i + 12))
    factors = end & 0x0F0F0F0F | begin >> 2 & 0x30303030
    offsets = end >> 4 & 0x0F0F0F0F | middle >> 2 & 0x30303030
    found = stacked(np.int32(begin & 0x3F3F3F3F), np.int32(factors), np.int32(middle & 0x3F3F3F3F), np.int32(offsets))
    store(scales, own, times(first(found), spread_half(line, i)))
    store(scales, own + 8, times(last(found), spread_half(line, i + 2)))


def _scales_q4_k(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    _scales_k4(parts.blocks[row], 144 * (at >> 3), scales, own)


def _scales_q5_k(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    _scales_k4(parts.blocks[row], 176 * (at >> 3), scales, own)


@compiled
def _unsigned(many: Any) -> Unit:
    begin, end = lower(many), upper(many)
    return first(begin), last(begin), first(end), last(end)


@compiled
def _codes_q4_k(parts: Any, row: int, at: int) -> Unit:
    i, group = 144 * (at >> 3), at & 7
    return _unsigned(field(thirty_two(parts.blocks[row], i + 16 + 32 * (group >> 1)), 4 * (group & 1), 15))


@compiled
def _codes_q5_k(parts: Any, row: int, at: int) -> Unit:
    line, i, group = parts.blocks[row], 176 * (at >> 3), at & 7
    low = field(thirty_two(line, i + 48 + 32 * (group >> 1)), 4 * (group & 1), 15)
    return _unsigned(placed(low, field(thirty_two(line, i + 16), group, 1)))


@compiled
def _stretched(codes: Unit, factor: Any, offset: Any) -> Unit:
    """Codes times a factor less an offset, each rounded, as torch does it."""
    return (
        minus(times(codes[0], factor), offset),
        minus(times(codes[1], factor), offset),
        minus(times(codes[2], factor), offset),
        minus(times(codes[3], factor), offset),
    )


@compiled
def _stretched_at_once(codes: Unit, factor: Any, offset: Any) -> Unit:
    """The same, rounded once: nearer to what is meant, and half as much work."""
    plus_offset = minus(splat(np.float32(0)), offset)
    return (
        fused(codes[0], factor, plus_offset),
        fused(codes[1], factor, plus_offset),
        fused(codes[2], factor, plus_offset),
        fused(codes[3], factor, plus_offset),
    )


def _q4_k(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:
    place = own + (at & 7)
    return _stretched(_codes_q4_k(parts, row, at), splat(scales[place]), splat(scales[place + 8]))


def _q5_k(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:
    place = own + (at & 7)
    return _stretched(_codes_q5_k(parts, row, at), splat(scales[place]), splat(scales[place + 8]))


def _fused_q4_k(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:
    place = own + (at & 7)
    return _stretched_at_once(_codes_q4_k(parts, row, at), splat(scales[place]), splat(scales[place + 8]))


def _fused_q5_k(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:
    place = own + (at & 7)
    return _stretched_at_once(_codes_q5_k(parts, row, at), splat(scales[place]), splat(scales[place + 8]))


def _scales_q6_k(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 210 * (at >> 3)
    scale, codes = times(spread_half(line, i + 208), splat(HIGH * HIGH)), sixteen(line, i + 192)
    store(scales, own, times(first_high(codes), scale))
    store(scales, own + 8, times(last_high(codes), scale))


def _q6_k(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:
    line, i, group = parts.blocks[row], 210 * (at >> 3), at & 7
    side, quarter = group >> 2, group & 3
    low = field(thirty_two(line, i + 64 * side + 32 * (quarter & 1)), 4 * (quarter >> 1), 15)
    high = field(thirty_two(line, i + 128 + 32 * side), 2 * quarter, 3)
    codes = many_less(placed(low, high), 32)
    begin, end = lower(codes), upper(codes)
    factor, other = splat(scales[own + 2 * group]), splat(scales[own + 2 * group + 1])
    return (
        times(first_high(begin), factor),
        times(last_high(begin), factor),
        times(first_high(end), other),
        times(last_high(end), other),
    )


@compiled
def _levels(line: Array, i: int, levels: Array, scale: Any) -> Unit:
    """32 levels, whose codes begin at a byte, times a scale."""
    codes = sixteen(line, i)
    found = levels_of(levels, united(masked(codes, 15), shifted(codes, 4)))
    return times(found[0], scale), times(found[1], scale), times(found[2], scale), times(found[3], scale)


def _iq4_nl(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 18 * at
    return _levels(line, i + 2, parts.levels, spread_half(line, i))


def _scales_iq4_xs(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 136 * (at >> 3)
    for group in range(8):
        low = line[i + 4 + (group >> 1)] >> 4 * (group & 1) & 15
        high = line[i + 2 + (group >> 2)] >> 2 * (group & 3) & 3
        scales[own + group] = np.float32((low | high << 4) - 32) * half(line, i)


def _iq4_xs(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:
    i, group = 136 * (at >> 3), at & 7
    return _levels(parts.blocks[row], i + 8 + 16 * group, parts.levels, splat(scales[own + group]))


def _mxfp4(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 17 * at
    return _levels(line, i + 1, parts.levels, splat(parts.steps[line[i]]))


UNITS: dict[type, Callable[[Any, int, int], Unit]] = {
    layouts.Q40: _q4_0,
    layouts.Q41: _q4_1,
    layouts.Q80: _q8_0,
    layouts.Iq4Nl: _iq4_nl,
    layouts.Mxfp4: _mxfp4,
}

SCALES: dict[type, Callable[[Any, int, int, Array, int], None]] = {
    layouts.Q4K: _scales_q4_k,
    layouts.Q5K: _scales_q5_k,
    layouts.Q6K: _scales_q6_k,
    layouts.Iq4Xs: _scales_iq4_xs,
}
"""What writes the scales of a block into 16 numbers of an array."""

SCALED: dict[type, Callable[[Any, int, int, Array, int], Unit]] = {
    layouts.Q4K: _q4_k,
    layouts.Q5K: _q5_k,
    layouts.Q6K: _q6_k,
    layouts.Iq4Xs: _iq4_xs,
}
"""Units of such blocks, with the scales' array and where these begin."""

FUSED: dict[type, Callable[[Any, int, int, Array, int], Unit]] = {
    layouts.Q4K: _fused_q4_k,
    layouts.Q5K: _fused_q5_k,
}
"""The same for products, where numbers are made with less work and rounded once."""
