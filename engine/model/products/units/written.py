"""Writes a row of x in digits, for products in whole numbers: in the order in which a matrix has its codes.

A number is written in three digits to the base 256, each a byte with a sign, or in two. Or it is rounded to 8 bits.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products.building import (
    BYTES,
    F32,
    I8,
    I16,
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
from engine.model.products.units.digits import DIGITS, FEWER_DIGITS, PAIR, ROOM, TURNS
from engine.model.products.units.words import (
    DIGITS_BY_HALVES,
    FOLDED_LANES,
    HALF_LANES,
    HALF_SUMS,
    HALF_TOTALS,
    STEP,
    TURNED_TOTALS,
    UNIT_LANES,
    UNIT_SUMS,
    UNITS,
    WORD,
    folded,
    item_at,
    multiplied,
    pointer_to,
    spread_of,
)
from engine.model.products.vectors import filled

BY_UNITS, BY_HALVES, WOVEN, BY_TURNS = range(4)
"""Two units one behind the other, as in some K types. Or of four units the first halves and then the others, as in
GGUF's units of 32 numbers; or their even numbers and then the odd ones, as where bytes hold one of each. Or the first
one and the third, and then the other two, as in K types of which bytes hold codes of two units."""
FOUR = 2 * PAIR  # numbers of four units
LARGEST = 127  # digit of 8 bits
TINY = 2.0**-100  # the largest number of a block that counts as zeros there
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


def _write_rounded() -> Any:
    def sign(_context: Any, numbers: Any, _index: Any, target: Any, _place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            here = place_of(context, builder, signature.args[0], values[:2], eight(F32))
            there = pointer_to(context, builder, signature.args[2], values[2], values[3])
            _Rounding(builder, here, there).write()
            return context.get_dummy_value()

        return types.none(numbers, types.intp, target, types.intp), generate

    return intrinsic(sign)


class _Rounding:
    """Builds what writes a block of x."""

    def __init__(self, builder: Any, here: Any, there: Any) -> None:
        self._builder, self._there = builder, there
        count = UNITS * MANY // LANES
        self._numbers = [builder.load(builder.gep(here, [ir.Constant(I64, at)]), align=4) for at in range(count)]

    def write(self) -> None:
        builder, most = self._builder, self._largest()
        is_nothing = builder.fcmp_ordered("<", most, ir.Constant(F32, TINY))
        none, largest = ir.Constant(F32, 0.0), ir.Constant(F32, float(LARGEST))
        step = builder.select(is_nothing, none, builder.fdiv(most, largest))
        by = spread_of(builder, builder.select(is_nothing, none, builder.fdiv(largest, most)), eight(F32))
        self._store(STEP, step)
        for unit in range(UNITS):
            some = [builder.fmul(each, by) for each in self._numbers[4 * unit : 4 * unit + 4]]
            whole = [instruction(builder, "llvm.x86.avx.cvt.ps2dq.256", eight(I32), each) for each in some]
            digits = builder.trunc(united(builder, whole), MANY_BYTES.llvm)
            self._store(MANY * unit, digits)
            self._write_halves(unit, digits)
            self._write_sums(unit, digits, step)
        self._write_folded()

    def _largest(self) -> Any:
        """Magnitude. As bits, those of no number are the largest."""
        builder, kind = self._builder, eight(I32)
        bits = [builder.and_(builder.bitcast(each, kind), constant(kind, 0x7FFFFFFF)) for each in self._numbers]
        while len(bits) > 1:
            bits = [instruction(builder, "llvm.smax.v8i32", kind, *bits[at : at + 2]) for at in range(0, len(bits), 2)]
        return builder.bitcast(instruction(builder, "llvm.vector.reduce.smax.v8i32", I32, bits[0]), F32)

    def _write_halves(self, unit: int, digits: Any) -> None:
        """The digits once more: of four units the first halves, and then the other ones."""
        for half in range(2):
            some = chosen(self._builder, digits, undefined(digits), [*range(BYTES * half, BYTES * (half + 1))])
            self._store(DIGITS_BY_HALVES + 4 * MANY * (unit // 4) + 4 * BYTES * half + BYTES * (unit % 4), some)

    def _write_folded(self) -> None:
        """Sums in 16 bits as `folded` has them of products."""
        builder, one, found = self._builder, constant(MANY_BYTES.llvm, 1), []
        for begin in (0, MANY, 4 * MANY, 5 * MANY):  # two units each, whose second halves are a pair of units behind
            places = (DIGITS_BY_HALVES + begin + more for more in (0, PAIR))
            digits = (item_at(builder, self._there, place, MANY_BYTES.llvm) for place in places)
            found.append(builder.add(*(multiplied(builder, one, each) for each in digits)))
        self._store(FOLDED_LANES, folded(builder, found))

    def _write_sums(self, unit: int, digits: Any, step: Any) -> None:
        """What stands beside the digits of a unit."""
        builder = self._builder
        shorts = multiplied(builder, constant(MANY_BYTES.llvm, 1), digits)
        while shorts.type.count > 4:  # both lanes of both halves
            count = shorts.type.count // 2
            half = count // 2
            low = [*range(half), *range(count, count + half)]
            parts = [chosen(builder, shorts, undefined(shorts), [at + more for at in low]) for more in (0, half)]
            shorts = builder.add(*parts)
        self._store(HALF_LANES + 2 * WORD * unit, shorts)
        both = builder.add(*(chosen(builder, shorts, undefined(shorts), places) for places in ([0, 1], [2, 3])))
        self._store(UNIT_LANES + WORD * unit, both)
        wide = builder.sext(shorts, ir.VectorType(I32, 4))
        halves = builder.add(*(chosen(builder, wide, undefined(wide), places) for places in ([0, 2], [1, 3])))
        totals = [builder.extract_element(halves, ir.Constant(I32, half)) for half in range(2)]
        self._write_totals(unit, totals)
        for at, total in enumerate(totals):
            self._store(HALF_SUMS + 4 * (2 * unit + at), builder.fmul(builder.sitofp(total, F32), step))
        self._store(UNIT_SUMS + 4 * unit, builder.fmul(builder.sitofp(builder.add(*totals), F32), step))

    def _write_totals(self, unit: int, halves: Sequence[Any]) -> None:
        """Sums in 16 bits in the order of factors: see `digits.turned_factors`, `digits.half_factors`."""
        builder = self._builder
        for half, total in enumerate(halves):
            self._store(HALF_TOTALS + 2 * (UNITS * half + unit), builder.trunc(total, I16))
        self._store(TURNED_TOTALS + 2 * TURNS[unit], builder.trunc(builder.add(*halves), I16))
        self._store(TURNED_TOTALS + 2 * (UNITS + unit), ir.Constant(I16, 0))  # as factors are there twice

    def _store(self, offset: int, some: Any) -> None:
        place = self._builder.gep(self._there, [ir.Constant(I64, offset)])
        self._builder.store(some, self._builder.bitcast(place, some.type.as_pointer()), align=1)


write_rounded = _write_rounded()
"""(numbers, index, bytes, place): write 256 float32 numbers in 8 bits, see `BLOCK_BYTES`. Their digits: how many steps
each is, of which the largest one has 127. Then sums of these: in 16 bits of both lanes of halves and of units, and as
float32, times the step, of units and of halves. And the step. Behind it what a row of x alone is multiplied by: digits
BY_HALVES, sums of these as `words.folded` has them, and those of units and halves in the order of factors."""
