"""Units of layouts where 256 numbers are prepared at once: their codes as bytes in order, and what scales them.

Taking all codes of a block apart together costs less than unit by unit: bits are moved by constants, and each byte that
is loaded is loaded once. What is prepared stays in the first-level cache.
"""

from collections.abc import Callable
from typing import Any

from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array, Unit
from engine.model.products.lookups import stretched_four_bits
from engine.model.products.units.blocks import stretched
from engine.model.products.units.fields import spread
from engine.model.products.vectors import first, first_high, fused, last, last_high, sixteen, times

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
