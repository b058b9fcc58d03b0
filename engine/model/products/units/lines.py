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
    CONTRACTED,
    F32,
    I32,
    LANES,
    MANY_BYTES,
    chosen,
    constant,
    eight,
    instruction,
    place_of,
    undefined,
)
from engine.model.products.units.words import (
    HALF_LANES,
    REGISTER,
    ROWS,
    SHORTS,
    UNIT_LANES,
    UNITS,
    Shape,
    item_at,
    multiplied,
    pointer_to,
    scaled,
    turned,
    with_offsets,
)

_ADD = "llvm.x86.avx2.pmadd.wd"


def store_sums(shape: Shape) -> Any:
    """(line, place, x, index, sums, at): write eight whole sums of a row's block, taken apart, with one of x.

    Those of its units, or, where factors are whole, parts of the one of all. `line` and `sums` are bytes.
    """

    def sign(_context: Any, line: Any, _place: Any, x: Any, _index: Any, sums: Any, _at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            here = pointer_to(context, builder, signature.args[0], values[0], values[1])
            there = pointer_to(context, builder, signature.args[2], values[2], values[3])
            target = pointer_to(context, builder, signature.args[4], values[4], values[5])
            found = (_of_the_block if shape.is_whole else _of_units)(builder, shape, here, there)
            builder.store(found, builder.bitcast(target, found.type.as_pointer()), align=1)
            return context.get_dummy_value()

        integer = types.intp
        return types.none(line, integer, x, integer, sums, integer), generate

    return intrinsic(sign)


def _products(builder: Any, here: Any, there: Any, unit: int) -> Any:
    codes, digits = (item_at(builder, place, REGISTER * unit, MANY_BYTES.llvm) for place in (here, there))
    return multiplied(builder, codes, digits)


def _of_the_block(builder: Any, shape: Shape, here: Any, there: Any) -> Any:
    found, parts = constant(eight(I32), 0), 2 if shape.has_halves else 1
    begin = shape.factors_at // ROWS
    for unit in range(UNITS):
        factors = _factors(builder, here, begin + 4 * parts * unit, parts)
        products = _products(builder, here, there, unit)
        found = builder.add(found, instruction(builder, _ADD, eight(I32), products, factors))
    if not shape.zero:
        return found
    lanes_at = HALF_LANES if shape.has_halves else UNIT_LANES
    for part in range(parts):
        factors, lanes = (
            item_at(builder, place, at + REGISTER * part, SHORTS) for place, at in ((here, begin), (there, lanes_at))
        )
        less = instruction(builder, _ADD, eight(I32), factors, lanes)
        found = builder.sub(found, builder.mul(less, constant(less.type, shape.zero)))
    return found


def _factors(builder: Any, here: Any, at: int, parts: int) -> Any:
    """A unit's factor sixteen times, or those of its halves eight times each."""
    words = item_at(builder, here, at, ir.VectorType(I32, parts))
    places = [part for part in range(parts) for _ in range(LANES // parts)]
    return builder.bitcast(chosen(builder, words, undefined(words), places), SHORTS)


def _of_units(builder: Any, shape: Shape, here: Any, there: Any) -> Any:
    found = []
    for unit in range(UNITS):
        products = _products(builder, here, there, unit)
        found.append(instruction(builder, _ADD, eight(I32), products, constant(SHORTS, 1)))
    sums = _added(builder, turned(builder, found))
    if not shape.zero:
        return sums
    lanes = item_at(builder, there, UNIT_LANES, SHORTS)
    less = instruction(builder, _ADD, eight(I32), lanes, constant(SHORTS, shape.zero))
    return builder.sub(sums, less)


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
