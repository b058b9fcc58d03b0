"""Vector operations on a block of one row of a matrix at a time, for products with one row of x in 8 bits.

Whole sums are those of `words`, which are exact in any order; what becomes of them in float32 is done in its order, of
eight rows at a time. So a row of x has the same bits alone and among others.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products.building import (
    BYTES,
    CONTRACTED,
    EIGHT_NUMBERS,
    F32,
    I32,
    LANES,
    MANY,
    MANY_BYTES,
    chosen,
    constant,
    eight,
    instruction,
    place_of,
    undefined,
    united,
)
from engine.model.products.units.digits import (
    PAIR,
    PAIR_OF_BYTES,
    SUMS,
    TURNS,
    adds_products,
    factors_of_pair,
    halves_of,
    plus_bytes,
    plus_products,
)
from engine.model.products.units.digits import multiplied as products_of
from engine.model.products.units.words import (
    DIGITS_BY_HALVES,
    FOLDED_LANES,
    HALF_TOTALS,
    REGISTER,
    ROWS,
    SHORTS,
    TURNED_TOTALS,
    Shape,
    folded,
    item_at,
    pointer_to,
    scaled,
    turned,
    with_offsets,
)

_ADD = "llvm.x86.avx2.pmadd.wd"


def store_sums_of_units(shape: Shape) -> Any:
    """(low, high, low, high, x, index, sums, at): write eight whole sums, those of the units of a row's block.

    low, high: codes of four units, see `unit_codes.codes`, and of the other four. `sums` are bytes.
    """

    def sign(
        _context: Any, low: Any, high: Any, later_low: Any, later_high: Any, x: Any, _index: Any, sums: Any, _at: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            there = pointer_to(context, builder, signature.args[4], values[4], values[5])
            target = pointer_to(context, builder, signature.args[6], values[6], values[7])
            found = _of_units(builder, shape, (values[:2], values[2:4]), there)
            builder.store(found, builder.bitcast(target, found.type.as_pointer()), align=1)
            return context.get_dummy_value()

        integer = types.intp
        return types.none(low, high, later_low, later_high, x, integer, sums, integer), generate

    return intrinsic(sign)


def _of_units(builder: Any, shape: Shape, codes: Sequence[Sequence[Any]], there: Any) -> Any:
    found, lanes = [], item_at(builder, there, FOLDED_LANES, SHORTS)
    for four, some in enumerate(codes):
        digits = [
            item_at(builder, there, DIGITS_BY_HALVES + 2 * PAIR * four + PAIR * half, PAIR_OF_BYTES.llvm)
            for half in range(2)
        ]
        found += halves_of(builder, _products(builder, some, digits))
    sums = folded(builder, found)
    if sums.type == SHORTS:
        less = builder.mul(lanes, constant(SHORTS, shape.zero))
        whole = instruction(builder, _ADD, eight(I32), builder.sub(sums, less), constant(SHORTS, 1))
    else:
        whole = builder.sub(sums, instruction(builder, _ADD, eight(I32), lanes, constant(SHORTS, shape.zero)))
    return chosen(builder, whole, undefined(whole), [0, 4, 1, 5, 2, 6, 3, 7])


def _products(builder: Any, codes: Sequence[Any], digits: Sequence[Any]) -> Any:
    """Of four units both halves together: four sums in 32 bits of each, or eight in 16."""
    if adds_products():
        sums = constant(ir.VectorType(I32, BYTES), 0)
        for some, numbers in zip(codes, digits, strict=True):
            sums = plus_bytes(builder, sums, some, numbers)
        return sums
    return builder.add(*(products_of(builder, some, numbers) for some, numbers in zip(codes, digits, strict=True)))


def store_sums_of_blocks(shape: Shape, is_by_turns: bool) -> Any:
    """(codes, codes, codes, codes, factors, x, index, sums, at): write parts of the whole sum of a row's block.

    codes: of two units each, one behind the other or `is_by_turns`, see `k_codes.four`. `sums` are bytes.
    """

    def sign(
        _context: Any, one: Any, two: Any, three: Any, four: Any, factors: Any, x: Any, _index: Any, sums: Any, _at: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            there = pointer_to(context, builder, signature.args[5], values[5], values[6])
            target = pointer_to(context, builder, signature.args[7], values[7], values[8])
            found = _of_block(builder, shape, is_by_turns, values[:4], values[4], there)
            builder.store(found, builder.bitcast(target, found.type.as_pointer()), align=1)
            return context.get_dummy_value()

        integer = types.intp
        return types.none(one, two, three, four, factors, x, integer, sums, integer), generate

    return intrinsic(sign)


def _of_block(builder: Any, shape: Shape, is_by_turns: bool, codes: Sequence[Any], factors: Any, there: Any) -> Any:
    found = constant(SUMS.llvm, 0)
    for pair, some in enumerate(codes):
        units = [TURNS[2 * pair + each] if is_by_turns else 2 * pair + each for each in range(2)]
        digits = united(builder, [item_at(builder, there, MANY * unit, MANY_BYTES.llvm) for unit in units])
        by = factors_of_pair(builder, factors, pair)
        found = plus_products(builder, products_of(builder, some, digits), by, found)
    if found.type.count > LANES:
        found = builder.add(*halves_of(builder, found))
    if shape.zero:
        totals = item_at(builder, there, HALF_TOTALS if shape.has_halves else TURNED_TOTALS, SHORTS)
        less = instruction(builder, _ADD, eight(I32), totals, factors)
        found = builder.sub(found, builder.mul(less, constant(less.type, shape.zero)))
    return found


def _store_first() -> Any:
    def sign(_context: Any, array: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            one = builder.extract_element(values[2], ir.Constant(I32, 0))
            start = pointer_to(context, builder, signature.args[0], values[0], values[1])
            builder.store(one, builder.bitcast(start, one.type.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.none(array, types.intp, EIGHT_NUMBERS), generate

    return intrinsic(sign)


store_first = _store_first()
"""(bytes, index, eight numbers): write the first one."""


def _added(builder: Any, sums: Sequence[Any]) -> Any:
    return reduce(builder.add, sums)


def add_lines(shape: Shape) -> Any:
    """(matrix, place, x, index, sums, at, y, to): y, float32, with the block's sums, and offsets, of eight rows.

    matrix: see `words.add_block`, of which only factors, offsets and scales are read; `sums`: bytes, what `store_sums`
    wrote of the rows.
    """

    def sign(
        _context: Any, matrix: Any, _place: Any, x: Any, _index: Any, sums: Any, _at: Any, y: Any, _to: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            here = pointer_to(context, builder, signature.args[0], values[0], values[1])
            there = pointer_to(context, builder, signature.args[2], values[2], values[3])
            source = pointer_to(context, builder, signature.args[4], values[4], values[5])
            out = place_of(context, builder, signature.args[6], values[6:8], eight(F32))
            rows = turned(builder, [item_at(builder, source, REGISTER * row, eight(I32)) for row in range(ROWS)])
            whole = _added(builder, rows) if shape.is_whole else _by_scales(builder, shape, here, rows)
            some = scaled(builder, shape, here, there, whole)
            found = builder.fadd(some, builder.load(out, align=4), flags=CONTRACTED)
            builder.store(with_offsets(builder, shape, here, there, found), out, align=4)
            return context.get_dummy_value()

        integer = types.intp
        return types.none(matrix, integer, x, integer, sums, integer, y, integer), generate

    return intrinsic(sign)


def _by_scales(builder: Any, shape: Shape, here: Any, units: Sequence[Any]) -> Any:
    found = constant(eight(F32), 0.0)
    for unit, whole in enumerate(units):
        scales = item_at(builder, here, shape.factors_at + REGISTER * unit, eight(F32), REGISTER)
        some = builder.fmul(builder.sitofp(whole, eight(F32)), scales, flags=CONTRACTED)
        found = builder.fadd(some, found, flags=CONTRACTED)
    return found
