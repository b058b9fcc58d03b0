"""The loop for one row of x with matrices of GGUF's K types, whose weights are whole numbers times a few scales.

One row is bound by how many operations a weight takes, not by memory. A weight as float32 takes four: a move of its
byte, a conversion, its scale and its product. Here 64 codes are multiplied at once, as bytes, with x in whole numbers
of 24 bits (`digits`), and sums are multiplied by the whole factors of units; only sums of a block of 256 become
float32. x is rounded to 2**-23 of the largest of 256 numbers beside it, and all is exact up to a block's scale: so
about as much is rounded in all as in a sum of float32.

Where a network computes in bfloat16, x is written in two digits: rounded to 2**-15, far less than its numbers are.

llama.cpp multiplies so too, with x in 8 bits; its text is another one than the target's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array
from engine.model.products.loops.kernels import AHEAD, BLOCK, LINE, UNITS
from engine.model.products.units import by_layout, k_codes
from engine.model.products.units.digits import (
    DIGITS,
    FEWER_DIGITS,
    ONE,
    ONE_OF_FEWER,
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
    write_fewer_digits,
)
from engine.model.products.vectors import fetch, fused, splat, times, total

TINY = np.float32(1e-30)  # the largest number of a block that counts as zeros
MIDDLE, HIGHEST = np.float32(1 << 8), np.float32(1 << 16)  # what these digits count
FIRST, SECOND, THIRD, FOURTH = factors_of
Sums = tuple[Any, Any, Any]
"""Of the lowest digits, of those in the middle, and of the highest."""


def has_loop(parts: Any) -> bool:
    """Whether there is a loop for matrices of such a layout, on this processor."""
    return type(parts) in k_codes.CODES and has_byte_products()


def bytes_of_a_row(columns: int) -> int:
    """How much a row of x takes, see `write_row`."""
    return DIGITS * columns + 4 * (columns // BLOCK) + 4 * 3 * (columns // UNIT)


@compiled
def _half_sum(room: Array, i: int) -> Any:
    return (room[i] + room[i + 1]) + (room[i + 2] + room[i + 3])


def count_of(digits: Array) -> int:
    """In how many digits numbers are written: three are bytes without a sign for numba, two with one."""
    raise NotImplementedError


def _one(digits: Array) -> Any:
    """What the largest power of two in a block becomes."""
    raise NotImplementedError


def _write(line: Array, i: int, factors: Any, digits: Array) -> None:
    """Write 64 numbers in digits."""
    raise NotImplementedError


def _summed(digits: Array, place: int) -> Any:
    """Sums of four numbers each, of two units whose digits begin at a byte."""
    raise NotImplementedError


def _added(codes: Any, factors: Any, digits: Array, place: int, sums: Sums) -> Sums:
    """Sums of each digit with the products of two units."""
    raise NotImplementedError


@compiled
def write_row(line: Array, digits: Array, steps: Array, sums: Array) -> None:
    """A row of x, float32 [columns], as the loop reads it; columns are a multiple of 256.

    digits: uint8 [3 x columns], of two units at a time, or int8 [2 x columns]. steps: float32 [columns / 256], what a
    block's whole numbers are multiplied by. sums: float32 [3 x columns / 32], of units, and behind them of halves.
    """
    units, room = len(line) // UNIT, np.empty(16, np.float32)
    for block in range(len(steps)):
        one = np.float32(0)
        for unit in range(UNITS):
            one = max(one, power(line, BLOCK * block + UNIT * unit))
        step = np.float32(0) if one < TINY else one / _one(digits)
        inverse = many_splat(np.float32(0) if one < TINY else _one(digits) / one)
        steps[block] = step
        for pair in range(block * (UNITS // 2), (block + 1) * (UNITS // 2)):
            _write(line, PAIR * pair, inverse, digits)
            many_store(room, 0, many_times(_summed(digits, count_of(digits) * PAIR * pair), many_splat(step)))
            for unit in range(2 * pair, 2 * pair + 2):
                first, second = _half_sum(room, 8 * (unit & 1)), _half_sum(room, 8 * (unit & 1) + 4)
                sums[unit], sums[units + 2 * unit], sums[units + 2 * unit + 1] = first + second, first, second


@compiled
def one_row(parts: Any, digits: Array, steps: Array, sums: Array, y: Array, begin: int, end: int) -> None:
    """A row of x, see `write_row`, times rows [begin, end) of the matrix, into y float32 [all rows]."""
    blocks, size, count = len(steps), by_layout.bytes_of_a_row(parts), count_of(digits)
    part = size // blocks
    for row in range(begin, end):
        found = offset = splat(np.float32(0))
        ahead = (row + AHEAD) * size
        for block in range(blocks):
            for place in range(ahead, ahead + part, LINE):
                fetch(parts[0], place)
            ahead += part
            place, factors, step = count * BLOCK * block, k_codes.factors(parts, row, block), count * PAIR
            whole = no_sums(0), no_sums(0), no_sums(0)
            whole = _added(k_codes.pair(parts, row, block, 0), FIRST(factors), digits, place, whole)
            whole = _added(k_codes.pair(parts, row, block, 2), SECOND(factors), digits, place + step, whole)
            whole = _added(k_codes.pair(parts, row, block, 4), THIRD(factors), digits, place + 2 * step, whole)
            whole = _added(k_codes.pair(parts, row, block, 6), FOURTH(factors), digits, place + 3 * step, whole)
            low, middle, high = whole
            scale = times(k_codes.factor(parts, row, block), splat(steps[block]))
            some = fused(eight_sums(middle), splat(MIDDLE), eight_sums(low))
            found = fused(fused(eight_sums(high), splat(HIGHEST), some), scale, found)
            offset = k_codes.with_offsets(parts, row, block, sums, offset)
        y[row] = total(found) + total(offset)


def _three(digits: Array) -> int:  # noqa: ARG001  # numba looks at names
    return DIGITS


def _two(digits: Array) -> int:  # noqa: ARG001
    return FEWER_DIGITS


def _one_of_three(digits: Array) -> Any:  # noqa: ARG001
    return ONE


def _one_of_two(digits: Array) -> Any:  # noqa: ARG001
    return ONE_OF_FEWER


def _write_three(line: Array, i: int, factors: Any, digits: Array) -> None:
    write_digits(line, i, factors, digits)


def _write_two(line: Array, i: int, factors: Any, digits: Array) -> None:
    write_fewer_digits(line, i, factors, digits)


def _sums_of_two(digits: Array, place: int) -> Any:
    low, middle = fours(times_digit(ones(0), digits, place)), fours(times_digit(ones(0), digits, place + PAIR))
    return many_fused(middle, many_splat(MIDDLE), low)


def _sums_of_three(digits: Array, place: int) -> Any:
    low, middle = fours(times_digit(ones(0), digits, place)), fours(times_digit(ones(0), digits, place + PAIR))
    some = many_fused(middle, many_splat(MIDDLE), low)
    return many_fused(fours(times_digit(ones(0), digits, place + 2 * PAIR)), many_splat(HIGHEST), some)


def _added_two(codes: Any, factors: Any, digits: Array, place: int, sums: Sums) -> Sums:
    low = factored(times_digit(codes, digits, place), factors, sums[0])
    return low, factored(times_digit(codes, digits, place + PAIR), factors, sums[1]), sums[2]


def _added_three(codes: Any, factors: Any, digits: Array, place: int, sums: Sums) -> Sums:
    low = factored(times_digit(codes, digits, place), factors, sums[0])
    middle = factored(times_digit(codes, digits, place + PAIR), factors, sums[1])
    return low, middle, factored(times_digit(codes, digits, place + 2 * PAIR), factors, sums[2])


def _is_three(digits: Any) -> bool:
    return bool(digits.dtype is types.uint8)


def _count_of(digits: Array) -> Callable[..., int]:
    return _three if _is_three(digits) else _two


def _one_of(digits: Array) -> Callable[..., Any]:
    return _one_of_three if _is_three(digits) else _one_of_two


def _writing(line: Array, i: int, factors: Any, digits: Array) -> Callable[..., None]:  # noqa: ARG001
    return _write_three if _is_three(digits) else _write_two


def _summing(digits: Array, place: int) -> Callable[..., Any]:  # noqa: ARG001
    return _sums_of_three if _is_three(digits) else _sums_of_two


def _adding(codes: Any, factors: Any, digits: Array, place: int, sums: Sums) -> Callable[..., Sums]:  # noqa: ARG001
    return _added_three if _is_three(digits) else _added_two


overload(count_of)(_count_of)
overload(_one)(_one_of)
overload(_write)(_writing)
overload(_summed)(_summing)
overload(_added)(_adding)
