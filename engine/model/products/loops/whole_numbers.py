"""The loop for one row of x with matrices of GGUF's K types, whose weights are whole numbers times a few scales.

One row is bound by how many operations a weight takes, not by memory. A weight as float32 takes four: a move of its
byte, a conversion, its scale and its product. Here 64 codes are multiplied at once, as bytes, with x in whole numbers
of 24 bits (`digits`), and the scales are those of sums. x is rounded to 2**-23 of the largest of 32 numbers beside it,
products and their sums are exact up to a unit's scale, so that less is rounded in all than in a sum of float32.

llama.cpp multiplies so too, with x in 8 bits; its text is another one than the target's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array
from engine.model.products.loops.kernels import AHEAD, LINE, UNITS
from engine.model.products.units import by_layout
from engine.model.products.units.by_layout import SHARED, find_scales
from engine.model.products.units.digits import (
    DIGITS,
    ONE,
    PAIR,
    each_twice,
    has_byte_products,
    many_fused,
    many_splat,
    many_store,
    many_times,
    many_total,
    ones,
    power,
    sixteen_numbers,
    spread_four,
    spread_two,
    times_digits,
    two_units,
    write_digits,
)
from engine.model.products.units.prepared import OFFSETS, codes_at
from engine.model.products.vectors import fetch, fused, numbers, splat, store, thirty_two, times, total

TINY = np.float32(1e-30)  # the largest number of a unit that counts as zeros
FACTORS = SHARED  # where the block's factors times the steps of x are kept, behind what `find_scales` writes
HALF, WHOLE = 2, 1  # factors of a unit

TAKEN: dict[type, tuple[int, int]] = {
    layouts.Q2K: (HALF, 0),
    layouts.Q3K: (HALF, 4),
    layouts.Q4K: (WHOLE, 0),
    layouts.Q5K: (WHOLE, 0),
    layouts.Q6K: (HALF, 32),
}
"""By layout: how many factors a unit has, and what `find_scales` takes from its codes; those without have offsets."""


def has_loop(parts: Any) -> bool:
    """Whether there is a loop for matrices of such a layout, on this processor."""
    return type(parts) in TAKEN and has_byte_products()


def bytes_of_a_row(columns: int) -> int:
    """How much a row of x takes, see `write_row`."""
    return DIGITS * columns + 4 * 4 * (columns // UNIT)


def _number(found: int) -> Callable[[Any], int]:
    def number(parts: Any) -> int:  # noqa: ARG001  # numba looks at names
        return found

    return number


_NUMBERS = {found: _number(found) for each in TAKEN.values() for found in each}


def _factors(parts: Any) -> int:
    """How many factors a unit has; known when the loop is compiled."""
    raise NotImplementedError


def _taken(parts: Any) -> int:
    """What was taken from the codes, likewise."""
    raise NotImplementedError


def _factors_of(parts: Any) -> Callable[[Any], int]:
    return _NUMBERS[TAKEN[parts.instance_class][0]]


def _taken_of(parts: Any) -> Callable[[Any], int]:
    return _NUMBERS[TAKEN[parts.instance_class][1]]


overload(_factors)(_factors_of)
overload(_taken)(_taken_of)


@compiled
def _half_sum(room: Array, i: int) -> Any:
    return (room[i] + room[i + 1]) + (room[i + 2] + room[i + 3])


@compiled
def write_row(line: Array, digits: Array, steps: Array, sums: Array) -> None:
    """A row of x, float32 [columns], as the loop reads it; columns are a multiple of 64.

    digits: uint8 [3 x columns], of two units at a time. steps: float32 [columns / 32], what a unit's whole numbers are
    multiplied by. sums: float32 [3 x columns / 32], of units, and behind them of halves of units.
    """
    units, inverses, room = len(steps), np.empty(2, np.float32), np.empty(16, np.float32)
    for pair in range(len(line) // PAIR):
        for half in range(2):
            one = power(line, PAIR * pair + UNIT * half)
            steps[2 * pair + half] = np.float32(0) if one < TINY else one / ONE
            inverses[half] = np.float32(0) if one < TINY else ONE / one
        write_digits(line, PAIR * pair, spread_two(inverses, 0), digits)
        found = times_digits(ones(0), digits, DIGITS * PAIR * pair)
        many_store(room, 0, many_times(found, spread_two(steps, 2 * pair)))
        for unit in range(2 * pair, 2 * pair + 2):
            first, second = _half_sum(room, 8 * (unit & 1)), _half_sum(room, 8 * (unit & 1) + 4)
            sums[unit], sums[units + 2 * unit], sums[units + 2 * unit + 1] = first + second, first, second


@compiled
def one_row(parts: Any, digits: Array, steps: Array, sums: Array, y: Array, begin: int, end: int) -> None:
    """A row of x, see `write_row`, times rows [begin, end) of the matrix, into y float32 [all rows]."""
    units, size = len(steps), by_layout.bytes_of_a_row(parts)
    scales, part = np.empty(SHARED + 16, np.float32), size * UNITS // units
    some_sums = sums[:units] if _factors(parts) == WHOLE else sums[units:]
    for row in range(begin, end):
        a = b = many_splat(np.float32(0))
        offset = splat(np.float32(0))
        ahead = (row + AHEAD) * size
        for block in range(0, units, UNITS):
            for place in range(ahead, ahead + part, LINE):
                fetch(parts[0], place)
            ahead += part
            find_scales(parts, row, block, scales, 0)
            offset = _find_factors(parts, scales, steps, some_sums, block, offset)
            place = DIGITS * UNIT * block
            for pair in range(0, UNITS // 2, 2):
                a = _added(parts, scales, pair, digits, place, a)
                b = _added(parts, scales, pair + 1, digits, place + DIGITS * PAIR, b)
                place += 2 * DIGITS * PAIR
        sign = np.float32(-_taken(parts)) * _power(parts) if _taken(parts) else np.float32(1)
        y[row] = many_total(a) + many_total(b) + sign * total(offset)


@compiled
def _power(parts: Any) -> Any:
    """What factors have been divided by: see `signed_by_two`."""
    return np.float32(1 << 24) if _taken(parts) else np.float32(1)


@compiled
def _find_factors(parts: Any, scales: Array, steps: Array, sums: Array, block: int, offset: Any) -> Any:
    """Write the factors of a block's sums; returns `offset` with what its offsets, or what was taken, come to.

    Taken is counted as 1.
    """
    if _factors(parts) == WHOLE:
        store(scales, FACTORS, times(numbers(scales, 0), numbers(steps, block)))
        return fused(numbers(scales, OFFSETS), numbers(sums, block), offset)
    found = many_times(sixteen_numbers(scales, 0), many_splat(_power(parts)))
    many_store(scales, FACTORS, many_times(found, each_twice(steps, block)))
    first = 0 if _taken(parts) else OFFSETS
    offset = fused(numbers(scales, first), numbers(sums, 2 * block), offset)
    return fused(numbers(scales, first + 8), numbers(sums, 2 * block + 8), offset)


@compiled
def _added(parts: Any, scales: Array, pair: int, digits: Array, place: int, sums: Any) -> Any:
    """Partial sums with the products of two units."""
    first, second = thirty_two(scales, codes_at(0, 2 * pair)), thirty_two(scales, codes_at(0, 2 * pair + 1))
    found = times_digits(two_units(first, second, _taken(parts)), digits, place)
    if _factors(parts) == WHOLE:
        return many_fused(found, spread_two(scales, FACTORS + 2 * pair), sums)
    return many_fused(found, spread_four(scales, FACTORS + 4 * pair), sums)
