"""Units of GGUF's blocks of 32 numbers; offsets as of `block_*` in ggml-common.h."""

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array, Unit
from engine.model.products.lookups import scaled_short_levels, stretched_four_bits
from engine.model.products.units.fields import bits, byte_at, spread
from engine.model.products.vectors import (
    field,
    first,
    first_high,
    fused,
    last,
    last_high,
    less,
    lower,
    many_less,
    masked,
    nibbles,
    placed,
    shifted,
    signed,
    sixteen,
    splat,
    spread_half,
    times,
    upper,
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


@compiled
def stretched(begin: Any, end: Any, scale: Any, offset: Any) -> Unit:
    """Twice sixteen bytes without a sign times a scale plus an offset, rounded once.

    Codes of 5 bits times a scale of 16 have room in float32: so torch, which rounds products too, gives the same bits.
    """
    return (
        fused(first(begin), scale, offset),
        fused(last(begin), scale, offset),
        fused(first(end), scale, offset),
        fused(last(end), scale, offset),
    )


def _q4_0(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 18 * at
    codes = sixteen(line, i + 2)
    return signed_numbers(less(masked(codes, 15), 8), less(shifted(codes, 4), 8), spread_half(line, i))


def _bare_q4_0(parts: Any, row: int, at: int) -> Unit:
    """The same numbers with fewer operations; but none of them is a negative zero."""
    line, i = parts.blocks[row], 18 * at
    scale, codes = spread_half(line, i), sixteen(line, i + 2)
    found: Unit = stretched_four_bits(masked(codes, 15), shifted(codes, 4), scale, times(scale, splat(np.float32(-8))))
    return found


def _q4_1(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 20 * at
    codes = sixteen(line, i + 4)
    found: Unit = stretched_four_bits(
        masked(codes, 15), shifted(codes, 4), spread_half(line, i), spread_half(line, i + 2)
    )
    return found


@compiled
def five_bits(line: Array, i: int) -> Any:
    """32 codes whose fifth bits begin at a byte, and whose other four follow them."""
    return placed(nibbles(line, i + 4), field(bits(line, i), 0, 1), 4)


def _q5_0(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 22 * at
    codes = many_less(five_bits(line, i + 2), 16)
    return signed_numbers(lower(codes), upper(codes), spread_half(line, i))


def _bare_q5_0(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 22 * at
    scale, codes = spread_half(line, i), five_bits(line, i + 2)
    return stretched(lower(codes), upper(codes), scale, times(scale, splat(np.float32(-16))))


def _q5_1(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 24 * at
    codes = five_bits(line, i + 4)
    return stretched(lower(codes), upper(codes), spread_half(line, i), spread_half(line, i + 2))


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
def levels_times(line: Array, i: int, levels: Array, scale: Any) -> Unit:
    """32 levels, which are bfloat16, and whose codes begin at a byte, times a scale."""
    codes = sixteen(line, i)
    found: Unit = scaled_short_levels(levels, masked(codes, 15), shifted(codes, 4), scale)
    return found


def _iq4_nl(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 18 * at
    return levels_times(line, i + 2, parts.levels, spread_half(line, i))


def _mxfp4(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.blocks[row], 17 * at
    return levels_times(line, i + 1, parts.levels, spread(parts.steps, byte_at(line, i)))


UNITS: dict[type, Callable[[Any, int, int], Unit]] = {
    layouts.Q40: _q4_0,
    layouts.Q41: _q4_1,
    layouts.Q50: _q5_0,
    layouts.Q51: _q5_1,
    layouts.Q80: _q8_0,
    layouts.Iq4Nl: _iq4_nl,
    layouts.Mxfp4: _mxfp4,
}

BARE: dict[type, Callable[[Any, int, int], Unit]] = {layouts.Q40: _bare_q4_0, layouts.Q50: _bare_q5_0}
"""For products: the same numbers with less work."""
