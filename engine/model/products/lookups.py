"""Tables of sixteen numbers in compiled code: codes of 4 bits to what they stand for, 32 at a time.

With AVX-512 a table lies in two registers, times what scales it, and one instruction finds eight numbers. With AVX2
each byte of the numbers is looked up for all codes; elsewhere number by number. The bits are the same.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products.building import (
    BYTES,
    CONTRACTED,
    EIGHT_NUMBERS,
    F32,
    I8,
    I32,
    LANES,
    MANY,
    SIXTEEN_BYTES,
    chosen,
    constant,
    eight,
    place_of,
    twice,
    undefined,
    with_arguments,
)
from engine.model.products.layouts import Unit
from engine.model.products.vectors import brought, looked_up, widened

FOUR = types.UniTuple(EIGHT_NUMBERS, 4)
Halves = tuple[Any, Any]
"""Two values of LLVM: twice sixteen bytes, or eight numbers of a table and eight more."""


def _has(context: Any, feature: str) -> bool:
    return feature in context.codegen().magic_tuple()[2].split(",")


def _by_permutation(builder: Any, table: Halves, codes: Halves) -> list[Any]:
    """Of each byte the lowest four bits count."""
    kind = ir.FunctionType(eight(F32), [eight(F32), eight(I32), eight(F32)])
    name = "llvm.x86.avx512.vpermi2var.ps.256"
    find = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    places = [brought(builder, half, begin, 0) for half in codes for begin in (0, LANES)]
    return [builder.call(find, [table[0], each, table[1]]) for each in places]


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.fadd(builder.fmul(a, b, flags=CONTRACTED), c, flags=CONTRACTED)


def _stretched_four_bits() -> Any:
    def sign(_context: Any, *_given: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            codes, factor, offset = (values[0], values[1]), values[2], values[3]
            if _has(context, "+avx512vl"):
                wholes = ([float(begin + lane) for lane in range(LANES)] for begin in (0, LANES))
                parts = (ir.Constant(eight(F32), whole) for whole in wholes)
                first, second = (_fused(builder, part, factor, offset) for part in parts)
                found = _by_permutation(builder, (first, second), codes)
            else:
                bring = brought if _has(context, "+avx2") else widened
                whole = [bring(builder, half, begin, 0) for half in codes for begin in (0, LANES)]
                found = [_fused(builder, builder.sitofp(each, eight(F32)), factor, offset) for each in whole]
            return context.make_tuple(builder, FOUR, found)

        return FOUR(SIXTEEN_BYTES, SIXTEEN_BYTES, EIGHT_NUMBERS, EIGHT_NUMBERS), generate

    return intrinsic(with_arguments(sign, 4))


stretched_four_bits: Callable[..., Unit] = _stretched_four_bits()
"""(codes, codes, factor, offset): twice sixteen codes less than 16 times a factor plus an offset, rounded once."""


def _scaled_levels(count: int) -> Any:
    def sign(_context: Any, array: Any, *_given: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            data = place_of(context, builder, signature.args[0], (values[0], ir.Constant(ir.IntType(64), 0)), I8)
            codes, scale = (values[1], values[2]), values[3]
            if _has(context, "+avx512vl"):
                place = builder.bitcast(data, eight(F32).as_pointer())
                parts = (builder.load(builder.gep(place, [ir.Constant(I32, half)]), align=4) for half in (0, 1))
                first, second = (builder.fmul(part, scale) for part in parts)
                return context.make_tuple(builder, FOUR, _by_permutation(builder, (first, second), codes))
            many = chosen(builder, *codes, [*range(BYTES), *range(MANY + BYTES, 2 * MANY)])
            is_wide = _has(context, "+avx2")
            found = _by_planes(builder, data, many, count) if is_wide else _one_by_one(builder, data, many)
            return context.make_tuple(builder, FOUR, [builder.fmul(each, scale) for each in found])

        return FOUR(array, SIXTEEN_BYTES, SIXTEEN_BYTES, EIGHT_NUMBERS), generate

    return intrinsic(with_arguments(sign, 4))


def _by_planes(builder: Any, data: Any, codes: Any, count: int) -> list[Any]:
    """Each byte of the numbers is looked up for all codes at once; then the four of a number are brought together.

    Of the four only the highest `count` are: the others are 0.
    Instructions work on both halves of a register alike: so the first half gets the first four codes of every eight.
    """
    places = [place for half in (0, 4) for begin in range(half, MANY, 8) for place in range(begin, begin + 4)]
    codes = chosen(builder, codes, undefined(codes), places)
    nothing = constant(codes.type, 0)
    planes = [nothing] * (4 - count)
    for plane in range(4 - count, 4):
        place = builder.gep(data, [ir.Constant(I32, 64 + BYTES * plane)])
        loaded = builder.load(builder.bitcast(place, ir.VectorType(I8, BYTES).as_pointer()), align=1)
        planes.append(looked_up(builder, twice(builder, loaded), codes))
    lower = _woven_halves(builder, planes[0], planes[1], 1) if count > 2 else [nothing] * 2
    upper = _woven_halves(builder, planes[2], planes[3], 1)
    found = [_woven_halves(builder, low, high, 2) for low, high in zip(lower, upper, strict=True)]
    return [builder.bitcast(each, eight(F32)) for pair in found for each in pair]


def _woven_halves(builder: Any, first: Any, second: Any, size: int) -> list[Any]:
    """Items of so many bytes of both in turns, in each half of a register: those of the lower parts, of the upper."""
    found = []
    for part in (0, 8):
        begins = [half + part + at for half in (0, BYTES) for at in range(0, 8, size)]
        places = [at + i for begin in begins for at in (begin, begin + MANY) for i in range(size)]
        found.append(chosen(builder, first, second, places))
    return found


def _one_by_one(builder: Any, data: Any, codes: Any) -> list[Any]:
    table, found = builder.bitcast(data, F32.as_pointer()), []
    for begin in range(0, MANY, LANES):
        some = ir.Constant(eight(F32), ir.Undefined)
        for lane in range(LANES):
            code = builder.zext(builder.extract_element(codes, ir.Constant(I32, begin + lane)), I32)
            some = builder.insert_element(some, builder.load(builder.gep(table, [code])), ir.Constant(I32, lane))
        found.append(some)
    return found


scaled_levels: Callable[..., Unit] = _scaled_levels(4)
"""(table of `layouts.levels`, codes, codes, scale): what twice sixteen codes less than 16 stand for, times a scale."""
scaled_short_levels: Callable[..., Unit] = _scaled_levels(2)
"""The same of numbers that are bfloat16: with AVX2 less work."""
