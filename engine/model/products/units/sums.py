"""Sixteen registers of sums in float32 at once, and pairs of bfloat16: what attention in pairs is made of.

Needs AVX-512 with its instructions for bfloat16.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products.building import (
    BYTES,
    I16,
    I32,
    MANY,
    chosen,
    constant,
    instruction,
    operation,
    place_of,
    undefined,
    with_arguments,
)
from engine.model.products.units.bfloat_units import Bfloat
from engine.model.products.units.digits import MANY_SHORTS
from engine.model.products.units.sixteen import SIXTEEN_NUMBERS
from engine.model.products.vectors import exponential_of

COUNT = 16
SUMS = types.UniTuple(SIXTEEN_NUMBERS, COUNT)
_WIDE = SIXTEEN_NUMBERS.llvm


def _no_sums() -> Any:
    def sign(_context: Any, _any: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, _values: Any) -> Any:
            return context.make_tuple(builder, SUMS, [constant(_WIDE, 0.0)] * COUNT)

        return SUMS(types.int64), generate

    return intrinsic(with_arguments(sign, 1))


def _loaded() -> Any:
    def sign(_context: Any, array: Any, _index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = place_of(context, builder, signature.args[0], values, _WIDE)
            places = (builder.gep(place, [ir.Constant(I32, each)]) for each in range(COUNT))
            return context.make_tuple(builder, SUMS, [builder.load(each, align=4) for each in places])

        return SUMS(array, types.intp), generate

    return intrinsic(with_arguments(sign, 2))


def _stored() -> Any:
    def sign(_context: Any, array: Any, _index: Any, _sums: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = place_of(context, builder, signature.args[0], values, _WIDE)
            for each in range(COUNT):
                some = builder.extract_value(values[2], each)
                builder.store(some, builder.gep(place, [ir.Constant(I32, each)]), align=4)
            return context.get_dummy_value()

        return types.none(array, types.intp, SUMS), generate

    return intrinsic(with_arguments(sign, 3))


def _added() -> Any:
    def sign(_context: Any, array: Any, _index: Any, _step: Any, _pairs: Any, _sums: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            data = place_of(context, builder, signature.args[0], values[:2], I16)
            kind, pairs = ir.VectorType(Bfloat(), MANY), ir.VectorType(I32, BYTES)
            factor, found, place = builder.bitcast(values[3], kind), [], data
            for each in range(COUNT):
                pair = builder.load(builder.bitcast(place, I32.as_pointer()), align=2)
                one = builder.insert_element(ir.Constant(pairs, ir.Undefined), pair, ir.Constant(I32, 0))
                spread = builder.bitcast(chosen(builder, one, undefined(one), [0] * BYTES), kind)
                sums = builder.extract_value(values[4], each)
                found.append(instruction(builder, "llvm.x86.avx512bf16.dpbf16ps.512", _WIDE, sums, factor, spread))
                place = builder.gep(place, [values[2]])
            return context.make_tuple(builder, SUMS, found)

        return SUMS(array, types.intp, types.intp, MANY_SHORTS, SUMS), generate

    return intrinsic(sign)


no_sums = _no_sums()
"""Zeros."""
loaded_sums = _loaded()
"""256 float32 numbers of an array, from an index on."""
store_sums = _stored()
"""(array, index, sums): write them there."""
added_to_sums = _added()
"""(array, index, step, pairs, sums): to each of the sixteen sums are added the products of sixteen pairs with one pair
of the array's bfloat16: that at the index for the first, `step` numbers later for the next one, and so on."""

most = operation(
    SIXTEEN_NUMBERS, (SIXTEEN_NUMBERS,) * 2, lambda b, one, other: b.select(b.fcmp_ordered(">", one, other), one, other)
)
"""The larger one of each two; the second where one is no number."""
less = operation(SIXTEEN_NUMBERS, (SIXTEEN_NUMBERS,) * 2, lambda builder, a, b: builder.fsub(a, b))
added = operation(SIXTEEN_NUMBERS, (SIXTEEN_NUMBERS,) * 2, lambda builder, a, b: builder.fadd(a, b))
divided = operation(SIXTEEN_NUMBERS, (SIXTEEN_NUMBERS,) * 2, lambda builder, a, b: builder.fdiv(a, b))
exponentials = operation(SIXTEEN_NUMBERS, (SIXTEEN_NUMBERS,), exponential_of)
"""As `vectors.exponential`, of sixteen."""

woven = operation(
    MANY_SHORTS,
    (MANY_SHORTS,),
    lambda b, both: chosen(b, both, undefined(both), [half + at for at in range(BYTES) for half in (0, BYTES)]),
)
"""Of 32 numbers the first sixteen and the last sixteen in turns."""


def _woven_half(begin: int) -> Any:
    places = [half + at for at in range(begin, begin + BYTES) for half in (0, MANY)]
    return operation(MANY_SHORTS, (MANY_SHORTS,) * 2, lambda builder, a, b: chosen(builder, a, b, places))


woven_lower, woven_upper = _woven_half(0), _woven_half(BYTES)
"""The first sixteen numbers of both in turns, or the last ones."""
