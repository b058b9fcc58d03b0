"""Writes a row of x in digits, for products in whole numbers: in the order in which a matrix has its codes.

A number is written in three digits to the base 256, each a byte with a sign, or in two.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products.building import (
    F32,
    I8,
    I32,
    I64,
    LANES,
    MANY,
    MANY_BYTES,
    chosen,
    constant,
    eight,
    instruction,
    load,
    place_of,
    undefined,
    united,
    with_arguments,
)
from engine.model.products.units.digits import DIGITS, FEWER_DIGITS, PAIR, ROOM
from engine.model.products.vectors import filled

BY_UNITS, BY_HALVES, WOVEN, BY_TURNS = range(4)
"""Two units one behind the other, as in some K types. Or of four units the first halves and then the others, as in
GGUF's units of 32 numbers; or their even numbers and then the odd ones, as where bytes hold one of each. Or the first
one and the third, and then the other two, as in K types of which bytes hold codes of two units."""
FOUR = 2 * PAIR  # numbers of four units
HALVES = [0, 1, 4, 5, 2, 3, 6, 7]  # of two units, each of four times eight numbers: first halves, then the others


def _whole_numbers(builder: Any, here: Any, count: int, factor: Any) -> list[Any]:
    """So many numbers times a factor, to the nearest whole ones, eight at a time."""
    by, found = filled(builder, factor, eight(F32)), []
    for at in range(count // LANES):
        some = builder.load(builder.gep(here, [ir.Constant(I32, at)]), align=4)
        found.append(instruction(builder, "llvm.x86.avx.cvt.ps2dq.256", eight(I32), builder.fmul(some, by)))
    return found


def _writing(count: int, order: int) -> Any:
    def sign(_context: Any, numbers: Any, _index: Any, _factor: Any, array: Any, _place: Any, _gap: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            here = place_of(context, builder, signature.args[0], values[:2], eight(F32))
            parts = _whole_numbers(builder, here, PAIR, values[2])
            if order == BY_HALVES:
                parts = [parts[at] for at in HALVES]
            begin = place_of(context, builder, signature.args[3], values[3:5], I8)
            step = PAIR if order == BY_UNITS else FOUR
            for digit in range(count):
                lowest = builder.trunc(united(builder, parts), ir.VectorType(I8, PAIR))
                if order == WOVEN:
                    lowest = chosen(builder, lowest, undefined(lowest), [*range(0, PAIR, 2), *range(1, PAIR, 2)])
                for half in range(2):
                    some = chosen(builder, lowest, undefined(lowest), [*range(half * MANY, (half + 1) * MANY)])
                    there = builder.gep(begin, [builder.mul(values[5], ir.Constant(I64, half))])
                    there = builder.gep(there, [ir.Constant(I64, digit * step)])
                    builder.store(some, builder.bitcast(there, MANY_BYTES.llvm.as_pointer()), align=1)
                parts = [_without_lowest(builder, part) for part in parts]
            return context.get_dummy_value()

        return types.none(numbers, types.intp, types.float32, array, types.intp, types.intp), generate

    return intrinsic(with_arguments(sign, 6))


def _without_lowest(builder: Any, part: Any) -> Any:
    """What is left, by 256, when a digit of -128 to 127 is taken away."""
    return builder.ashr(builder.add(part, constant(part.type, 128)), constant(part.type, 8))


write_by_units, write_by_halves, write_woven = (_writing(DIGITS, order) for order in (BY_UNITS, BY_HALVES, WOVEN))
"""(numbers, index, factor, array, place, gap): 64 float32 numbers of two units, from an index on, times a factor, to
the nearest whole number, in digits; of the lowest digits the first half begins at a byte, and the other one so many
bytes behind."""
write_fewer_by_units, write_fewer_by_halves, write_fewer_woven = (
    _writing(FEWER_DIGITS, order) for order in (BY_UNITS, BY_HALVES, WOVEN)
)
"""The same in fewer digits."""


def _half_total() -> Any:
    def sign(_context: Any, numbers: Any, _index: Any, _factor: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            here = place_of(context, builder, signature.args[0], values[:2], eight(F32))
            parts = _whole_numbers(builder, here, MANY // 2, values[2])
            whole = instruction(builder, f"llvm.vector.reduce.add.v{LANES}i32", I32, builder.add(*parts))
            return builder.sitofp(whole, F32)

        return types.float32(numbers, types.intp, types.float32), generate

    return intrinsic(with_arguments(sign, 3))


half_total = _half_total()
"""(numbers, index, factor): the sum of half a unit's whole numbers, see `write_by_units`."""


def _power(builder: Any, loaded: Any) -> Any:
    """Of the largest magnitude the exponent's bits. As bits, those of no number are the largest."""
    kind = ir.VectorType(I32, MANY)
    bits = builder.and_(builder.bitcast(loaded, kind), constant(kind, 0x7FFFFFFF))
    most = instruction(builder, "llvm.vector.reduce.smax.v32i32", I32, bits)
    grown = builder.fmul(builder.bitcast(most, F32), ir.Constant(F32, ROOM))
    return builder.bitcast(builder.and_(builder.bitcast(grown, I32), ir.Constant(I32, 0x7F800000)), F32)


power = load(types.float32, ir.VectorType(F32, MANY), _power)
"""A power of two that all of 32 numbers are less than twice of, by `ROOM`; infinite if one is, or is no number."""
