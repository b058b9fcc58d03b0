"""Units of GGUF's blocks of 256 numbers in 8 groups; offsets as of `block_*` in ggml-common.h.

All numbers of a block are prepared at once: their codes as bytes in order, and what scales them. Taking all codes apart
together costs less than unit by unit: bits are moved by constants, and each byte that is loaded is loaded once. What is
prepared stays in the first-level cache.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array, Unit
from engine.model.products.lookups import stretched_four_bits
from engine.model.products.units.blocks import HIGH, levels_times, stretched
from engine.model.products.units.fields import (
    as_numbers,
    fields,
    joined,
    short_at,
    spread,
    store_bytes,
    word_at,
)
from engine.model.products.vectors import (
    field,
    first,
    first_high,
    fused,
    last,
    last_high,
    less,
    many_less,
    masked,
    minus,
    placed,
    shifted,
    sixteen,
    splat,
    spread_half,
    stacked,
    store,
    thirty_two,
    times,
)

OFFSETS, CODES = 16, 32  # items of the array in which a block is prepared: before them are its factors
PREPARED = 96  # how many items it has; of codes there are four in each

Prepare = Callable[[Any, int, int, Array, int], None]
"""(layout, row, first unit, array, where it begins) writes factors, offsets and codes of the block."""


@compiled
def codes_at(own: int, group: int) -> int:
    """Where the bytes of a unit are prepared."""
    return own + CODES + 8 * group


def signed_by_one(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:  # noqa: ARG001
    """Bytes with a sign times the unit's factor, which is divided by 2 ** 24."""
    i, factor = codes_at(own, at & 7), spread(scales, own + (at & 7))
    begin, end = sixteen(scales, i), sixteen(scales, i + 4)
    return (
        times(first_high(begin), factor),
        times(last_high(begin), factor),
        times(first_high(end), factor),
        times(last_high(end), factor),
    )


def signed_by_two(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:  # noqa: ARG001
    """The same with a factor for each half of the unit."""
    i, place = codes_at(own, at & 7), own + 2 * (at & 7)
    factor, other = spread(scales, place), spread(scales, place + 1)
    begin, end = sixteen(scales, i), sixteen(scales, i + 4)
    return (
        times(first_high(begin), factor),
        times(last_high(begin), factor),
        times(first_high(end), other),
        times(last_high(end), other),
    )


def stretched_by_one(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:  # noqa: ARG001
    """Bytes without a sign times the unit's factor plus its offset."""
    i, place = codes_at(own, at & 7), own + (at & 7)
    return stretched(sixteen(scales, i), sixteen(scales, i + 4), spread(scales, place), spread(scales, place + OFFSETS))


def four_bits_by_one(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:  # noqa: ARG001
    """The same of codes of 4 bits."""
    i, place = codes_at(own, at & 7), own + (at & 7)
    factor, offset = spread(scales, place), spread(scales, place + OFFSETS)
    found: Unit = stretched_four_bits(sixteen(scales, i), sixteen(scales, i + 4), factor, offset)
    return found


def stretched_by_two(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:  # noqa: ARG001
    """The same with a factor and an offset for each half of the unit."""
    i, place = codes_at(own, at & 7), own + 2 * (at & 7)
    factor, offset = spread(scales, place), spread(scales, place + OFFSETS)
    other, other_offset = spread(scales, place + 1), spread(scales, place + OFFSETS + 1)
    begin, end = sixteen(scales, i), sixteen(scales, i + 4)
    return (
        fused(first(begin), factor, offset),
        fused(last(begin), factor, offset),
        fused(first(end), other, other_offset),
        fused(last(end), other, other_offset),
    )


def _prepare_q2_k(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 84 * (at >> 3)
    both, factor, offset = sixteen(line, i), spread_half(line, i + 80), _negative(spread_half(line, i + 82))
    store(scales, own, times(first(masked(both, 15)), factor))
    store(scales, own + 8, times(last(masked(both, 15)), factor))
    store(scales, own + OFFSETS, times(first(shifted(both, 4)), offset))
    store(scales, own + OFFSETS + 8, times(last(shifted(both, 4)), offset))
    for group in range(8):
        codes = field(thirty_two(line, i + 16 + 32 * (group >> 2)), 2 * (group & 3), 3)
        store_bytes(scales, codes_at(own, group), codes)


@compiled
def _negative(numbers: Any) -> Any:
    return times(numbers, splat(np.float32(-1)))


@compiled
def factors_q3_k(line: Array, i: int) -> Any:
    """The sixteen factors of a Q3_K block that begins at a byte, with a sign, as bytes.

    Of 6 bits each: the lower four bits of all, and behind them the upper two.
    """
    begin, middle, end = word_at(line, i + 96), word_at(line, i + 100), word_at(line, i + 104)
    codes = stacked(
        np.int32(begin & 0x0F0F0F0F | end << 4 & 0x30303030),
        np.int32(middle & 0x0F0F0F0F | end << 2 & 0x30303030),
        np.int32(begin >> 4 & 0x0F0F0F0F | end & 0x30303030),
        np.int32(middle >> 4 & 0x0F0F0F0F | end >> 2 & 0x30303030),
    )
    return less(codes, 32)


def _prepare_q3_k(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 110 * (at >> 3)
    scale, factors = times(spread_half(line, i + 108), splat(HIGH * HIGH)), factors_q3_k(line, i)
    store(scales, own, times(first_high(factors), scale))
    store(scales, own + 8, times(last_high(factors), scale))
    third = thirty_two(line, i)
    for group in range(8):
        low = field(thirty_two(line, i + 32 + 32 * (group >> 2)), 2 * (group & 3), 3)
        store_bytes(scales, codes_at(own, group), many_less(placed(low, field(third, group, 1), 2), 4))


@compiled
def scales_k4(line: Array, i: int, scales: Array, own: int) -> None:
    """Write the factors and offsets of a Q4_K or Q5_K block that begins at a byte.

    As `fields.six_bits` finds them, but in words: where these are written vectors are what a processor waits for.
    """
    begin, middle, end = word_at(line, i + 4), word_at(line, i + 8), word_at(line, i + 12)
    factors = end & 0x0F0F0F0F | begin >> 2 & 0x30303030
    offsets = end >> 4 & 0x0F0F0F0F | middle >> 2 & 0x30303030
    found = stacked(np.int32(begin & 0x3F3F3F3F), np.int32(factors), np.int32(middle & 0x3F3F3F3F), np.int32(offsets))
    store(scales, own, times(first(found), spread_half(line, i)))
    store(scales, own + OFFSETS, times(last(found), _negative(spread_half(line, i + 2))))


def _prepare_q4_k(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 144 * (at >> 3)
    scales_k4(line, i, scales, own)
    for pair in range(4):
        both = thirty_two(line, i + 16 + 32 * pair)
        store_bytes(scales, codes_at(own, 2 * pair), field(both, 0, 15))
        store_bytes(scales, codes_at(own, 2 * pair + 1), field(both, 4, 15))


def _prepare_q5_k(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 176 * (at >> 3)
    scales_k4(line, i, scales, own)
    fifth = thirty_two(line, i + 16)
    for group in range(8):
        low = field(thirty_two(line, i + 48 + 32 * (group >> 1)), 4 * (group & 1), 15)
        store_bytes(scales, codes_at(own, group), placed(low, field(fifth, group, 1), 4))


def _prepare_q6_k(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 210 * (at >> 3)
    scale, factors = times(spread_half(line, i + 208), splat(HIGH * HIGH)), sixteen(line, i + 192)
    store(scales, own, times(first_high(factors), scale))
    store(scales, own + 8, times(last_high(factors), scale))
    for group in range(8):
        side, quarter = group >> 2, group & 3
        low = field(thirty_two(line, i + 64 * side + 32 * (quarter & 1)), 4 * (quarter >> 1), 15)
        high = field(thirty_two(line, i + 128 + 32 * side), 2 * quarter, 3)
        store_bytes(scales, codes_at(own, group), many_less(placed(low, high, 4), 32))


def _prepare_iq4_xs(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 136 * (at >> 3)
    factors = joined(fields(word_at(line, i + 4), 4, 15), fields(short_at(line, i + 2), 2, 3), 4)
    store(scales, own, times(minus(as_numbers(factors), splat(np.float32(32))), spread_half(line, i)))


def _iq4_xs(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:
    i, group = 136 * (at >> 3), at & 7
    return levels_times(parts.blocks[row], i + 8 + 16 * group, parts.levels, spread(scales, own + group))


PREPARE: dict[type, Prepare] = {
    layouts.Q2K: _prepare_q2_k,
    layouts.Q3K: _prepare_q3_k,
    layouts.Q4K: _prepare_q4_k,
    layouts.Q5K: _prepare_q5_k,
    layouts.Q6K: _prepare_q6_k,
    layouts.Iq4Xs: _prepare_iq4_xs,
}
"""What is done for all 256 numbers of a block."""

SCALED: dict[type, Callable[[Any, int, int, Array, int], Unit]] = {
    layouts.Q2K: stretched_by_two,
    layouts.Q3K: signed_by_two,
    layouts.Q4K: four_bits_by_one,
    layouts.Q5K: stretched_by_one,
    layouts.Q6K: signed_by_two,
    layouts.Iq4Xs: _iq4_xs,
}
"""Units of such blocks."""
