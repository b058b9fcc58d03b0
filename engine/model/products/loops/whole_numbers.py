"""The loops for few rows of x with matrices whose weights are whole numbers times a few scales, as most of GGUF's are.

Few rows are bound by how many operations a weight takes, not by memory. A weight as float32 takes four: a move of its
byte, a conversion, its scale and its product. Here 64 codes are multiplied at once, as bytes, with x in whole numbers
of 24 bits (`written`). In K types sums are multiplied by the whole factors of units; only sums of a block of 256 become
float32. Where every unit has a scale of its own, sums of eight products do. x is rounded to 2**-23 of the largest of
256 numbers beside it, and all is exact up to a scale: so about as much is rounded in all as in a sum of float32.

Where a network computes in bfloat16, x is written in two digits: rounded to 2**-15, far less than its numbers are.

llama.cpp multiplies so too, with x in 8 bits; its text is another one than the target's.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array
from engine.model.products.loops.kernels import AHEAD, BLOCK, LINE, UNITS, copy
from engine.model.products.units import by_layout, k_codes, unit_codes
from engine.model.products.units.digits import (
    DIGITS,
    FEWER_DIGITS,
    ONE,
    ONE_OF_FEWER,
    PAIR,
    adds_products,
    factors_of,
    has_byte_products,
    has_wide_bytes,
)
from engine.model.products.units.several import (
    by_step,
    by_steps,
    eight_sums,
    fours,
    no_eight,
    no_numbers,
    no_whole,
    totals,
    two_digits,
    wide_fours,
    with_digit,
    with_products,
    with_scales,
)
from engine.model.products.units.written import (
    BY_HALVES,
    BY_TURNS,
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
from engine.model.products.vectors import fetch

SUMS_OF_A_UNIT = 3
BYTES_OF_A_BLOCK = DIGITS * BLOCK + 4 * (1 + SUMS_OF_A_UNIT * UNITS)  # of a row of x
FARTHER = 12288  # bytes that memory is asked for before they are multiplied, at least
MOST_ROWS = 4  # where processors add up products of 64 bytes
MOST_TOGETHER = 8192  # numbers of more than two rows: their digits are read for each row of the matrix, from the caches
RESTS = 16  # rows whose last blocks are copied, if these are not full
TINY = np.float32(1e-30)  # the largest number of a block that counts as zeros
MIDDLE, HIGHEST = np.float32(1 << 8), np.float32(1 << 16)  # what these digits count
FIRST, SECOND, THIRD, FOURTH = factors_of
Rows = tuple[Array, Array, Array, tuple[int, ...]]
"""Of x, see `write_row`: their digits, steps and sums, and a tuple of as many numbers as there are rows."""


def order_of(parts: Any) -> int | None:
    """In which order x is written for matrices of such a layout, see `written`; None if there is no loop for them."""
    if not has_byte_products():
        return None
    order = k_codes.ORDERS.get(type(parts))
    return unit_codes.order_of(parts) if order is None else order


@lru_cache(maxsize=1)
def most_rows() -> int:
    """How many rows are multiplied so at most."""
    return MOST_ROWS if adds_products() and has_wide_bytes() else 1


def takes(rows: int, columns: int) -> bool:
    """Whether so many rows are multiplied so; as measured, matrices are decoded for others."""
    return rows == 1 or (rows <= most_rows() and (rows == 2 or rows * columns <= MOST_TOGETHER))


@compiled
def bytes_of_a_row(columns: int) -> int:
    """How much a row of x takes, see `write_row`: whole lines, as others may lie behind it."""
    return -(-(-(-columns // BLOCK) * BYTES_OF_A_BLOCK) // LINE) * LINE


def count_of(digits: Array) -> int:
    """In how many digits numbers are written: three are bytes without a sign for numba, two with one."""
    raise NotImplementedError


def _one(digits: Array) -> Any:
    """What the largest power of two in a block becomes."""
    raise NotImplementedError


def _write(line: Array, i: int, factor: Any, digits: Array, pair: int, order: int, row: int, rows: int) -> None:
    """Write 64 numbers in digits."""
    raise NotImplementedError


def _of_digits(parts: Any, whole: Any, digits: Array, rows: Any) -> Any:
    """Eight numbers of each row from its sums of three digits; of no more than there are in `digits`."""
    raise NotImplementedError


def _fours(parts: Any, codes: Any, digits: Array, four: int, rows: Any) -> Any:
    """Sums of eight codes times numbers each, of four units and all rows."""
    raise NotImplementedError


@compiled
def write_row(line: Array, x: Any, order: int, row: int, rows: int) -> None:
    """One of so many rows x, float32 [columns], as the loops read it, in an order of `written`.

    x: digits, uint8 [3 x rows x 256 x blocks], of as many blocks as there are with one that is not full, or int8 [2 x
    ...], of all rows in turns: two units at a time, or four. Steps, float32 [blocks x rows], what a block's whole
    numbers are multiplied by. And sums, float32 [3 x 8 x blocks x rows], of units, eight of each row in turns, and
    behind them of halves.
    """
    for block in range(len(x[1]) // rows):
        some, begin = line, BLOCK * block
        if begin + BLOCK > len(line):
            some = np.zeros(BLOCK, np.float32)
            copy(line, begin, some, len(line) - begin)
            begin = 0
        _write_block(some, begin, block, x, order, row, rows)


@compiled
def _write_block(line: Array, begin: int, block: int, x: Any, order: int, row: int, rows: int) -> None:
    digits, steps, sums = x
    one = np.float32(0)
    for unit in range(UNITS):
        one = max(one, power(line, begin + UNIT * unit))
    step = np.float32(0) if one < TINY else one / _one(digits)
    inverse = np.float32(0) if one < TINY else _one(digits) / one
    steps[block * rows + row] = step
    for pair in range(UNITS // 2):
        _write(line, begin + PAIR * pair, inverse, digits, UNITS // 2 * block + pair, order, row, rows)
    own = UNITS * (block * rows + row)
    halves = len(sums) // SUMS_OF_A_UNIT + 2 * UNITS * block * rows
    for unit in range(UNITS):
        i = begin + UNIT * unit
        first, second = half_total(line, i, inverse) * step, half_total(line, i + UNIT // 2, inverse) * step
        sums[own + unit] = first + second
        # Eight halves of each row in turns, and then the other eight.
        at = halves + UNITS * ((unit // 4) * rows + row) + 2 * (unit % 4)
        sums[at], sums[at + 1] = first, second


def multiply(parts: Any, x: Rows, y: Array, begin: int, end: int) -> None:
    """Rows of x times rows [begin, end) of the matrix, into y float32 [rows, all rows of the matrix and more]."""
    raise NotImplementedError


def _multiply_blocks(parts: Any, x: Rows, y: Array, begin: int, end: int) -> None:
    """With a matrix of K types."""
    digits, steps, _, every = x
    blocks, size = len(steps) // len(every), by_layout.bytes_of_a_row(parts)
    distance = max(AHEAD * size, FARTHER)
    for row in range(begin, end):
        found, offset, ahead = no_eight(every), no_eight(every), row * size + distance
        for block in range(blocks):
            for place in range(ahead, ahead + k_codes.bytes_of_a_block(parts), LINE):
                fetch(parts[0], place)
            ahead += k_codes.bytes_of_a_block(parts)
            head, pair = k_codes.head(parts, row, block), UNITS // 2 * block
            factors = k_codes.factors(parts, head)
            whole = no_whole(every), no_whole(every), no_whole(every)
            codes = k_codes.four(parts, row, block, 0)
            whole = with_products(codes[0], FIRST(factors), digits, pair, whole, every)
            whole = with_products(codes[1], SECOND(factors), digits, pair + 1, whole, every)
            codes = k_codes.four(parts, row, block, 1)
            whole = with_products(codes[0], THIRD(factors), digits, pair + 2, whole, every)
            whole = with_products(codes[1], FOURTH(factors), digits, pair + 3, whole, every)
            some = _of_digits(parts, whole, digits, every)
            scale = by_step(k_codes.factor(parts, row, block), steps, block, every)
            found = with_scales(by_steps(some, steps, block, every), scale, found, every)
            offset = k_codes.with_offsets(parts, row, block, head, x, offset)
        _write_totals(totals(found, offset, every), y, row)


@compiled
def _write_totals(found: Any, y: Array, row: int) -> None:
    for each in range(len(found)):
        y[each, row] = found[each]


def _multiply_units(parts: Any, x: Rows, y: Array, begin: int, end: int) -> None:
    """With a matrix each of whose units has a scale of its own."""
    size, whole, every = by_layout.bytes_of_a_row(parts), unit_codes.whole_blocks(parts), x[3]
    distance, has_rest = max(AHEAD * size, FARTHER), whole < len(x[1]) // len(every)
    rests = unit_codes.room_for(parts, RESTS if has_rest else 0)
    for some in range(begin, end, RESTS):
        if has_rest:  # some time before they are read: what was just written is read slowly
            for row in range(some, min(some + RESTS, end)):
                unit_codes.copy_rest(parts, row, whole, rests, row - some)
        for row in range(some, min(some + RESTS, end)):
            ahead, sums = row * size + distance, (no_numbers(every), no_eight(every))
            sums = _with_blocks(parts, unit_codes.line_of(parts, row), 0, whole, x, ahead, sums)
            if has_rest:
                ahead += whole * unit_codes.bytes_of_a_block(parts)
                sums = _with_blocks(parts, unit_codes.rest_of(rests, row - some), whole, 1, x, ahead, sums)
            _write_totals(totals(sums[0], sums[1], every), y, row)


@compiled
def _with_blocks(parts: Any, line: Any, first: int, count: int, x: Rows, ahead: int, sums: Any) -> Any:
    """Sums, and offsets, of rows of x, from a block on, times so many blocks of a line.

    Memory is asked for from a byte on.
    """
    digits, steps, _, every = x
    found, offset = sums
    for at in range(count):
        block = first + at
        for place in range(ahead, ahead + unit_codes.bytes_of_a_block(parts), LINE):
            fetch(parts[0], place)
        ahead += unit_codes.bytes_of_a_block(parts)
        scales = unit_codes.scales(parts, line, at)
        factors = by_step(scales, steps, block, every)
        some = _fours(parts, unit_codes.codes(parts, line, 2 * at), digits, 2 * block, every)
        found = with_scales(by_steps(some, steps, block, every), unit_codes.first_four(parts, factors), found, every)
        some = _fours(parts, unit_codes.codes(parts, line, 2 * at + 1), digits, 2 * block + 1, every)
        found = with_scales(by_steps(some, steps, block, every), unit_codes.last_four(parts, factors), found, every)
        offset = unit_codes.with_offsets(parts, line, at, scales, x, block, offset)
    return found, offset


def _three(digits: Array) -> int:  # noqa: ARG001  # numba looks at names
    return DIGITS


def _two(digits: Array) -> int:  # noqa: ARG001
    return FEWER_DIGITS


def _one_of_three(digits: Array) -> Any:  # noqa: ARG001
    return ONE


def _one_of_two(digits: Array) -> Any:  # noqa: ARG001
    return ONE_OF_FEWER


def _write_three(line: Array, i: int, factor: Any, digits: Array, pair: int, order: int, row: int, rows: int) -> None:
    begin, gap = _places(pair, order, DIGITS, row, rows)
    if order in (BY_UNITS, BY_TURNS):  # numba compiles hashing for a set
        write_by_units(line, i, factor, digits, begin, gap)
    elif order == BY_HALVES:
        write_by_halves(line, i, factor, digits, begin, gap)
    else:
        write_woven(line, i, factor, digits, begin, gap)


def _write_two(line: Array, i: int, factor: Any, digits: Array, pair: int, order: int, row: int, rows: int) -> None:
    begin, gap = _places(pair, order, FEWER_DIGITS, row, rows)
    if order in (BY_UNITS, BY_TURNS):  # numba compiles hashing for a set
        write_fewer_by_units(line, i, factor, digits, begin, gap)
    elif order == BY_HALVES:
        write_fewer_by_halves(line, i, factor, digits, begin, gap)
    else:
        write_fewer_woven(line, i, factor, digits, begin, gap)


@compiled
def _places(pair: int, order: int, count: int, row: int, rows: int) -> tuple[int, int]:
    """Where the lowest digits of two units' first half begin, and how far behind those of the second one do."""
    if order == BY_UNITS:
        return count * PAIR * (pair * rows + row), UNIT
    if order == BY_TURNS:
        return count * PAIR * ((pair & ~1) * rows + row) + UNIT * (pair & 1), count * PAIR * rows
    return count * FOUR * ((pair >> 1) * rows + row) + UNIT * (pair & 1), PAIR


def _separate(parts: Any, whole: Any, digits: Array, rows: Any) -> Any:  # noqa: ARG001
    low, middle, high = eight_sums(whole[0], rows), eight_sums(whole[1], rows), eight_sums(whole[2], rows)
    return with_digit(high, HIGHEST, with_digit(middle, MIDDLE, low, rows), rows)


def _together(parts: Any, whole: Any, digits: Array, rows: Any) -> Any:  # noqa: ARG001
    return eight_sums(two_digits(whole[0], whole[1], rows), rows)


def _fours_of(parts: Any, codes: Any, digits: Array, four: int, rows: Any) -> Any:  # noqa: ARG001
    return fours(codes[0], codes[1], digits, four, rows)


def _wide_fours_of(parts: Any, codes: Any, digits: Array, four: int, rows: Any) -> Any:  # noqa: ARG001
    return wide_fours(codes[0], codes[1], digits, four, rows)


def _is_three(digits: Any) -> bool:
    return bool(digits.dtype is types.uint8)


def _count_of(digits: Array) -> Callable[..., int]:
    return _three if _is_three(digits) else _two


def _one_of(digits: Array) -> Callable[..., Any]:
    return _one_of_three if _is_three(digits) else _one_of_two


def _writing(
    line: Array, i: int, factor: Any, digits: Array, pair: int, order: int, row: int, rows: int  # noqa: ARG001
) -> Callable[..., None]:  # fmt: skip
    return _write_three if _is_three(digits) else _write_two


def _adding_fours(parts: Any, codes: Any, digits: Array, four: int, rows: Any) -> Callable[..., Any]:  # noqa: ARG001
    return _wide_fours_of if parts.instance_class in unit_codes.WIDE else _fours_of


def _of_digits_of(parts: Any, whole: Any, digits: Array, rows: Any) -> Callable[..., Any]:  # noqa: ARG001
    is_small = parts.instance_class in k_codes.SMALL and not _is_three(digits)
    return _together if is_small else _separate


overload(count_of)(_count_of)
overload(_one)(_one_of)
overload(_write)(_writing)
overload(_of_digits)(_of_digits_of)
overload(_fours)(_adding_fours)


def _multiplying(parts: Any, x: Rows, y: Array, begin: int, end: int) -> Callable[..., None]:  # noqa: ARG001
    return _multiply_blocks if parts.instance_class in k_codes.CODES else _multiply_units


overload(multiply)(_multiplying)
