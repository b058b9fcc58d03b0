"""Vector operations for products in whole numbers: codes of a byte each times numbers of 24 bits, exactly.

A number is written in three digits to the base 256, each a byte with a sign, or in two. One instruction multiplies
codes without a sign by digits and adds two products at a time, which have room in 16 bits, as codes are at most 63. The
next one multiplies these by factors of up to 8 bits and adds two again: sums of 256 numbers have room in 32 bits. Whole
numbers may be added in any order: bits are the same for registers of 32 and of 64 bytes.
"""

from collections.abc import Callable
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products import building
from engine.model.products.building import (
    BYTES,
    EIGHT_NUMBERS,
    F16,
    F32,
    I8,
    I16,
    I32,
    LANES,
    MANY,
    MANY_BYTES,
    SIXTEEN_BYTES,
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
from engine.model.products.vectors import field_of, filled

DIGITS, FEWER_DIGITS = 3, 2
ONE, ONE_OF_FEWER = np.float32(1 << 22), np.float32(1 << 14)  # what `power` of a unit's numbers becomes
ROOM = 1.0078125  # numbers are less than twice of that by this: so the highest digit has room in a byte
PAIR = 2 * MANY  # codes of two units
SIXTEEN_NUMBERS = Vector("SixteenNumbers", ir.VectorType(F32, BYTES))
PAIR_OF_BYTES = Vector("SixtyFourBytes", ir.VectorType(I8, PAIR))
SIXTEEN_SHORTS, MANY_SHORTS = (Vector(f"Shorts{count}", ir.VectorType(I16, count)) for count in (BYTES, MANY))


@lru_cache(maxsize=1)
def features() -> frozenset[str]:
    """What the processor that numba compiles for can do, in LLVM's words."""
    from llvmlite import binding  # noqa: PLC0415
    from numba.core.registry import cpu_target  # noqa: PLC0415

    binding.initialize_native_asmparser()  # for instructions as text
    return frozenset(cpu_target.target_context.codegen().magic_tuple()[2].split(","))


def has_byte_products() -> bool:
    """Whether the processor multiplies bytes and adds such products up."""
    return "+avx2" in features()


def _function(builder: Any, name: str, result: ir.Type, *arguments: ir.Type) -> Any:
    kind = ir.FunctionType(result, arguments)
    return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)


def _halves(builder: Any, vector: Any) -> list[Any]:
    count = vector.type.count // 2
    return [chosen(builder, vector, undefined(vector), list(range(at, at + count))) for at in (0, count)]


def _whole(builder: Any, halves: list[Any]) -> Any:
    return chosen(builder, halves[0], halves[1], list(range(2 * halves[0].type.count)))


def _has_wide_bytes() -> bool:
    """Whether one instruction multiplies 64 bytes; elsewhere two do."""
    return "+avx512bw" in features()


def _adds_products() -> bool:
    """Whether one instruction multiplies numbers of 16 bits and adds products to sums."""
    return "+avx512vnni" in features() if _has_wide_bytes() else "+avxvnni" in features()


SUMS = Vector("Sums", ir.VectorType(I32, BYTES if _has_wide_bytes() else LANES))


def _multiplied(builder: Any, codes: Any, digits: Any) -> Any:
    """Products of codes and a digit of as many numbers, those of two added: they fit into 16 bits."""
    if _has_wide_bytes():
        kind = MANY_SHORTS.llvm
        multiply = _function(builder, "llvm.x86.avx512.pmaddubs.w.512", kind, codes.type, codes.type)
        return builder.call(multiply, [codes, digits])
    half = MANY_BYTES.llvm
    multiply = _function(builder, "llvm.x86.avx2.pmadd.ub.sw", SIXTEEN_SHORTS.llvm, half, half)
    parts = zip(_halves(builder, codes), _halves(builder, digits), strict=True)
    return _whole(builder, [builder.call(multiply, list(part)) for part in parts])


def _added(builder: Any, shorts: Any, factors: Any) -> list[Any]:
    """Of all in one register, or of both halves."""
    if _has_wide_bytes():
        kind = ir.VectorType(I32, BYTES)
        add = _function(builder, "llvm.x86.avx512.pmaddw.d.512", kind, shorts.type, shorts.type)
        return [builder.call(add, [shorts, factors])]
    half = SIXTEEN_SHORTS.llvm
    add = _function(builder, "llvm.x86.avx2.pmadd.wd", eight(I32), half, half)
    parts = zip(_halves(builder, shorts), _halves(builder, factors), strict=True)
    return [builder.call(add, list(part)) for part in parts]


def _factored(builder: Any, shorts: Any, factors: Any, sums: Any) -> Any:
    if not _adds_products():
        return reduce(builder.add, _added(builder, shorts, factors), sums)
    parts = [[shorts], [factors]] if _has_wide_bytes() else [_halves(builder, each) for each in (shorts, factors)]
    for some, other in zip(*parts, strict=True):
        sums = _plus_products(builder, sums, some, other)
    return sums


def _plus_products(builder: Any, sums: Any, some: Any, other: Any) -> Any:
    # As text: LLVM makes two instructions of its intrinsic where it thinks of latency.
    text, register = ("", "v") if _has_wide_bytes() else ("{vex} ", "x")
    form = ir.FunctionType(sums.type, [sums.type, some.type, other.type])
    places = f"={register},0,{register},{register}"
    return builder.asm(form, text + "vpdpwssd $3, $2, $0", places, [sums, some, other], False)


def _fours(builder: Any, low: Any, middle: Any, high: Any = None) -> Any:
    parts, by_256 = _added(builder, low, constant(low.type, 1)), constant(low.type, 256)
    if _adds_products():
        others = [middle] if _has_wide_bytes() else _halves(builder, middle)
        factors = constant(others[0].type, 256)
        parts = [_plus_products(builder, part, each, factors) for part, each in zip(parts, others, strict=True)]
    else:
        parts = _both(builder, parts, _added(builder, middle, by_256))
    if high is not None:
        others = _added(builder, high, by_256)
        parts = _both(builder, parts, [builder.shl(each, constant(each.type, 8)) for each in others])
    return builder.sitofp(parts[0] if len(parts) == 1 else _whole(builder, parts), SIXTEEN_NUMBERS.llvm)


def _both(builder: Any, parts: list[Any], others: list[Any]) -> list[Any]:
    return [builder.add(part, other) for part, other in zip(parts, others, strict=True)]


def _eight_sums(builder: Any, sums: Any) -> Any:
    whole = sums if sums.type.count == LANES else builder.add(*_halves(builder, sums))
    return builder.sitofp(whole, eight(F32))


def _times_digit() -> Any:
    def sign(_context: Any, _codes: Any, array: Any, _index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = place_of(context, builder, signature.args[1], values[1:], PAIR_OF_BYTES.llvm)
            return _multiplied(builder, values[0], builder.load(place, align=1))

        return MANY_SHORTS(PAIR_OF_BYTES, array, types.intp), generate

    return intrinsic(with_arguments(sign, 3))


times_digit = _times_digit()
"""(codes, array, index): 64 codes times a digit of as many numbers, which begins at a byte; two products are added."""
factored = operation(SUMS, (MANY_SHORTS, MANY_SHORTS, SUMS), _factored)
"""(products, factors, sums): products of two codes times factors, all added to sums, in whichever of them."""
no_sums = operation(SUMS, (types.int64,), lambda _builder, _any: constant(SUMS.llvm, 0))
"""Zeros."""
eight_sums = operation(EIGHT_NUMBERS, (SUMS,), _eight_sums)
"""Sums as eight float32 numbers, the same for registers of any size."""
fours_of_two = operation(SIXTEEN_NUMBERS, (MANY_SHORTS,) * 2, _fours)
"""(low, middle): sums of four codes times numbers of two digits, as float32; of the products of either digit."""
fours_of_three = operation(SIXTEEN_NUMBERS, (MANY_SHORTS,) * 3, _fours)
"""(low, middle, high): the same of three digits; codes are less than 64."""


def _shorts_of(places: list[int]) -> Any:
    """Bytes with a sign, at these places, in 16 bits."""

    def build(builder: Any, some: Any) -> Any:
        found = chosen(builder, some, undefined(some), places)
        if not _has_wide_bytes():
            return builder.sext(found, SIXTEEN_SHORTS.llvm)
        # As text: LLVM would widen what `factors_of` chooses, four times.
        form = ir.FunctionType(SIXTEEN_SHORTS.llvm, [found.type])
        return builder.asm(form, "vpmovsxbw $1, $0", "=v,v", [found], False)

    return operation(SIXTEEN_SHORTS, (SIXTEEN_BYTES,), build)


unit_factors = _shorts_of([*range(8), *range(8)])
"""The factors of eight units, which are the first eight bytes, for both halves of these."""
half_factors = _shorts_of([*range(0, 16, 2), *range(1, 16, 2)])
"""The factors of eight units, which are sixteen bytes: those of their first halves, and of their second ones."""


def _factors_of(pair: int) -> Any:
    places = [half * 8 + unit for unit in (2 * pair, 2 * pair + 1) for half in (0, 1) for _ in range(8)]
    return operation(
        MANY_SHORTS, (SIXTEEN_SHORTS,), lambda builder, some: chosen(builder, some, undefined(some), places)
    )


factors_of = tuple(map(_factors_of, range(4)))
"""By pair of units: the factor of each two codes of these, whose products have been added."""
ones = operation(PAIR_OF_BYTES, (types.int64,), lambda _builder, _any: constant(PAIR_OF_BYTES.llvm, 1))
"""A code of 1 for each number, to add numbers up."""


def _moved(builder: Any, some: Any, first: Any, second: Any, mask: Any) -> Any:
    """Processors shift no bytes: what comes in from the byte beside is masked away."""
    kind = ir.VectorType(I16, MANY)
    both = builder.bitcast(chosen(builder, some, undefined(some), [*range(MANY)] * 2), kind)
    left, right = (_two_counts(builder, sign, first, second) for sign in (-1, 1))
    moved = builder.bitcast(builder.lshr(builder.shl(both, left), right), PAIR_OF_BYTES.llvm)
    return builder.and_(moved, filled(builder, mask, PAIR_OF_BYTES.llvm))


def _two_counts(builder: Any, sign: int, *places: Any) -> Any:
    """How far either unit is moved in the direction of `sign`."""
    half, found = ir.VectorType(I16, BYTES), []
    for each in places:
        count = builder.mul(each, ir.Constant(each.type, sign))
        is_so = builder.icmp_signed(">", count, ir.Constant(count.type, 0))
        found.append(filled(builder, builder.select(is_so, count, ir.Constant(count.type, 0)), half))
    return _whole(builder, found)


two_fields = operation(PAIR_OF_BYTES, (MANY_BYTES, types.int64, types.int64, types.int64), _moved)
"""(bytes, places, other places, mask): the codes of two units that are bits of the same bytes.

For each unit bytes are moved to the right, or by less than 0 to the left, and of every byte the bits of a mask remain.
"""
joined = operation(PAIR_OF_BYTES, (PAIR_OF_BYTES, PAIR_OF_BYTES), lambda builder, low, high: builder.or_(low, high))
"""The bits of both."""


def _two_nibbles(builder: Any, some: Any, other: Any) -> Any:
    both, kind = _whole(builder, [some, other]), ir.VectorType(I16, MANY)
    places = ir.Constant(kind, [0] * 8 + [4] * 8 + [0] * 8 + [4] * 8)
    moved = builder.lshr(builder.bitcast(both, kind), places)
    return builder.and_(builder.bitcast(moved, PAIR_OF_BYTES.llvm), constant(PAIR_OF_BYTES.llvm, 15))


def _woven_nibbles(builder: Any, some: Any) -> Any:
    wide = builder.zext(some, ir.VectorType(I16, MANY))
    both = builder.or_(wide, builder.shl(wide, constant(wide.type, 4)))
    return builder.and_(builder.bitcast(both, PAIR_OF_BYTES.llvm), constant(PAIR_OF_BYTES.llvm, 15))


def _e2m1(builder: Any, codes: Any) -> Any:
    items = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0]
    if _has_wide_bytes():
        name, kind = "llvm.x86.avx512.pshuf.b.512", PAIR_OF_BYTES.llvm
        return builder.call(_function(builder, name, kind, kind, kind), [ir.Constant(kind, items * 4), codes])
    kind = MANY_BYTES.llvm
    look = _function(builder, "llvm.x86.avx2.pshuf.b", kind, kind, kind)
    table = ir.Constant(kind, items * 2)
    return _whole(builder, [builder.call(look, [table, half]) for half in _halves(builder, codes)])


two_nibbles = operation(PAIR_OF_BYTES, (SIXTEEN_BYTES, SIXTEEN_BYTES), _two_nibbles)
"""Of the bytes of two units the lower halves and then the upper ones, of either."""
woven_nibbles = operation(PAIR_OF_BYTES, (MANY_BYTES,), _woven_nibbles)
"""Of the bytes of two units the lower half and the upper one in turns."""
e2m1_codes = operation(PAIR_OF_BYTES, (PAIR_OF_BYTES,), _e2m1)
"""Twice the numbers that codes of 4 bits stand for in MXFP4, and 12 more."""
both_units = operation(PAIR_OF_BYTES, (MANY_BYTES, MANY_BYTES), lambda builder, *units: _whole(builder, list(units)))
"""Codes of one unit, then those of the next."""
both_scales = operation(
    SIXTEEN_NUMBERS, (EIGHT_NUMBERS, EIGHT_NUMBERS), lambda builder, *scales: _whole(builder, list(scales))
)
"""Eight numbers and eight more."""

half_and_half = operation(
    EIGHT_NUMBERS,
    (EIGHT_NUMBERS, EIGHT_NUMBERS),
    lambda builder, first, last: chosen(
        builder, first, last, [*range(LANES // 2), *range(LANES + LANES // 2, 2 * LANES)]
    ),
)
"""The first four numbers of one, the last four of the other."""


def _scales_of(pair: int) -> Any:
    places = [2 * pair] * LANES + [2 * pair + 1] * LANES
    return operation(
        SIXTEEN_NUMBERS, (EIGHT_NUMBERS,), lambda builder, eight_: chosen(builder, eight_, undefined(eight_), places)
    )


scales_of = tuple(map(_scales_of, range(4)))
"""By pair of units: the scales of these, of eight units' ones, each eight times."""


def _apart(content: ir.IntType, build: Callable[[Any, Any], Any]) -> Any:
    """Eight items of an array of bytes, from an index on and so many bytes apart, as float32."""

    def sign(_context: Any, array: Any, _index: Any, _step: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            line, place, step = values
            found = ir.Constant(eight(content), ir.Undefined)
            for lane in range(LANES):
                at = place_of(context, builder, signature.args[0], (line, place), content)
                found = builder.insert_element(found, builder.load(at, align=1), ir.Constant(I32, lane))
                place = builder.add(place, step)
            return build(builder, found)

        return EIGHT_NUMBERS(array, types.intp, types.intp), generate

    return intrinsic(with_arguments(sign, 3))


def _half_powers(builder: Any, exponents: Any) -> Any:
    """Half of 2 ** (exponent - 127); the two smallest are subnormal."""
    wide, kind = builder.zext(exponents, eight(I32)), eight(I32)
    normal = builder.shl(builder.sub(wide, constant(kind, 1)), constant(kind, 23))
    small = builder.shl(constant(kind, 1 << 21), wide)
    is_normal = builder.icmp_unsigned(">", wide, constant(kind, 1))
    return builder.bitcast(builder.select(is_normal, normal, small), eight(F32))


eight_halves = _apart(I16, lambda builder, some: builder.fpext(builder.bitcast(some, eight(F16)), eight(F32)))
"""(bytes, index, step): eight float16 numbers."""
eight_half_powers = _apart(I8, _half_powers)
"""(bytes, index, step): what eight bytes stand for as scales in GGUF's MXFP4, see `layouts.half_powers`."""
sixty_four = load(PAIR_OF_BYTES, PAIR_OF_BYTES.llvm, lambda _, loaded: loaded)
"""The bytes of two units."""
pair_field = operation(PAIR_OF_BYTES, (PAIR_OF_BYTES, types.int64, types.int64), field_of)
"""Of every byte the bits of a mask, once it is moved to the right: no more bits than remain there."""

_FIRST = ir.Constant(I32, 0)


def _write_digits(count: int) -> Any:
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
            start = builder.gep(data, [builder.mul(values[1], ir.Constant(values[1].type, count))])
            there = builder.bitcast(start, PAIR_OF_BYTES.llvm.as_pointer())
            for digit in range(count):
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


write_digits, write_fewer_digits = _write_digits(DIGITS), _write_digits(FEWER_DIGITS)
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


many_store = building.store(SIXTEEN_NUMBERS)
"""Write sixteen numbers into an array of float32, from an index on."""
