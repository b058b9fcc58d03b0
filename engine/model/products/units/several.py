"""Vector operations for several rows of x at once: each has so many lanes of one wide vector, row behind row.

How many rows there are is known when loops are compiled: a tuple of as many numbers says so, the last argument here.
LLVM cuts such vectors into registers. What belongs to the matrix is the same for all rows, and is repeated.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products.building import (
    BYTES,
    CONTRACTED,
    F32,
    I32,
    LANES,
    Vector,
    chosen,
    constant,
    eight,
    place_of,
    undefined,
    united,
    with_arguments,
)
from engine.model.products.units.digits import (
    DIGITS,
    FEWER_DIGITS,
    PAIR,
    PAIR_OF_BYTES,
    SUMS,
    eight_of,
    multiplied,
    plus_products,
)
from engine.model.products.units.fours import fours_of

_SUMS = SUMS.llvm.count


@lru_cache
def _of_rows(lanes: int, rows: int, kind: ir.Type) -> Vector:
    """So many lanes of each row."""
    return Vector(f"{rows}Times{lanes}{kind}", ir.VectorType(kind, rows * lanes))


def _operation(arguments: int, sign: Callable[..., Any]) -> Any:
    """`sign` is given the types of all arguments, and how many rows there are; returns a signature and what builds."""

    def signing(_context: Any, *given: Any) -> Any:
        return sign(given[-1].count, *given)

    return intrinsic(with_arguments(signing, arguments))


def _part(builder: Any, vector: Any, row: int, rows: int) -> Any:
    lanes = vector.type.count // rows
    return vector if rows == 1 else chosen(builder, vector, undefined(vector), [*range(row * lanes, (row + 1) * lanes)])


def _zeros(lanes: int, kind: ir.Type) -> Any:
    def sign(rows: int, marker: Any) -> Any:
        found = _of_rows(lanes, rows, kind)
        return found(marker), lambda _c, _builder, _s, _values: constant(found.llvm, 0)

    return _operation(1, sign)


no_numbers, no_eight, no_whole = _zeros(BYTES, F32), _zeros(LANES, F32), _zeros(_SUMS, I32)
"""Zeros: sixteen or eight numbers of each row, and as many whole ones as `digits.SUMS` has."""


def _place(context: Any, builder: Any, kind: Any, values: Sequence[Any], content: ir.Type, step: int) -> Any:
    """A pointer to an item of an array, whose index counts `step` items of each row."""
    at = builder.mul(values[1], ir.Constant(values[1].type, step))
    return place_of(context, builder, kind, (values[0], at), content)


def _fours(is_wide: bool) -> Any:
    def sign(rows: int, low: Any, high: Any, array: Any, index: Any, marker: Any) -> Any:
        found, count = _of_rows(BYTES, rows, F32), _digits_of(array)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            size = 2 * PAIR * rows * count
            start = _place(context, builder, signature.args[2], values[2:4], PAIR_OF_BYTES.llvm, size)
            places = [builder.gep(start, [ir.Constant(I32, 2 * count * row)]) for row in range(rows)]
            return united(builder, [fours_of(builder, values[:2], place, count, is_wide) for place in places])

        return found(low, high, array, index, marker), generate

    return _operation(5, sign)


def _digits_of(array: Any) -> int:
    """In how many digits numbers are written: three are bytes without a sign for numba, two with one."""
    return DIGITS if array.dtype is types.uint8 else FEWER_DIGITS


fours, wide_fours = _fours(is_wide=False), _fours(is_wide=True)
"""(low, high, digits, index, rows): see `fours.fours_of`; the index counts four units of all rows."""


def _with_products() -> Any:
    def sign(rows: int, codes: Any, factors: Any, array: Any, index: Any, sums: Any, marker: Any) -> Any:
        count = _digits_of(array)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            start = _place(context, builder, signature.args[2], values[2:4], PAIR_OF_BYTES.llvm, rows * count * PAIR)
            old = [builder.extract_value(values[4], digit) for digit in range(DIGITS)]
            found = []
            for digit in range(count):
                parts = []
                for row in range(rows):
                    here = builder.load(builder.gep(start, [ir.Constant(I32, count * row + digit)]), align=1)
                    products = multiplied(builder, values[0], here)
                    parts.append(plus_products(builder, products, values[1], _part(builder, old[digit], row, rows)))
                found.append(united(builder, parts))
            return context.make_tuple(builder, signature.return_type, [*found, *old[count:]])

        return sums(codes, factors, array, index, sums, marker), generate

    return _operation(6, sign)


with_products = _with_products()
"""(codes, factors, digits, index, sums, rows): of three digits' sums these with the products of two units, codes times
numbers times factors; the index counts two units of all rows."""


def _eight_sums() -> Any:
    def sign(rows: int, some: Any, marker: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            parts = [eight_of(builder, _part(builder, values[0], row, rows)) for row in range(rows)]
            return united(builder, parts)

        return _of_rows(LANES, rows, F32)(some, marker), generate

    return _operation(2, sign)


def _two_digits() -> Any:
    def sign(_rows: int, low: Any, high: Any, marker: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            return builder.add(values[0], builder.shl(values[1], constant(low.llvm, 8)))

        return low(low, high, marker), generate

    return _operation(3, sign)


two_digits = _two_digits()
"""(sums, sums of the higher digit, rows): both together, where these have room."""
eight_sums = _eight_sums()
"""(sums, rows): eight numbers of each row, the same for registers of any size."""


def _step_at(context: Any, builder: Any, kind: Any, values: Sequence[Any], rows: int, lanes: int) -> Any:
    """Of each row its step of a block, in so many lanes."""
    start, parts = _place(context, builder, kind, values, F32, rows), []
    for row in range(rows):
        step = builder.load(builder.gep(start, [ir.Constant(I32, row)]), align=4)
        one = builder.insert_element(ir.Constant(ir.VectorType(F32, lanes), ir.Undefined), step, ir.Constant(I32, 0))
        parts.append(chosen(builder, one, undefined(one), [0] * lanes))
    return united(builder, parts)


def _by_steps(alone: bool) -> Any:
    def sign(rows: int, some: Any, steps: Any, index: Any, marker: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            if alone != (rows == 1):
                return values[0]
            lanes = some.llvm.count // rows
            by = _step_at(context, builder, signature.args[1], values[1:3], rows, lanes)
            return builder.fmul(values[0], by)

        return some(some, steps, index, marker), generate

    return _operation(4, sign)


by_steps, by_step = _by_steps(alone=False), _by_steps(alone=True)
"""(numbers, steps, index, rows): sums of several rows by each one's step of a block; and, where one is alone, scales by
that: these are fewer. Steps are powers of two, so bits are the same."""


def _repeated(builder: Any, some: Any, rows: int) -> Any:
    return united(builder, [some] * rows)


def _with_scales() -> Any:
    def sign(rows: int, some: Any, scales: Any, sums: Any, marker: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            by = _repeated(builder, values[1], rows)
            return builder.fadd(builder.fmul(values[0], by, flags=CONTRACTED), values[2], flags=CONTRACTED)

        return sums(some, scales, sums, marker), generate

    return _operation(4, sign)


with_scales = _with_scales()
"""(numbers, scales, sums, rows): sums, and numbers of each row times the same scales."""


def _with_digit() -> Any:
    def sign(_rows: int, some: Any, number: Any, sums: Any, marker: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            kind = some.llvm
            one = builder.insert_element(ir.Constant(kind, ir.Undefined), values[1], ir.Constant(I32, 0))
            by = chosen(builder, one, undefined(one), [0] * kind.count)
            return builder.fadd(builder.fmul(values[0], by, flags=CONTRACTED), values[2], flags=CONTRACTED)

        return sums(some, number, sums, marker), generate

    return _operation(4, sign)


with_digit = _with_digit()
"""(numbers, number, sums, rows): sums, and the numbers times one that is the same for all."""


def _with_sums() -> Any:
    def sign(rows: int, eight_: Any, sums: Any, index: Any, offset: Any, marker: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            start = place_of(context, builder, signature.args[1], values[1:3], eight(F32))
            loaded = [builder.load(builder.gep(start, [ir.Constant(I32, row)]), align=4) for row in range(rows)]
            some = builder.fmul(_repeated(builder, values[0], rows), united(builder, loaded), flags=CONTRACTED)
            return builder.fadd(some, values[3], flags=CONTRACTED)

        return offset(eight_, sums, index, offset, marker), generate

    return _operation(5, sign)


with_sums = _with_sums()
"""(eight numbers, sums, index, offset, rows): offset, and the numbers times eight sums of each row from an index on."""


def _totals() -> Any:
    def sign(rows: int, some: Any, others: Any, marker: Any) -> Any:
        kind = types.UniTuple(types.float32, rows)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            whole = builder.fadd(*(_added_up(builder, each, rows) for each in values[:2]))
            found = [builder.extract_element(whole, ir.Constant(I32, row)) for row in range(rows)]
            return context.make_tuple(builder, signature.return_type, found)

        return kind(some, others, marker), generate

    return _operation(3, sign)


def _added_up(builder: Any, vector: Any, rows: int) -> Any:
    """The sum of each row's lanes, in a fixed order: a half to the other one, and so on."""
    while (lanes := vector.type.count // rows) > 1:
        half = lanes // 2
        parts = [[row * lanes + begin + lane for row in range(rows) for lane in range(half)] for begin in (0, half)]
        vector = builder.fadd(*(chosen(builder, vector, undefined(vector), places) for places in parts))
    return vector


totals = _totals()
"""(sixteen or eight numbers, eight numbers, rows): of each row the sum of all of them."""
