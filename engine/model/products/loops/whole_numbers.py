"""The loops for one row of x with matrices whose weights are whole numbers times a few scales, as most of GGUF's are.

One row is bound by how many operations a weight takes, not by memory. A weight as float32 takes four: a move of its
byte, a conversion, its scale and its product. Here 64 codes are multiplied at once, as bytes, with x in whole numbers
of 24 bits (`digits`). In K types sums are multiplied by the whole factors of units; only sums of a block of 256 become
float32. Where every unit has a scale of its own, sums of four products do. x is rounded to 2**-23 of the largest of 256
numbers beside it, and all is exact up to a scale: so about as much is rounded in all as in a sum of float32.

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
from engine.model.products.units import by_layout, k_codes, unit_codes
from engine.model.products.units.digits import (
    DIGITS,
    FEWER_DIGITS,
    ONE,
    ONE_OF_FEWER,
    PAIR,
    eight_sums,
    factored,
    factors_of,
    fours_of_three,
    fours_of_two,
    has_byte_products,
    many_fused,
    many_splat,
    many_store,
    many_times,
    many_total,
    no_sums,
    ones,
    power,
    scales_of,
    sixteen_numbers,
    times_digit,
    write_digits,
    write_fewer_digits,
)
from engine.model.products.vectors import fetch, fused, numbers, splat, times, total

SUMS_OF_A_UNIT, FOURS_OF_A_UNIT = 3, 8
TINY = np.float32(1e-30)  # the largest number of a block that counts as zeros
MIDDLE, HIGHEST = np.float32(1 << 8), np.float32(1 << 16)  # what these digits count
FIRST, SECOND, THIRD, FOURTH = factors_of
OF_FIRST, OF_SECOND, OF_THIRD, OF_FOURTH = scales_of
Row = tuple[Array, Array, Array, Array]
"""One of x, see `write_row`: its digits, steps, sums and fours."""

Sums = tuple[Any, Any, Any]
"""Of the lowest digits, of those in the middle, and of the highest."""


def has_loop(parts: Any) -> bool:
    """Whether there is a loop for matrices of such a layout, on this processor."""
    return (type(parts) in k_codes.CODES or unit_codes.is_of_pairs(parts)) and has_byte_products()


def bytes_of_a_row(columns: int) -> int:
    """How much a row of x takes, see `write_row`."""
    return DIGITS * columns + 4 * (-(-columns // BLOCK) + (SUMS_OF_A_UNIT + FOURS_OF_A_UNIT) * (columns // UNIT))


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


def _fours(codes: Any, digits: Array, place: int) -> Any:
    """Sums of four codes times numbers each, of two units whose digits begin at a byte."""
    raise NotImplementedError


def _added(codes: Any, factors: Any, digits: Array, place: int, sums: Sums) -> Sums:
    """Sums of each digit with the products of two units."""
    raise NotImplementedError


@compiled
def write_row(line: Array, digits: Array, steps: Array, sums: Array, fours: Array) -> None:
    """A row of x, float32 [columns], as the loops read it; columns are a multiple of 64.

    digits: uint8 [3 x columns], of two units at a time, or int8 [2 x columns]. steps: float32 [columns / 256, rounded
    up], what a block's whole numbers are multiplied by. sums: float32 [3 x columns / 32], of units, and behind them of
    halves. fours: float32 [columns / 4], sums of four whole numbers.
    """
    units, room = len(line) // UNIT, np.empty(16, np.float32)
    for block in range(len(steps)):
        one, end = np.float32(0), min(units, UNITS * (block + 1))
        for unit in range(UNITS * block, end):
            one = max(one, power(line, UNIT * unit))
        step = np.float32(0) if one < TINY else one / _one(digits)
        inverse = many_splat(np.float32(0) if one < TINY else _one(digits) / one)
        steps[block] = step
        for pair in range(UNITS * block // 2, end // 2):
            _write(line, PAIR * pair, inverse, digits)
            some = _fours(ones(0), digits, count_of(digits) * PAIR * pair)
            many_store(fours, 16 * pair, some)
            many_store(room, 0, many_times(some, many_splat(step)))
            for unit in range(2 * pair, 2 * pair + 2):
                first, second = _half_sum(room, 8 * (unit & 1)), _half_sum(room, 8 * (unit & 1) + 4)
                sums[unit], sums[units + 2 * unit], sums[units + 2 * unit + 1] = first + second, first, second


def multiply(parts: Any, x: Row, y: Array, begin: int, end: int) -> None:
    """A row of x times rows [begin, end) of the matrix, into y float32 [all rows]."""
    raise NotImplementedError


def _multiply_blocks(parts: Any, x: Row, y: Array, begin: int, end: int) -> None:
    """With a matrix of K types."""
    digits, steps, sums, _ = x
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


def _multiply_units(parts: Any, x: Row, y: Array, begin: int, end: int) -> None:
    """With a matrix each of whose units has a scale of its own."""
    digits, steps, sums, fours = x
    pairs, size = len(fours) // 16, by_layout.bytes_of_a_row(parts)
    part, blocks = size // len(steps), unit_codes.whole_blocks(parts, pairs)
    for row in range(begin, end):
        found, offset, ahead = many_splat(np.float32(0)), splat(np.float32(0)), (row + AHEAD) * size
        for block in range(blocks):
            for place in range(ahead, ahead + part, LINE):
                fetch(parts[0], place)
            ahead += part
            scales, pair = unit_codes.eight_scales(parts, row, block), 4 * block
            some = many_times(_of_pair(parts, row, pair, digits), OF_FIRST(scales))
            some = many_fused(_of_pair(parts, row, pair + 1, digits), OF_SECOND(scales), some)
            some = many_fused(_of_pair(parts, row, pair + 2, digits), OF_THIRD(scales), some)
            some = many_fused(_of_pair(parts, row, pair + 3, digits), OF_FOURTH(scales), some)
            found = many_fused(some, many_splat(steps[block]), found)
            offset = fused(unit_codes.eight_offsets(parts, row, block, scales), numbers(sums, UNITS * block), offset)
        for pair in range(4 * blocks, pairs):
            if pair % 4 == 0:
                for place in range(ahead, ahead + part, LINE):
                    fetch(parts[0], place)
                ahead += part
            scale = unit_codes.scales(parts, row, 2 * pair)
            some = many_times(_of_pair(parts, row, pair, digits), scale)
            less = unit_codes.offsets(parts, row, 2 * pair, scale)
            some = many_fused(sixteen_numbers(fours, 16 * pair), less, some)
            found = many_fused(some, many_splat(steps[pair // 4]), found)
        y[row] = many_total(found) + total(offset)


@compiled
def _of_pair(parts: Any, row: int, pair: int, digits: Array) -> Any:
    return _fours(unit_codes.pair(parts, row, 2 * pair), digits, count_of(digits) * PAIR * pair)


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


def _two_fours(codes: Any, digits: Array, place: int) -> Any:
    return fours_of_two(times_digit(codes, digits, place), times_digit(codes, digits, place + PAIR))


def _three_fours(codes: Any, digits: Array, place: int) -> Any:
    low, middle = times_digit(codes, digits, place), times_digit(codes, digits, place + PAIR)
    return fours_of_three(low, middle, times_digit(codes, digits, place + 2 * PAIR))


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


def _adding_fours(codes: Any, digits: Array, place: int) -> Callable[..., Any]:  # noqa: ARG001
    return _three_fours if _is_three(digits) else _two_fours


def _adding(codes: Any, factors: Any, digits: Array, place: int, sums: Sums) -> Callable[..., Sums]:  # noqa: ARG001
    return _added_three if _is_three(digits) else _added_two


overload(count_of)(_count_of)
overload(_one)(_one_of)
overload(_write)(_writing)
overload(_fours)(_adding_fours)
overload(_added)(_adding)


def _multiplying(parts: Any, x: Row, y: Array, begin: int, end: int) -> Callable[..., None]:  # noqa: ARG001
    return _multiply_blocks if parts.instance_class in k_codes.CODES else _multiply_units


overload(multiply)(_multiplying)
