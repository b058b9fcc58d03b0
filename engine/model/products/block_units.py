"""Units of GGUF's blocks, of which each has 32 numbers, or 256 in 8 units; offsets as of `block_*` in ggml-common.h."""

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array, Unit
from engine.model.products.vectors import (
    first,
    first_levels,
    half,
    joined,
    last,
    last_levels,
    lifted,
    masked,
    minus,
    plus,
    shifted,
    signed,
    sixteen,
    splat,
    times,
)


def _q4_0(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 18 * at
    scale, middle, codes = splat(half(line, i)), splat(np.float32(8)), sixteen(line, i + 2)
    low, high = masked(codes, 15), shifted(codes, 4)
    return (
        times(minus(first(low), middle), scale),
        times(minus(last(low), middle), scale),
        times(minus(first(high), middle), scale),
        times(minus(last(high), middle), scale),
    )


def _q4_1(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 20 * at
    scale, least, codes = splat(half(line, i)), splat(half(line, i + 2)), sixteen(line, i + 4)
    low, high = masked(codes, 15), shifted(codes, 4)
    return (
        plus(times(first(low), scale), least),
        plus(times(last(low), scale), least),
        plus(times(first(high), scale), least),
        plus(times(last(high), scale), least),
    )


def _q8_0(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 34 * at
    scale = splat(half(line, i))
    return (
        times(signed(line, i + 2), scale),
        times(signed(line, i + 10), scale),
        times(signed(line, i + 18), scale),
        times(signed(line, i + 26), scale),
    )


@compiled
def _scales_k4(line: Array, i: int, group: int) -> tuple[Any, Any]:
    """Factor and offset of one of the 8 groups of a Q4_K or Q5_K block that begins at a byte."""
    if group < 4:
        factor, offset = line[i + 4 + group] & 63, line[i + 8 + group] & 63
    else:
        rest = line[i + 8 + group]
        factor = rest & 15 | line[i + group] >> 2 & 48
        offset = rest >> 4 | line[i + 4 + group] >> 2 & 48
    return np.float32(factor) * half(line, i), np.float32(offset) * half(line, i + 2)


@compiled
def _stretched(low: Any, high: Any, scale: Any, offset: Any) -> Unit:
    """32 codes in bytes times a scale less an offset."""
    return (
        minus(times(first(low), scale), offset),
        minus(times(last(low), scale), offset),
        minus(times(first(high), scale), offset),
        minus(times(last(high), scale), offset),
    )


def _q4_k(parts: Any, row: int, at: int) -> Unit:
    line, i, group = parts.blocks[row], 144 * (at >> 3), at & 7
    factor, offset = _scales_k4(line, i, group)
    codes, shift = i + 16 + 32 * (group >> 1), 4 * (group & 1)
    low = masked(shifted(sixteen(line, codes), shift), 15)
    high = masked(shifted(sixteen(line, codes + 16), shift), 15)
    return _stretched(low, high, splat(factor), splat(offset))


def _q5_k(parts: Any, row: int, at: int) -> Unit:
    line, i, group = parts.blocks[row], 176 * (at >> 3), at & 7
    factor, offset = _scales_k4(line, i, group)
    codes, shift = i + 48 + 32 * (group >> 1), 4 * (group & 1)
    low = masked(shifted(sixteen(line, codes), shift), 15)
    high = masked(shifted(sixteen(line, codes + 16), shift), 15)
    low = joined(low, lifted(masked(shifted(sixteen(line, i + 16), group), 1), 4))
    high = joined(high, lifted(masked(shifted(sixteen(line, i + 32), group), 1), 4))
    return _stretched(low, high, splat(factor), splat(offset))


def _q6_k(parts: Any, row: int, at: int) -> Unit:
    line, i, group = parts.blocks[row], 210 * (at >> 3), at & 7
    side, quarter = group >> 2, group & 3
    codes, shift = i + 64 * side + 32 * (quarter & 1), 4 * (quarter >> 1)
    rest, places = i + 128 + 32 * side, 2 * quarter
    low = masked(shifted(sixteen(line, codes), shift), 15)
    high = masked(shifted(sixteen(line, codes + 16), shift), 15)
    low = joined(low, lifted(masked(shifted(sixteen(line, rest), places), 3), 4))
    high = joined(high, lifted(masked(shifted(sixteen(line, rest + 16), places), 3), 4))
    scale, middle = half(line, i + 208), splat(np.float32(32))
    factor = splat(np.float32(np.int8(line[i + 192 + 2 * group])) * scale)
    other = splat(np.float32(np.int8(line[i + 193 + 2 * group])) * scale)
    return (
        times(minus(first(low), middle), factor),
        times(minus(last(low), middle), factor),
        times(minus(first(high), middle), other),
        times(minus(last(high), middle), other),
    )


@compiled
def _levels(line: Array, i: int, levels: Array, scale: Any) -> Unit:
    """32 levels, whose codes begin at a byte, times a scale."""
    codes = sixteen(line, i)
    low, high = masked(codes, 15), shifted(codes, 4)
    return (
        times(first_levels(levels, low), scale),
        times(last_levels(levels, low), scale),
        times(first_levels(levels, high), scale),
        times(last_levels(levels, high), scale),
    )


def _iq4_nl(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 18 * at
    return _levels(line, i + 2, parts.levels, splat(half(line, i)))


def _iq4_xs(parts: Any, row: int, at: int) -> Unit:
    line, i, group = parts.blocks[row], 136 * (at >> 3), at & 7
    low = line[i + 4 + (group >> 1)] >> 4 * (group & 1) & 15
    high = line[i + 2 + (group >> 2)] >> 2 * (group & 3) & 3
    scale = np.float32((low | high << 4) - 32) * half(line, i)
    return _levels(line, i + 8 + 16 * group, parts.levels, splat(scale))


def _mxfp4(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 17 * at
    return _levels(line, i + 1, parts.levels, splat(parts.steps[line[i]]))


UNITS: dict[type, Callable[[Any, int, int], Unit]] = {
    layouts.Q40: _q4_0,
    layouts.Q41: _q4_1,
    layouts.Q80: _q8_0,
    layouts.Q4K: _q4_k,
    layouts.Q5K: _q5_k,
    layouts.Q6K: _q6_k,
    layouts.Iq4Nl: _iq4_nl,
    layouts.Iq4Xs: _iq4_xs,
    layouts.Mxfp4: _mxfp4,
}
