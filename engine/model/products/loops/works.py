"""Loops that multiply no matrix, by the names of their work: each is compiled when it is first asked for."""

from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numba import types

from engine.model.products.addresses import floats, integers, look, octets, shorts, signed_octets
from engine.model.products.compiling import callback, compiled
from engine.model.products.loops import (
    attending,
    attending_pairs,
    between,
    groups,
    kernels,
    likeliest,
    pairs,
    rounded,
    steps,
    whole_numbers,
)
from engine.model.products.loops.shares import BEGIN, COLUMNS, END, MATRIX, ROWS, WIDTH, X, Y
from engine.model.products.units.digits import DIGITS, FEWER_DIGITS


@compiled
def spread(place: Any, columns: Any, rows: Any) -> Any:
    """Room for rows in whole numbers at an address: see `whole_numbers.write_row`."""
    blocks = -(-columns // kernels.BLOCK) * rows
    digits, numbers = DIGITS * kernels.BLOCK * blocks, place + DIGITS * kernels.BLOCK * blocks
    count = whole_numbers.SUMS_OF_A_UNIT * kernels.UNITS * blocks
    steps, sums = numba.carray(floats(numbers), blocks), numba.carray(floats(numbers + 4 * blocks), count)
    return numba.carray(octets(place), digits), steps, sums


@compiled
def fewer(place: Any, steps: Any) -> Any:
    return numba.carray(signed_octets(place), FEWER_DIGITS * kernels.BLOCK * len(steps))


def _written_byte_row(place: Any, _matrix: Any) -> None:
    step = numba.carray(integers(place), steps.STEP)
    line, size = numba.carray(floats(step[1]), step[2]), rounded.bytes_of_a_row(step[2])
    rounded.round_row(line, numba.carray(octets(step[3]), size))


def _written_bytes(share: Any, _matrix: Any) -> None:
    columns = look(share + 8 * COLUMNS)
    size, numbers = rounded.bytes_of_a_row(columns), _row_numbers(share)
    for row in range(look(share + 8 * BEGIN), look(share + 8 * END)):
        x = look(share + 8 * X) + 4 * columns * (numbers[row] if len(numbers) else row)
        line = numba.carray(floats(x), columns)
        rounded.round_row(line, numba.carray(octets(look(share + 8 * Y) + size * row), size))


@compiled
def _write_whole(x: Any, columns: Any, place: Any, is_short: Any, order: Any, row: Any, rows: Any) -> None:
    line, (digits, steps, sums) = numba.carray(floats(x), columns), spread(place, columns, rows)
    if is_short:
        whole_numbers.write_row(line, (fewer(place, steps), steps, sums), order, row, rows)
    else:
        whole_numbers.write_row(line, (digits, steps, sums), order, row, rows)


def _written_rows(share: Any, _matrix: Any) -> None:
    rows, columns, kind = look(share + 8 * ROWS), look(share + 8 * COLUMNS), look(share + 8 * WIDTH)
    y, size, is_short, order = look(share + 8 * Y), whole_numbers.bytes_of_a_row(columns), kind % 2 != 0, kind // 2
    numbers = _row_numbers(share)
    for row in range(look(share + 8 * BEGIN), look(share + 8 * END)):
        x = look(share + 8 * X) + 4 * columns * (numbers[row] if len(numbers) else row)
        together = 4 if rows == 4 else 2 if rows > 1 and row < 2 else 1
        first = row if together == 1 else 0
        _write_whole(x, columns, y + first * size, is_short, order, row - first, together)


def _written_row(place: Any, _matrix: Any) -> None:
    step = numba.carray(integers(place), steps.STEP)
    # No plain 0 and 1: numba would compile all of it once more for these.
    _write_whole(step[1], step[2], step[3], step[4] != 0, step[5], np.int64(0), np.int64(1))


def _attended(share: Any, _matrix: Any) -> None:
    attending.attend(look(share + 8 * MATRIX), look(share + 8 * BEGIN), look(share + 8 * END))


def _attended_narrow(share: Any, _matrix: Any) -> None:
    attending.attend_narrow(look(share + 8 * MATRIX), look(share + 8 * BEGIN), look(share + 8 * END))


def _attended_in_pairs(share: Any, _matrix: Any) -> None:
    attending_pairs.attend(look(share + 8 * MATRIX), look(share + 8 * BEGIN), look(share + 8 * END))


def _gated(share: Any, _matrix: Any) -> None:
    begin = look(share + 8 * BEGIN)
    x, y = look(share + 8 * X) + 4 * begin, look(share + 8 * Y) + 4 * begin
    between.gate(x, y, x, look(share + 8 * END) - begin)


def _packed(share: Any, _matrix: Any) -> None:
    rows, columns = look(share + 8 * ROWS), look(share + 8 * COLUMNS)
    x = numba.carray(floats(look(share + 8 * X)), (rows, columns))
    packed = numba.carray(floats(look(share + 8 * Y)), rows * columns)
    kernels.pack(x, _row_numbers(share), packed, look(share + 8 * BEGIN), look(share + 8 * END))


def _packed_pairs(share: Any, _matrix: Any) -> None:
    rows, columns = look(share + 8 * ROWS), look(share + 8 * COLUMNS)
    x = numba.carray(floats(look(share + 8 * X)), (rows, columns))
    packed = numba.carray(shorts(look(share + 8 * Y)), rows * columns)
    pairs.pack_wide(x, _row_numbers(share), packed, look(share + 8 * BEGIN), look(share + 8 * END))


def _copied(share: Any, _matrix: Any) -> None:
    columns, numbers = look(share + 8 * COLUMNS), _row_numbers(share)
    for row in range(look(share + 8 * BEGIN), look(share + 8 * END)):
        line = numba.carray(floats(look(share + 8 * X) + 4 * columns * numbers[row]), columns)
        kernels.copy(line, 0, numba.carray(floats(look(share + 8 * Y) + 4 * columns * row), columns), columns)


@compiled
def _row_numbers(share: Any) -> Any:
    """Where in x each row of a share is, as told at `MATRIX`; none if they lie one behind the other."""
    place = look(share + 8 * MATRIX)
    return numba.carray(integers(place), look(share + 8 * ROWS) if place else 0)


def _gated_pairs(share: Any, _matrix: Any) -> None:
    groups.gate(look(share + 8 * MATRIX), look(share + 8 * BEGIN), look(share + 8 * END))


def _likeliest(share: Any, _matrix: Any) -> None:
    likeliest.find(look(share + 8 * MATRIX), look(share + 8 * BEGIN), look(share + 8 * END))


def _mixed_rows(share: Any, _matrix: Any) -> None:
    groups.mix(look(share + 8 * MATRIX), look(share + 8 * BEGIN), look(share + 8 * END))


WORKS = {
    "attention": _attended,
    "narrow attention": _attended_narrow,
    "attention in pairs": _attended_in_pairs,
    "gate": _gated,
    "pack": _packed,
    "pairs": _packed_pairs,
    "digits": _written_rows,
    "bytes": _written_bytes,
    "copy": _copied,
    "gate pairs": _gated_pairs,
    "mix rows": _mixed_rows,
    "likeliest": _likeliest,
    steps.WITH_LOOPS[steps.DIGITS]: _written_row,
    steps.WITH_LOOPS[steps.BYTES]: _written_byte_row,
    **steps.LOOPS,
}
"""By their names; see `loop_for`."""


@lru_cache
def loop_for(work: str) -> int:
    """The address of a loop that multiplies no matrix, by the name of its work.

    "attention", "narrow attention" (of keys and values in bfloat16) and "attention in pairs": of heads, or parts of
    them, told at `MATRIX`; "gate": of numbers at X and Y; "pack" and "pairs": blocks of the columns of x at X into Y,
    see `kernels.pack` and `pairs.pack_wide`; "digits": one to four rows of it, at `WIDTH` whether in fewer ones, and
    twice their order; "bytes": rows of it in 8 bits; "copy": rows of it. Where these five find rows that do not lie one
    behind the other, stands at `MATRIX`. "gate pairs" and "mix rows": see `groups`; "likeliest": of rows of logits, see
    `likeliest.find`; others are steps, see `steps.WITH_LOOPS`.
    """
    made = _loops[work] = callback(types.void(types.int64, types.CPointer(types.int64)), WORKS[work])
    return int(made.address)


_loops: dict[str, Any] = {}
