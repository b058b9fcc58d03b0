"""Vector operations on codes of four units at a time, as bytes hold them: of one unit two codes each.

The lower halves of 64 bytes are multiplied with as many numbers, the upper ones with others, and the products of eight
codes are added up before anything becomes a float32: four of either half, so that sixteen sums are left.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
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
    I64,
    LANES,
    chosen,
    constant,
    eight,
    load,
    operation,
    place_of,
    undefined,
    united,
    with_arguments,
)
from engine.model.products.units.digits import (
    FEWER_DIGITS,
    PAIR,
    PAIR_OF_BYTES,
    adds_products,
    features,
    has_wide_bytes,
    multiplied,
    plus_bytes,
    two_added,
)
from engine.model.products.units.sixteen import SIXTEEN_NUMBERS

_WINDOW = 64  # bytes of a register


def _picked(builder: Any, start: Any, places: Sequence[int], kind: ir.IntType, other: int, size: int) -> Any:
    """Items that lie so many bytes behind a place, in their order; None where no instruction finds them at once.

    All lie in 64 bytes from that place on, or in `size` from another one on.
    """
    width = kind.width // 8
    are_there = all(at + width <= _WINDOW or at + width <= other + size for at in places)
    if {1: "+avx512vbmi", 2: "+avx512bw"}[width] not in features() or not are_there:
        return None
    (first,) = _each(builder, start, [0], ir.VectorType(kind, _WINDOW // width))
    (second,) = _each(builder, start, [other], ir.VectorType(kind, size // width))
    wide = chosen(builder, second, undefined(second), [min(at, size // width - 1) for at in range(_WINDOW // width)])
    items = [at // width if at + width <= _WINDOW else (at - other + _WINDOW) // width for at in places]
    return chosen(builder, first, wide, items)


def _each(builder: Any, start: Any, places: Sequence[int], kind: ir.Type) -> list[Any]:
    """The same one by one."""
    pointers = [builder.bitcast(builder.gep(start, [ir.Constant(I64, at)]), kind.as_pointer()) for at in places]
    return [builder.load(pointer, align=1) for pointer in pointers]


def _at(content: Any, build: Any) -> Any:
    """What is made of the memory from an index of an array of bytes on."""

    def sign(_context: Any, array: Any, _index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return build(builder, place_of(context, builder, signature.args[0], values, I8))

        return content(array, types.intp), generate

    return intrinsic(with_arguments(sign, 2))


def four_of(size: int, begin: int) -> Any:
    """(bytes, index): the codes of four units of so many bytes, which begin so far behind a unit's first byte."""

    def build(builder: Any, start: Any) -> Any:
        kind = I8 if size % 2 else I16
        step = kind.width // 8
        places = [size * unit + begin + at for unit in range(4) for at in range(0, BYTES, step)]
        tail = 4 * size - _WINDOW  # what the first 64 bytes leave
        tail = BYTES if tail <= BYTES else 2 * BYTES
        found = _picked(builder, start, places, kind, 4 * size - tail, tail)
        if found is None:
            units = _each(builder, start, [size * unit + begin for unit in range(4)], ir.VectorType(I8, BYTES))
            found = united(builder, units)
        return builder.bitcast(found, PAIR_OF_BYTES.llvm)

    return _at(PAIR_OF_BYTES, build)


def _eight_of(size: int, begin: int, kind: ir.IntType, build: Any) -> Any:
    def found(builder: Any, start: Any) -> Any:
        places = [size * unit + begin for unit in range(LANES)]
        items = _picked(builder, start, places, kind, 4 * size, _WINDOW)
        if items is None:
            items = ir.Constant(eight(kind), ir.Undefined)
            for lane, item in enumerate(_each(builder, start, places, kind)):
                items = builder.insert_element(items, item, ir.Constant(I32, lane))
        return build(builder, items)

    return _at(EIGHT_NUMBERS, found)


def eight_halves(size: int, begin: int) -> Any:
    """(bytes, index): of eight units of so many bytes the float16 numbers, which begin so far behind a unit's byte."""
    return _eight_of(size, begin, I16, lambda b, some: b.fpext(b.bitcast(some, eight(F16)), eight(F32)))


def _half_powers(builder: Any, exponents: Any) -> Any:
    """Half of 2 ** (exponent - 127); the two smallest are subnormal."""
    wide, kind = builder.zext(exponents, eight(I32)), eight(I32)
    normal = builder.shl(builder.sub(wide, constant(kind, 1)), constant(kind, 23))
    small = builder.shl(constant(kind, 1 << 21), wide)
    is_normal = builder.icmp_unsigned(">", wide, constant(kind, 1))
    return builder.bitcast(builder.select(is_normal, normal, small), eight(F32))


def eight_half_powers(size: int) -> Any:
    """(bytes, index): what the first bytes of eight units stand for as scales in GGUF's MXFP4: see `layouts`."""
    return _eight_of(size, 0, I8, _half_powers)


def _copy_bytes() -> Any:
    def sign(_context: Any, source: Any, _index: Any, target: Any, _count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            here = place_of(context, builder, signature.args[0], values[:2], I8)
            there = place_of(context, builder, signature.args[2], (values[2], ir.Constant(I64, 0)), I8)
            cgutils.raw_memcpy(builder, there, here, values[3], 1)
            return context.get_dummy_value()

        return types.none(source, types.intp, target, types.intp), generate

    return intrinsic(with_arguments(sign, 4))


copy_bytes = _copy_bytes()
"""(array, index, other array, count): bytes from an index on to the beginning of another array."""
sixty_four = load(PAIR_OF_BYTES, PAIR_OF_BYTES.llvm, lambda _, loaded: loaded)
"""64 bytes of an array."""
low_codes = operation(PAIR_OF_BYTES, (PAIR_OF_BYTES,), lambda b, some: b.and_(some, constant(some.type, 15)))
"""The lower half of each byte."""
high_codes = operation(PAIR_OF_BYTES, (PAIR_OF_BYTES,), lambda b, some: b.lshr(some, constant(some.type, 4)))
"""The upper half of each byte."""


def _table_of(items: Sequence[int]) -> Any:
    def look(builder: Any, codes: Any) -> Any:
        wide = has_wide_bytes()
        parts = [codes] if wide else [chosen(builder, codes, codes, [*range(at, at + 32)]) for at in (0, 32)]
        name = "llvm.x86.avx512.pshuf.b.512" if wide else "llvm.x86.avx2.pshuf.b"
        table = ir.Constant(parts[0].type, [*items] * (parts[0].type.count // len(items)))
        return united(builder, [building.instruction(builder, name, table.type, table, part) for part in parts])

    return operation(PAIR_OF_BYTES, (PAIR_OF_BYTES,), look)


E2M1 = (12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0)
IQ4 = (0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240)
e2m1_codes, iq4_codes = _table_of(E2M1), _table_of(IQ4)
"""Of codes of 4 bits twice the numbers that they stand for in MXFP4, and 12 more; and those in IQ4_NL, and 127 more."""


def fifth_bits(size: int, begin: int, half: int) -> Any:
    """(bytes, index): 16 where a code of four units has a fifth bit; of their first halves (0) or second ones (1).

    A unit's 32 bits begin so far behind its first byte.
    """

    def build(builder: Any, start: Any) -> Any:
        places = [size * unit + begin + 2 * half for unit in range(4)]
        shorts = _picked(builder, start, places, I16, 4 * size - 2 * BYTES, 2 * BYTES)
        if shorts is None:
            shorts = ir.Constant(ir.VectorType(I16, 4), ir.Undefined)
            for unit, short in enumerate(_each(builder, start, places, I16)):
                shorts = builder.insert_element(shorts, short, ir.Constant(I32, unit))
        kind = PAIR_OF_BYTES.llvm
        if has_wide_bytes():
            are_set = builder.bitcast(builder.bitcast(shorts, I64), ir.VectorType(ir.IntType(1), PAIR))
        else:  # which LLVM would look at one by one
            eight_bytes = builder.bitcast(shorts, eight(I8))
            spread = chosen(builder, eight_bytes, undefined(eight_bytes), [at // 8 for at in range(PAIR)])
            bits = ir.Constant(kind, [1 << at % 8 for at in range(PAIR)])
            are_set = builder.icmp_unsigned("==", builder.and_(spread, bits), bits)
        return builder.select(are_set, constant(kind, 16), constant(kind, 0))

    return _at(PAIR_OF_BYTES, build)


def fours_of(builder: Any, codes: Sequence[Any], place: Any, count: int, is_wide: bool) -> Any:
    """Sixteen float32: sums of eight products each, of what four bytes hold, low and high.

    `codes`: the low and the high ones, less than 32 unless `is_wide`: then any, where the processor adds up products of
    bytes. `place`: a pointer to `count` digits of 64 numbers for either, 64 bytes, lowest first.
    """
    digits = [
        [builder.load(builder.gep(place, [ir.Constant(I32, 2 * digit + half)]), align=1) for half in range(2)]
        for digit in range(count)
    ]
    if not is_wide or count == FEWER_DIGITS:
        return builder.sitofp(_whole(builder, codes, digits), SIXTEEN_NUMBERS.llvm)
    low, high = (  # together they would take more than 32 bits
        builder.sitofp(_whole(builder, codes, some), SIXTEEN_NUMBERS.llvm) for some in (digits[:1], digits[1:])
    )
    return builder.fadd(builder.fmul(high, constant(high.type, 256.0)), low)


def _whole(builder: Any, codes: Sequence[Any], digits: Sequence[Sequence[Any]]) -> Any:
    """Sums of the products of eight codes each with numbers of these digits, lowest first."""
    if adds_products():
        sums = constant(ir.VectorType(I32, BYTES), 0)
        for digit, halves in reversed([*enumerate(digits)]):
            for some, numbers in zip(codes, halves, strict=True):
                sums = plus_bytes(builder, sums, some, numbers)
            sums = builder.shl(sums, constant(sums.type, 8)) if digit else sums
        return sums
    found = []
    for digit, halves in enumerate(digits):
        products = [multiplied(builder, some, numbers) for some, numbers in zip(codes, halves, strict=True)]
        shorts = builder.add(*products)
        sums = two_added(builder, shorts, constant(shorts.type, 256 if digit else 1))
        found.append(builder.shl(sums, constant(sums.type, 8)) if digit > 1 else sums)
    return reduce(builder.add, found)


def _spread(places: Sequence[int], kind: Any) -> Any:
    return operation(SIXTEEN_NUMBERS, (kind,), lambda builder, some: chosen(builder, some, undefined(some), [*places]))


first_scales, last_scales = (
    _spread([4 * four + lane // 4 for lane in range(BYTES)], EIGHT_NUMBERS) for four in range(2)
)
"""Of eight units' scales those of the first four, and of the last four, each four times."""
first_halves, last_halves = (
    _spread([8 * four + lane // 2 for lane in range(BYTES)], SIXTEEN_NUMBERS) for four in range(2)
)
"""Of the scales of eight units' halves, each twice."""


def _scales_of_halves() -> Any:
    """(steps, bytes, index, group): see `scales_of_halves`."""

    def sign(_context: Any, steps: Any, array: Any, _index: Any, _group: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            table = place_of(context, builder, signature.args[0], (values[0], ir.Constant(I64, 0)), F32)
            codes = place_of(context, builder, signature.args[1], (values[1], values[2]), I8)
            found = ir.Constant(SIXTEEN_NUMBERS.llvm, ir.Undefined)
            for half in range(BYTES):
                at = builder.lshr(ir.Constant(I64, BYTES * half), values[3])
                code = builder.zext(builder.load(builder.gep(codes, [at]), align=1), I64)
                step = builder.load(builder.gep(table, [code]), align=4)
                found = builder.insert_element(found, step, ir.Constant(I32, half))
            return found

        return SIXTEEN_NUMBERS(steps, array, types.intp, types.int64), generate

    return intrinsic(with_arguments(sign, 4))


scales_of_halves = _scales_of_halves()
"""(steps, bytes, index, group): of the halves of eight units the steps that bytes from an index on stand for; 2 **
group numbers share one."""
