"""Vector operations for products in whole numbers: codes of a byte each times numbers of 24 bits, exactly.

A number is written in three digits to the base 256, each a byte with a sign, or in two. One instruction multiplies
codes without a sign by digits and adds two products at a time, which have room in 16 bits, as codes are at most 63. The
next one multiplies these by factors of up to 8 bits and adds two again: sums of 256 numbers have room in 32 bits. Whole
numbers may be added in any order: bits are the same for registers of 32 and of 64 bytes.
"""

from functools import lru_cache, reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from engine.model.products.building import (
    BYTES,
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
    eight,
    opaque,
    operation,
    undefined,
)
from engine.model.products.vectors import filled, looked_up

DIGITS, FEWER_DIGITS = 3, 2
ONE, ONE_OF_FEWER = np.float32(1 << 22), np.float32(1 << 14)  # what `power` of a unit's numbers becomes
ROOM = 1.0078125  # numbers are less than twice of that by this: so the highest digit has room in a byte
PAIR = 2 * MANY  # codes of two units
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


def halves_of(builder: Any, vector: Any) -> list[Any]:
    """The first half of its items, and the other one."""
    count = vector.type.count // 2
    return [chosen(builder, vector, undefined(vector), list(range(at, at + count))) for at in (0, count)]


def _whole(builder: Any, halves: list[Any]) -> Any:
    return chosen(builder, halves[0], halves[1], list(range(2 * halves[0].type.count)))


def has_wide_bytes() -> bool:
    """Whether one instruction multiplies 64 bytes; elsewhere two do."""
    return "+avx512bw" in features()


def adds_products() -> bool:
    """Whether one instruction multiplies bytes, or numbers of 16 bits, and adds products to sums of 32."""
    return "+avx512vnni" in features() if has_wide_bytes() else "+avxvnni" in features()


SUMS = Vector("Sums", ir.VectorType(I32, BYTES if has_wide_bytes() else LANES))


def multiplied(builder: Any, codes: Any, digits: Any) -> Any:
    """Products of codes and a digit of as many numbers, those of two added: they fit into 16 bits."""
    if has_wide_bytes():
        kind = MANY_SHORTS.llvm
        multiply = _function(builder, "llvm.x86.avx512.pmaddubs.w.512", kind, codes.type, codes.type)
        return builder.call(multiply, [codes, digits])
    half = MANY_BYTES.llvm
    multiply = _function(builder, "llvm.x86.avx2.pmadd.ub.sw", SIXTEEN_SHORTS.llvm, half, half)
    parts = zip(halves_of(builder, codes), halves_of(builder, digits), strict=True)
    return _whole(builder, [builder.call(multiply, list(part)) for part in parts])


def _added(builder: Any, shorts: Any, factors: Any) -> list[Any]:
    """Of all in one register, or of both halves."""
    if has_wide_bytes():
        kind = ir.VectorType(I32, BYTES)
        add = _function(builder, "llvm.x86.avx512.pmaddw.d.512", kind, shorts.type, shorts.type)
        return [builder.call(add, [shorts, factors])]
    half = SIXTEEN_SHORTS.llvm
    add = _function(builder, "llvm.x86.avx2.pmadd.wd", eight(I32), half, half)
    parts = zip(halves_of(builder, shorts), halves_of(builder, factors), strict=True)
    return [builder.call(add, list(part)) for part in parts]


def two_added(builder: Any, shorts: Any, factors: Any) -> Any:
    """Numbers of 16 bits times factors, two products added: sixteen sums."""
    found = _added(builder, shorts, factors)
    return found[0] if len(found) == 1 else _whole(builder, found)


def plus_bytes(builder: Any, sums: Any, codes: Any, digits: Any) -> Any:
    """Sixteen sums, and the products of four codes without a sign and digits with one, each."""
    if has_wide_bytes():
        return _with_sums(builder, "vpdpbusd", sums, codes, digits)
    parts = zip(*(halves_of(builder, each) for each in (sums, codes, digits)), strict=True)
    return _whole(builder, [_with_sums(builder, "vpdpbusd", *part) for part in parts])


def plus_fewer_bytes(builder: Any, sums: Any, codes: Any, digits: Any) -> Any:
    """The same of eight sums, where the processor `adds_products`."""
    return _with_sums(builder, "vpdpbusd", sums, codes, digits)


def plus_products(builder: Any, shorts: Any, factors: Any, sums: Any) -> Any:
    """Sums, in whichever of them, and numbers of 16 bits times factors."""
    if not adds_products():
        return reduce(builder.add, _added(builder, shorts, factors), sums)
    parts = [[shorts], [factors]] if has_wide_bytes() else [halves_of(builder, each) for each in (shorts, factors)]
    for some, other in zip(*parts, strict=True):
        sums = _with_sums(builder, "vpdpwssd", sums, some, other)
    return sums


def _with_sums(builder: Any, name: str, sums: Any, some: Any, other: Any) -> Any:
    # As text: LLVM makes two instructions of its intrinsic where it thinks of latency.
    text, register = ("", "v") if has_wide_bytes() else ("{vex} ", "x")
    form = ir.FunctionType(sums.type, [sums.type, some.type, other.type])
    places = f"={register},0,{register},{register}"
    return builder.asm(form, f"{text}{name} $3, $2, $0", places, [sums, some, other], False)


def eight_of(builder: Any, sums: Any) -> Any:
    """Sums as eight float32, the same for registers of any size."""
    whole = sums if sums.type.count == LANES else builder.add(*halves_of(builder, sums))
    return builder.sitofp(whole, eight(F32))


def _shorts_of(places: list[int]) -> Any:
    """Bytes with a sign, at these places, in 16 bits."""

    def build(builder: Any, some: Any) -> Any:
        found = chosen(builder, some, undefined(some), places)
        if not has_wide_bytes():
            return builder.sext(found, SIXTEEN_SHORTS.llvm)
        # As text: LLVM would widen what `factors_of` chooses, four times.
        form = ir.FunctionType(SIXTEEN_SHORTS.llvm, [found.type])
        return builder.asm(form, "vpmovsxbw $1, $0", "=v,v", [found], False)

    return operation(SIXTEEN_SHORTS, (SIXTEEN_BYTES,), build)


TURNS = [0, 2, 1, 3, 4, 6, 5, 7]
"""Where each of eight units is, and which is there, if of four in a row the second one and the third are exchanged."""


def _turned_factors(builder: Any, some: Any) -> Any:
    control = ir.Constant(some.type, [at for place in TURNS * 2 for at in (place, 128)])  # 128: no byte
    return opaque(builder, builder.bitcast(looked_up(builder, some, control), SIXTEEN_SHORTS.llvm))


turned_factors = operation(SIXTEEN_SHORTS, (SIXTEEN_BYTES,), _turned_factors)
"""The factors of eight units, which are the first eight bytes, for both halves of these; of four in a row the first and
the third, and then the others. They have no sign."""
half_factors = _shorts_of([*range(0, 16, 2), *range(1, 16, 2)])
"""The factors of eight units, which are sixteen bytes: those of their first halves, and of their second ones."""


def factors_of_pair(builder: Any, some: Any, pair: int) -> Any:
    """See `factors_of`."""
    places = [half * 8 + unit for unit in (2 * pair, 2 * pair + 1) for half in (0, 1) for _ in range(8)]
    return chosen(builder, some, undefined(some), places)


def _factors_of(pair: int) -> Any:
    return operation(MANY_SHORTS, (SIXTEEN_SHORTS,), lambda builder, some: factors_of_pair(builder, some, pair))


factors_of = tuple(map(_factors_of, range(4)))
"""By pair of units: the factor of each two codes of these, whose products have been added."""


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
