"""Vector operations for products in whole numbers: codes of a byte each times numbers of 24 bits, exactly.

A number is written in three digits to the base 256, each a byte with a sign. One instruction multiplies codes without a
sign by digits and adds four products at a time; the sums of the three digits are put together by moving bits. Codes are
at most 63, so that four products of 24 bits have room in 32. LLVM makes two operations of one where registers are
narrower than 64 bytes.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products.building import (
    BYTES,
    F32,
    I16,
    I32,
    LANES,
    MANY,
    MANY_BYTES,
    Vector,
    chosen,
    constant,
    eight,
    load,
    operation,
    place_of,
    undefined,
    with_arguments,
)

DIGITS = 3
ONE = np.float32(1 << 22)  # what `power` of a unit's numbers becomes
ROOM = 1.0078125  # numbers are less than 2 ** 23 by this: so the highest digit has room in a byte
PAIR = 2 * MANY  # codes of two units
SIXTEEN_NUMBERS = Vector("SixteenNumbers", ir.VectorType(F32, BYTES))
PAIR_OF_BYTES = Vector("SixtyFourBytes", ir.VectorType(ir.IntType(8), PAIR))


@lru_cache(maxsize=1)
def features() -> frozenset[str]:
    """What the processor that numba compiles for can do, in LLVM's words."""
    from numba.core.registry import cpu_target  # noqa: PLC0415

    return frozenset(cpu_target.target_context.codegen().magic_tuple()[2].split(","))


def has_byte_products() -> bool:
    """Whether the processor adds products of bytes up: with AVX2 by three operations, with VNNI by one."""
    return "+avx2" in features()


def _function(builder: Any, name: str, result: ir.Type, *arguments: ir.Type) -> Any:
    kind = ir.FunctionType(result, arguments)
    return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)


def _halves(builder: Any, vector: Any) -> list[Any]:
    count = vector.type.count // 2
    return [chosen(builder, vector, undefined(vector), list(range(at, at + count))) for at in (0, count)]


def _whole(builder: Any, halves: list[Any]) -> Any:
    return chosen(builder, halves[0], halves[1], list(range(2 * halves[0].type.count)))


def _sums(builder: Any, codes: Any, digits: list[Any]) -> Any:
    """Sums of four products each, int32 [16], of codes and the digits of as many numbers, the lowest ones first."""
    found = features()
    if "+avx512vnni" in found:
        return _by_one_operation(builder, "llvm.x86.avx512.vpdpbusd.512", codes, digits)
    parts = [_halves(builder, each) for each in (codes, *digits)]
    if "+avxvnni" in found:
        name = "llvm.x86.avx512.vpdpbusd.256"
        return _whole(
            builder, [_by_one_operation(builder, name, some, rest) for some, *rest in zip(*parts, strict=True)]
        )
    return _whole(builder, [_by_pairs(builder, some, rest) for some, *rest in zip(*parts, strict=True)])


def _by_one_operation(builder: Any, name: str, codes: Any, digits: list[Any]) -> Any:
    words = ir.VectorType(I32, codes.type.count // 4)
    multiply = _function(builder, name, words, words, codes.type, codes.type)
    found = builder.call(multiply, [constant(words, 0), codes, digits[-1]])
    for digit in reversed(digits[:-1]):
        found = builder.call(multiply, [builder.shl(found, constant(words, 8)), codes, digit])
    return found


def _by_pairs(builder: Any, codes: Any, digits: list[Any]) -> Any:
    """Two products fit into 16 bits, as codes are at most 63; pairs are added, those of the highest digit by 256."""
    pairs = ir.VectorType(I16, BYTES)
    multiply = _function(builder, "llvm.x86.avx2.pmadd.ub.sw", pairs, MANY_BYTES.llvm, MANY_BYTES.llvm)
    add = _function(builder, "llvm.x86.avx2.pmadd.wd", eight(I32), pairs, pairs)
    products = [builder.call(multiply, [codes, digit]) for digit in digits]
    low, middle, high = (
        builder.call(add, [some, constant(pairs, by)]) for some, by in zip(products, (1, 1, 256), strict=True)
    )
    return builder.add(builder.shl(builder.add(high, middle), constant(eight(I32), 8)), low)


def _times_digits() -> Any:
    def sign(_context: Any, _codes: Any, array: Any, _index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = place_of(context, builder, signature.args[1], values[1:], PAIR_OF_BYTES.llvm)
            places = (builder.gep(place, [ir.Constant(I32, digit)]) for digit in range(DIGITS))
            sums = _sums(builder, values[0], [builder.load(each, align=1) for each in places])
            return builder.sitofp(sums, SIXTEEN_NUMBERS.llvm)

        return SIXTEEN_NUMBERS(PAIR_OF_BYTES, array, types.intp), generate

    return intrinsic(with_arguments(sign, 3))


times_digits = _times_digits()
"""(codes, array, index): 64 codes times as many numbers whose digits begin at a byte; four products are added."""
ones = operation(PAIR_OF_BYTES, (types.int64,), lambda _builder, _any: constant(PAIR_OF_BYTES.llvm, 1))
"""A code of 1 for each number, to add numbers up."""
two_units = operation(
    PAIR_OF_BYTES,
    (MANY_BYTES, MANY_BYTES, types.int64),
    lambda builder, first, second, number: builder.add(_whole(builder, [first, second]), _spread_byte(builder, number)),
)
"""(codes, codes, number): those of two units, each plus a number."""


def _spread_byte(builder: Any, number: Any) -> Any:
    kind = PAIR_OF_BYTES.llvm
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), builder.trunc(number, kind.element), _FIRST)
    return chosen(builder, one, undefined(one), [0] * PAIR)


_FIRST = ir.Constant(I32, 0)


def _write_digits() -> Any:
    def sign(_context: Any, numbers: Any, _index: Any, _factors: Any, array: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            here = place_of(context, builder, signature.args[0], values[:2], eight(F32))
            nearest = _function(builder, "llvm.x86.avx.cvt.ps2dq.256", eight(I32), eight(F32))
            factors = _halves(builder, values[2])
            parts = []
            for at in range(PAIR // LANES):
                some = builder.load(builder.gep(here, [ir.Constant(I32, at)]), align=4)
                parts.append(builder.call(nearest, [builder.fmul(some, factors[at // (MANY // LANES)])]))
            data = context.make_array(signature.args[3])(context, builder, values[3]).data
            start = builder.gep(data, [builder.mul(values[1], ir.Constant(values[1].type, DIGITS))])
            there = builder.bitcast(start, PAIR_OF_BYTES.llvm.as_pointer())
            for digit in range(DIGITS):
                builder.store(_lowest(builder, parts), builder.gep(there, [ir.Constant(I32, digit)]), align=1)
                parts = [_without_lowest(builder, part) for part in parts]
            return context.get_dummy_value()

        return types.none(numbers, types.intp, SIXTEEN_NUMBERS, array), generate

    return intrinsic(with_arguments(sign, 4))


def _lowest(builder: Any, parts: list[Any]) -> Any:
    while len(parts) > 1:
        parts = [_whole(builder, parts[at : at + 2]) for at in range(0, len(parts), 2)]
    return builder.trunc(parts[0], PAIR_OF_BYTES.llvm)


def _without_lowest(builder: Any, part: Any) -> Any:
    """What is left, by 256, when a digit of -128 to 127 is taken away."""
    return builder.ashr(builder.add(part, constant(part.type, 128)), constant(part.type, 8))


write_digits = _write_digits()
"""(numbers, index, factors, array): 64 float32 numbers of two units, from an index on, times the factor of each unit,
to the nearest whole number; of both units the lowest digits, then the middle ones, then the highest."""


def _power(builder: Any, loaded: Any) -> Any:
    """Of the largest magnitude the exponent's bits. As bits, those of no number are the largest."""
    kind = ir.VectorType(I32, MANY)
    bits = builder.and_(builder.bitcast(loaded, kind), constant(kind, 0x7FFFFFFF))
    most = builder.call(_function(builder, "llvm.vector.reduce.smax.v32i32", I32, kind), [bits])
    grown = builder.fmul(builder.bitcast(most, F32), ir.Constant(F32, ROOM))
    return builder.bitcast(builder.and_(builder.bitcast(grown, I32), ir.Constant(I32, 0x7F800000)), F32)


power = load(types.float32, ir.VectorType(F32, MANY), _power)
"""A power of two that all of 32 numbers are less than twice of, by `ROOM`; infinite if one is, or is no number."""


def _spread(count: int) -> Any:
    places = [at // (BYTES // count) for at in range(BYTES)]
    return load(SIXTEEN_NUMBERS, ir.VectorType(F32, count), lambda b, some: chosen(b, some, undefined(some), places))


spread_two, spread_four = _spread(2), _spread(4)
"""Two float32 numbers of an array, each eight times; four of them, each four times."""
each_twice = load(
    SIXTEEN_NUMBERS, eight(F32), lambda b, some: chosen(b, some, undefined(some), [at // 2 for at in range(BYTES)])
)
"""Eight float32 numbers of an array, each twice."""
sixteen_numbers = load(SIXTEEN_NUMBERS, SIXTEEN_NUMBERS.llvm, lambda _, loaded: loaded)
"""Sixteen float32 numbers of an array."""


def _splat(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(SIXTEEN_NUMBERS.llvm, ir.Undefined), number, _FIRST)
    return chosen(builder, one, undefined(one), [0] * BYTES)


def _fused(builder: Any, first: Any, second: Any, third: Any) -> Any:
    return builder.fadd(builder.fmul(first, second, flags=("contract",)), third, flags=("contract",))


many_fused = operation(SIXTEEN_NUMBERS, (SIXTEEN_NUMBERS,) * 3, _fused)
"""a x b + c, rounded once where the processor can."""
many_times = operation(SIXTEEN_NUMBERS, (SIXTEEN_NUMBERS,) * 2, lambda builder, a, b: builder.fmul(a, b))
many_splat = operation(SIXTEEN_NUMBERS, (types.float32,), _splat)
"""One number sixteen times."""


def _total(builder: Any, vector: Any) -> Any:
    while vector.type.count > 2:
        vector = builder.fadd(*_halves(builder, vector))
    return builder.fadd(*(builder.extract_element(vector, ir.Constant(I32, at)) for at in (0, 1)))


many_total = operation(types.float32, (SIXTEEN_NUMBERS,), _total)
"""The sum of all sixteen, in a fixed order."""


def _store() -> Any:
    def sign(_context: Any, array: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = place_of(context, builder, signature.args[0], values, SIXTEEN_NUMBERS.llvm)
            builder.store(values[2], place, align=1)
            return context.get_dummy_value()

        return types.none(array, types.intp, SIXTEEN_NUMBERS), generate

    return intrinsic(with_arguments(sign, 3))


many_store = _store()
"""Write sixteen numbers into an array of float32, from an index on."""
