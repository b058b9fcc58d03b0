"""The loop for one row of x with matrices of GGUF's K types, whose weights are whole numbers times a few scales.

One row is bound by how many operations a weight takes, not by memory. A weight as float32 takes four: a move of its
byte, a conversion, its scale and its product. Here 64 codes are multiplied at once, as bytes, with x in whole numbers
of 24 bits (`digits`), and sums are multiplied by the whole factors of units; only sums of a block of 256 become
float32. x is rounded to 2**-23 of the largest of 256 numbers beside it, and all is exact up to a block's scale: so
about as much is rounded in all as in a sum of float32.

llama.cpp multiplies so too, with x in 8 bits; its text is another one than the target's.
"""

from typing import Any

import numpy as np

from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array
from engine.model.products.loops.kernels import AHEAD, BLOCK, LINE, UNITS
from engine.model.products.units import by_layout, k_codes
from engine.model.products.units.digits import (
    DIGITS,
    ONE,
    PAIR,
    eight_sums,
    factored,
    factors_of,
    fours,
    has_byte_products,
    many_fused,
    many_splat,
    many_store,
    many_times,
    no_sums,
    ones,
    power,
    times_digit,
    write_digits,
)
from engine.model.products.vectors import fetch, fused, splat, times, total

TINY = np.float32(1e-30)  # the largest number of a block that counts as zeros
MIDDLE, HIGHEST = np.float32(1 << 8), np.float32(1 << 16)  # what these digits count
FIRST, SECOND, THIRD, FOURTH = factors_of


def has_loop(parts: Any) -> bool:
    """Whether there is a loop for matrices of such a layout, on this processor."""
    return type(parts) in k_codes.CODES and has_byte_products()


def bytes_of_a_row(columns: int) -> int:
    """How much a row of x takes, see `write_row`."""
    return DIGITS * columns + 4 * (columns // BLOCK) + 4 * 3 * (columns // UNIT)


@compiled
def _half_sum(room: Array, i: int) -> Any:
    return (room[i] + room[i + 1]) + (room[i + 2] + room[i + 3])


@compiled
def write_row(line: Array, digits: Array, steps: Array, sums: Array) -> None:
    """A row of x, float32 [columns], as the loop reads it; columns are a multiple of 256.

    digits: uint8 [3 x columns], of two units at a time. steps: float32 [columns / 256], what a block's whole numbers
    are multiplied by. sums: float32 [3 x columns / 32], of units, and behind them of halves of units.
    """
    units, room = len(line) // UNIT, np.empty(16, np.float32)
    for block in range(len(steps)):
        one = np.float32(0)
        for unit in range(UNITS):
            one = max(one, power(line, BLOCK * block + UNIT * unit))
        step = np.float32(0) if one < TINY else one / ONE
        inverse = many_splat(np.float32(0) if one < TINY else ONE / one)
        steps[block] = step
        for pair in range(block * (UNITS // 2), (block + 1) * (UNITS // 2)):
            write_digits(line, PAIR * pair, inverse, digits)
            many_store(room, 0, many_times(_summed(digits, DIGITS * PAIR * pair), many_splat(step)))
            for unit in range(2 * pair, 2 * pair + 2):
                first, second = _half_sum(room, 8 * (unit & 1)), _half_sum(room, 8 * (unit & 1) + 4)
                sums[unit], sums[units + 2 * unit], sums[units + 2 * unit + 1] = first + second, first, second


@compiled
def _summed(digits: Array, place: int) -> Any:
    """Sums of four numbers each, of two units whose digits begin at a byte."""
    low, middle = fours(times_digit(ones(0), digits, place)), fours(times_digit(ones(0), digits, place + PAIR))
    some = many_fused(middle, many_splat(MIDDLE), low)
    return many_fused(fours(times_digit(ones(0), digits, place + 2 * PAIR)), many_splat(HIGHEST), some)


@compiled
def one_row(parts: Any, digits: Array, steps: Array, sums: Array, y: Array, begin: int, end: int) -> None:
    """A row of x, see `write_row`, times rows [begin, end) of the matrix, into y float32 [all rows]."""
    blocks, size = len(steps), by_layout.bytes_of_a_row(parts)
    part = size // blocks
    for row in range(begin, end):
        found = offset = splat(np.float32(0))
        ahead = (row + AHEAD) * size
        for block in range(blocks):
            for place in range(ahead, ahead + part, LINE):
                fetch(parts[0], place)
            ahead += part
            place, factors = DIGITS * BLOCK * block, k_codes.factors(parts, row, block)
            low = middle = high = no_sums(0)
            codes, some = k_codes.pair(parts, row, block, 0), FIRST(factors)
            low, middle, high = _added(codes, some, digits, place, low, middle, high)
            codes, some = k_codes.pair(parts, row, block, 2), SECOND(factors)
            low, middle, high = _added(codes, some, digits, place + DIGITS * PAIR, low, middle, high)
            codes, some = k_codes.pair(parts, row, block, 4), THIRD(factors)
            low, middle, high = _added(codes, some, digits, place + 2 * DIGITS * PAIR, low, middle, high)
            codes, some = k_codes.pair(parts, row, block, 6), FOURTH(factors)
            low, middle, high = _added(codes, some, digits, place + 3 * DIGITS * PAIR, low, middle, high)
            scale = times(k_codes.factor(parts, row, block), splat(steps[block]))
            some = fused(eight_sums(middle), splat(MIDDLE), eight_sums(low))
            found = fused(fused(eight_sums(high), splat(HIGHEST), some), scale, found)
            offset = k_codes.with_offsets(parts, row, block, sums, offset)
        y[row] = total(found) + total(offset)


@compiled
def _added(codes: Any, factors: Any, digits: Array, place: int, low: Any, middle: Any, high: Any) -> Any:
    """Sums of each digit with the products of two units."""
    low = factored(times_digit(codes, digits, place), factors, low)
    middle = factored(times_digit(codes, digits, place + PAIR), factors, middle)
    return low, middle, factored(times_digit(codes, digits, place + 2 * PAIR), factors, high)
