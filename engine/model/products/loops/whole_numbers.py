"""The loops for one row of x with matrices whose weights are whole numbers times a few scales, as most of GGUF's are.

One row is bound by how many operations a weight takes, not by memory. A weight as float32 takes four: a move of its
byte, a conversion, its scale and its product. Here 64 codes are multiplied at once, as bytes, with x in whole numbers
of 24 bits (`written`). In K types sums are multiplied by the whole factors of units; only sums of a block of 256 become
float32. Where every unit has a scale of its own, sums of eight products do. x is rounded to 2**-23 of the largest of
256 numbers beside it, and all is exact up to a scale: so about as much is rounded in all as in a sum of float32.

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
    has_byte_products,
    no_sums,
    times_digit,
)
from engine.model.products.units.fours import (
    fours_of_three,
    fours_of_two,
    fours_of_wide_three,
    fours_of_wide_two,
)
from engine.model.products.units.sixteen import many_fused, many_splat, many_total
from engine.model.products.units.written import (
    BY_HALVES,
    BY_UNITS,
    FOUR,
    half_total,
    power,
    write_by_halves,
    write_by_units,
    write_fewer_by_halves,
    write_fewer_by_units,
    write_fewer_woven,
    write_woven,
)
from engine.model.products.vectors import fetch, fused, splat, times, total

SUMS_OF_A_UNIT = 3
FARTHER = 12288  # bytes that memory is asked for before they are multiplied, at least
RESTS = 16  # rows whose last blocks are copied, if these are not full
TINY = np.float32(1e-30)  # the largest number of a block that counts as zeros
MIDDLE, HIGHEST = np.float32(1 << 8), np.float32(1 << 16)  # what these digits count
FIRST, SECOND, THIRD, FOURTH = factors_of
Row = tuple[Array, Array, Array]
"""One of x, see `write_row`: its digits, steps and sums."""

Sums = tuple[Any, Any, Any]
"""Of the lowest digits, of those in the middle, and of the highest."""


def order_of(parts: Any) -> int | None:
    """In which order x is written for matrices of such a layout, see `written`; None if there is no loop for them."""
    if not has_byte_products():
        return None
    return BY_UNITS if type(parts) in k_codes.CODES else unit_codes.order_of(parts)


def bytes_of_a_row(columns: int) -> int:
    """How much a row of x takes, see `write_row`."""
    return -(-columns // BLOCK) * (DIGITS * BLOCK + 4 * (1 + SUMS_OF_A_UNIT * UNITS))


def count_of(digits: Array) -> int:
    """In how many digits numbers are written: three are bytes without a sign for numba, two with one."""
    raise NotImplementedError


def _one(digits: Array) -> Any:
    """What the largest power of two in a block becomes."""
    raise NotImplementedError


def _write(line: Array, i: int, factor: Any, digits: Array, pair: int, order: int) -> None:
    """Write 64 numbers in digits."""
    raise NotImplementedError


def _fours(parts: Any, codes: Any, digits: Array, place: int) -> Any:
    """Sums of eight codes times numbers each, of four units whose digits begin at a byte."""
    raise NotImplementedError


def _added(codes: Any, factors: Any, digits: Array, place: int, sums: Sums) -> Sums:
    """Sums of each digit with the products of two units."""
    raise NotImplementedError


@compiled
def write_row(line: Array, digits: Array, steps: Array, sums: Array, order: int) -> None:
    """A row of x, float32 [columns], as the loops read it, in an order of `written`; columns are a multiple of 32.

    digits: uint8 [3 x 256 x blocks], of as many blocks as there are with one that is not full, or int8 [2 x ...].
    steps: float32 [blocks], what a block's whole numbers are multiplied by. sums: float32 [3 x 8 x blocks], of units,
    and behind them of halves.
    """
    for block in range(len(steps)):
        begin = BLOCK * block
        if begin + BLOCK <= len(line):
            _write_block(line, begin, block, digits, steps, sums, order)
        else:
            rest = np.zeros(BLOCK, np.float32)
            rest[: len(line) - begin] = line[begin:]
            _write_block(rest, 0, block, digits, steps, sums, order)


@compiled
def _write_block(line: Array, begin: int, block: int, digits: Array, steps: Array, sums: Array, order: int) -> None:
    one, halves = np.float32(0), len(sums) // SUMS_OF_A_UNIT
    for unit in range(UNITS):
        one = max(one, power(line, begin + UNIT * unit))
    step = np.float32(0) if one < TINY else one / _one(digits)
    inverse = np.float32(0) if one < TINY else _one(digits) / one
    steps[block] = step
    for pair in range(UNITS // 2):
        _write(line, begin + PAIR * pair, inverse, digits, UNITS // 2 * block + pair, order)
    for unit in range(UNITS):
        i, at = begin + UNIT * unit, UNITS * block + unit
        first, second = half_total(line, i, inverse) * step, half_total(line, i + UNIT // 2, inverse) * step
        sums[at], sums[halves + 2 * at], sums[halves + 2 * at + 1] = first + second, first, second


def multiply(parts: Any, x: Row, y: Array, begin: int, end: int) -> None:
    """A row of x times rows [begin, end) of the matrix, into y float32 [all rows]."""
    raise NotImplementedError


def _multiply_blocks(parts: Any, x: Row, y: Array, begin: int, end: int) -> None:
    """With a matrix of K types."""
    digits, steps, sums = x
    blocks, size, count = len(steps), by_layout.bytes_of_a_row(parts), count_of(digits)
    part, distance = size // blocks, max(AHEAD * size, FARTHER)
    for row in range(begin, end):
        found = offset = splat(np.float32(0))
        ahead = row * size + distance
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
    size, whole = by_layout.bytes_of_a_row(parts), unit_codes.whole_blocks(parts)
    distance, has_rest = max(AHEAD * size, FARTHER), whole < len(x[1])
    rests = unit_codes.room_for(parts, RESTS if has_rest else 0)
    for some in range(begin, end, RESTS):
        if has_rest:  # some time before they are read: what was just written in bytes is read slowly
            for row in range(some, min(some + RESTS, end)):
                unit_codes.copy_rest(parts, row, whole, rests, row - some)
        for row in range(some, min(some + RESTS, end)):
            ahead = row * size + distance
            found = _of_blocks(parts, unit_codes.line_of(parts, row), 0, whole, x, ahead)
            if has_rest:
                ahead += whole * unit_codes.bytes_of_a_block(parts)
                found += _of_blocks(parts, unit_codes.rest_of(rests, row - some), whole, 1, x, ahead)
            y[row] = found


@compiled
def _of_blocks(parts: Any, line: Any, first: int, count: int, x: Row, ahead: int) -> Any:
    """A row of x, from a block on, times so many blocks of a line; memory is asked for from a byte on."""
    digits, steps, sums = x
    found, offset, step = many_splat(np.float32(0)), splat(np.float32(0)), count_of(digits) * FOUR
    for at in range(count):
        block = first + at
        for place in range(ahead, ahead + unit_codes.bytes_of_a_block(parts), LINE):
            fetch(parts[0], place)
        ahead += unit_codes.bytes_of_a_block(parts)
        scales, place = unit_codes.scales(parts, line, at), 2 * step * block
        factors = unit_codes.by_step(parts, scales, steps[block])
        some = _fours(parts, unit_codes.codes(parts, line, 2 * at), digits, place)
        found = many_fused(some, unit_codes.first_four(parts, factors), found)
        some = _fours(parts, unit_codes.codes(parts, line, 2 * at + 1), digits, place + step)
        found = many_fused(some, unit_codes.last_four(parts, factors), found)
        offset = unit_codes.with_offsets(parts, line, at, scales, sums, block, offset)
    return many_total(found) + total(offset)


def _three(digits: Array) -> int:  # noqa: ARG001  # numba looks at names
    return DIGITS


def _two(digits: Array) -> int:  # noqa: ARG001
    return FEWER_DIGITS


def _one_of_three(digits: Array) -> Any:  # noqa: ARG001
    return ONE


def _one_of_two(digits: Array) -> Any:  # noqa: ARG001
    return ONE_OF_FEWER


def _write_three(line: Array, i: int, factor: Any, digits: Array, pair: int, order: int) -> None:
    four = DIGITS * FOUR * (pair >> 1) + UNIT * (pair & 1)
    if order == BY_UNITS:
        write_by_units(line, i, factor, digits, DIGITS * PAIR * pair)
    elif order == BY_HALVES:
        write_by_halves(line, i, factor, digits, four)
    else:
        write_woven(line, i, factor, digits, four)


def _write_two(line: Array, i: int, factor: Any, digits: Array, pair: int, order: int) -> None:
    four = FEWER_DIGITS * FOUR * (pair >> 1) + UNIT * (pair & 1)
    if order == BY_UNITS:
        write_fewer_by_units(line, i, factor, digits, FEWER_DIGITS * PAIR * pair)
    elif order == BY_HALVES:
        write_fewer_by_halves(line, i, factor, digits, four)
    else:
        write_fewer_woven(line, i, factor, digits, four)


def _two_fours(parts: Any, codes: Any, digits: Array, place: int) -> Any:  # noqa: ARG001
    return fours_of_two(codes[0], codes[1], digits, place)


def _three_fours(parts: Any, codes: Any, digits: Array, place: int) -> Any:  # noqa: ARG001
    return fours_of_three(codes[0], codes[1], digits, place)


def _two_wide_fours(parts: Any, codes: Any, digits: Array, place: int) -> Any:  # noqa: ARG001
    return fours_of_wide_two(codes[0], codes[1], digits, place)


def _three_wide_fours(parts: Any, codes: Any, digits: Array, place: int) -> Any:  # noqa: ARG001
    return fours_of_wide_three(codes[0], codes[1], digits, place)


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


def _writing(line: Array, i: int, factor: Any, digits: Array, pair: int, order: int) -> Callable[..., None]:  # noqa: ARG001
    return _write_three if _is_three(digits) else _write_two


def _adding_fours(parts: Any, codes: Any, digits: Array, place: int) -> Callable[..., Any]:  # noqa: ARG001
    if parts.instance_class in unit_codes.WIDE:
        return _three_wide_fours if _is_three(digits) else _two_wide_fours
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
