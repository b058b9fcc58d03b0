"""Eight float32 numbers, and 16 or 32 bytes, as values in compiled code: what a processor's registers hold.

LLVM makes the widest instructions of the machine from them. Written as loops over single numbers, sums would be
reordered as each processor likes, and short loops of 16 or 32 numbers would not be vectorised at all. Here every
operation is one that is named, so that the bits of results are the same wherever a product and a sum are fused.

Indices count the array's own items. Nothing is checked: what is loaded must be there.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products import building
from engine.model.products.building import (
    BYTES,
    CONTRACTED,
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
    Build,
    chosen,
    constant,
    eight,
    load,
    operation,
    place_of,
    twice,
    undefined,
    with_arguments,
)


def _of_bfloats(builder: Any, bits: Any) -> Any:
    wide = builder.zext(bits, eight(I32))
    return builder.bitcast(builder.shl(wide, constant(eight(I32), 16)), eight(F32))


def _of_e4m3(builder: Any, codes: Any) -> Any:
    """Their numbers divided by 256: the bits are those of a float16 whose exponents stand for so much more."""
    wide = builder.sext(codes, eight(I16))
    halves = builder.and_(builder.shl(wide, constant(eight(I16), 7)), constant(eight(I16), 0xBFFF))
    magnitude = builder.and_(wide, constant(eight(I16), 0x7F))
    is_number = builder.icmp_signed("!=", magnitude, constant(eight(I16), 0x7F))
    halves = builder.select(is_number, halves, constant(eight(I16), 0x7E00))
    return builder.fpext(builder.bitcast(halves, eight(F16)), eight(F32))


def _spread_half(builder: Any, bits: Any) -> Any:
    empty = ir.Constant(eight(I16), ir.Undefined)
    one = builder.insert_element(empty, bits, ir.Constant(I32, 0))
    all_bits = chosen(builder, one, empty, [0] * LANES)
    return builder.fpext(builder.bitcast(all_bits, eight(F16)), eight(F32))


def _half(builder: Any, bits: Any) -> Any:
    """Of a whole register: one into which 16 bits are put waits for what was computed there before."""
    return builder.extract_element(_spread_half(builder, bits), ir.Constant(I32, 0))


numbers = load(EIGHT_NUMBERS, eight(F32), lambda _, loaded: loaded)
"""Eight float32 numbers."""
bfloats = load(EIGHT_NUMBERS, eight(I16), _of_bfloats)
"""Eight bfloat16 numbers of an array of 16 bits."""

halves = load(EIGHT_NUMBERS, eight(F16), lambda builder, loaded: builder.fpext(loaded, eight(F32)))
"""Eight float16 numbers of an array of 16 bits."""
signed = load(EIGHT_NUMBERS, eight(I8), lambda b, loaded: b.sitofp(b.sext(loaded, eight(I32)), eight(F32)))
"""Eight whole numbers of 8 bits, with a sign."""
e4m3 = load(EIGHT_NUMBERS, eight(I8), _of_e4m3)
"""Eight numbers of 8 bits, e4m3, by 1/256, which is exact."""
spread_half = load(EIGHT_NUMBERS, I16, _spread_half)
"""One float16 number that begins at a byte, or at an item of 16 bits, eight times."""
half = load(types.float32, I16, _half)
"""The same, once."""
sixteen = load(SIXTEEN_BYTES, ir.VectorType(I8, BYTES), twice)
"""Sixteen bytes, in both halves of a register: from there instructions bring any eight of them to where they belong."""
thirty_two = load(MANY_BYTES, ir.VectorType(I8, MANY), lambda _, loaded: loaded)
"""Thirty-two bytes."""
word = load(types.uint32, I32, lambda _, loaded: loaded)
"""Four bytes as one number, the first one lowest."""


def _splat(builder: Any, number: Any) -> Any:
    empty = ir.Constant(eight(F32), ir.Undefined)
    one = builder.insert_element(empty, number, ir.Constant(I32, 0))
    return chosen(builder, one, empty, [0] * LANES)


def _total(builder: Any, vector: Any) -> Any:
    for width in (4, 2, 1):
        low, high = (chosen(builder, vector, undefined(vector), list(range(at, at + width))) for at in (0, width))
        vector = builder.fadd(low, high)
    return builder.extract_element(vector, ir.Constant(I32, 0))


def _fused(builder: Any, first: Any, second: Any, third: Any) -> Any:
    return builder.fadd(builder.fmul(first, second, flags=CONTRACTED), third, flags=CONTRACTED)


splat = operation(EIGHT_NUMBERS, (types.float32,), _splat)
"""One number eight times."""
times = operation(EIGHT_NUMBERS, (EIGHT_NUMBERS, EIGHT_NUMBERS), lambda builder, a, b: builder.fmul(a, b))
plus = operation(EIGHT_NUMBERS, (EIGHT_NUMBERS, EIGHT_NUMBERS), lambda builder, a, b: builder.fadd(a, b))
minus = operation(EIGHT_NUMBERS, (EIGHT_NUMBERS, EIGHT_NUMBERS), lambda builder, a, b: builder.fsub(a, b))
fused = operation(EIGHT_NUMBERS, (EIGHT_NUMBERS, EIGHT_NUMBERS, EIGHT_NUMBERS), _fused)
"""a x b + c, rounded once where the processor can."""
total = operation(types.float32, (EIGHT_NUMBERS,), _total)
"""The sum of all eight, in a fixed order."""


def filled(builder: Any, number: Any, kind: ir.VectorType) -> Any:
    """A vector of one whole number, as many bits of it as there are."""
    empty = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(empty, builder.trunc(number, kind.element), ir.Constant(I32, 0))
    return chosen(builder, one, empty, [0] * kind.count)


def _masked(builder: Any, vector: Any, mask: Any) -> Any:
    return builder.and_(vector, filled(builder, mask, vector.type))


def _shifted(builder: Any, vector: Any, places: Any) -> Any:
    return builder.lshr(vector, filled(builder, places, vector.type))


def _less(builder: Any, vector: Any, byte: Any) -> Any:
    return builder.sub(vector, filled(builder, byte, vector.type))


def field_of(builder: Any, vector: Any, places: Any, mask: Any) -> Any:
    """Processors shift no bytes: what comes in from the byte beside is masked away."""
    wide = ir.VectorType(I16, vector.type.count // 2)
    moved = builder.lshr(builder.bitcast(vector, wide), filled(builder, places, wide))
    return _masked(builder, builder.bitcast(moved, vector.type), mask)


def _placed(builder: Any, low: Any, high: Any, places: Any) -> Any:
    wide = ir.VectorType(I16, high.type.count // 2)
    moved = builder.shl(builder.bitcast(high, wide), filled(builder, places, wide))
    return builder.or_(low, builder.bitcast(moved, low.type))


def _nibbles(builder: Any, bytes_: Any) -> Any:
    places = ir.Constant(eight(I32), [0] * 4 + [4] * 4)
    moved = builder.lshr(builder.bitcast(twice(builder, bytes_), eight(I32)), places)
    return builder.and_(builder.bitcast(moved, MANY_BYTES.llvm), constant(MANY_BYTES.llvm, 15))


masked = operation(SIXTEEN_BYTES, (SIXTEEN_BYTES, types.int64), _masked)
"""Of every byte the bits of a mask."""
shifted = operation(SIXTEEN_BYTES, (SIXTEEN_BYTES, types.int64), _shifted)
"""Every byte moved to the right."""
less = operation(SIXTEEN_BYTES, (SIXTEEN_BYTES, types.int64), _less)
"""Every byte less a number."""
field = operation(MANY_BYTES, (MANY_BYTES, types.int64, types.int64), field_of)
"""Of every byte the bits of a mask, once it is moved to the right: no more bits than remain there."""
placed = operation(MANY_BYTES, (MANY_BYTES, MANY_BYTES, types.int64), _placed)
"""Every byte of the first with that of the second moved to the left, by no more than there are bits free in it."""
nibbles = load(MANY_BYTES, ir.VectorType(I8, BYTES), _nibbles)
"""The lower halves of sixteen bytes, and behind them their upper halves."""
many_less = operation(MANY_BYTES, (MANY_BYTES, types.int64), _less)
"""Each of thirty-two bytes less a number."""
lower = operation(SIXTEEN_BYTES, (MANY_BYTES,), lambda b, many: chosen(b, many, many, [*range(BYTES)] * 2))
"""The first sixteen of thirty-two bytes."""
upper = operation(SIXTEEN_BYTES, (MANY_BYTES,), lambda b, many: chosen(b, many, many, [*range(BYTES, MANY)] * 2))
"""The last sixteen of thirty-two bytes."""


def _stacked(builder: Any, *words: Any) -> Any:
    found = ir.Constant(ir.VectorType(I32, len(words)), ir.Undefined)
    for place, each in enumerate(words):
        found = builder.insert_element(found, each, ir.Constant(I32, place))
    return twice(builder, builder.bitcast(found, ir.VectorType(I8, BYTES)))


stacked = operation(SIXTEEN_BYTES, (types.int32,) * 4, _stacked)
"""Four words, one behind the other."""


def _woven(first: int) -> Build:
    half = [place for at in range(first, first + LANES) for place in (at, at + MANY)]
    places = half + [place + BYTES for place in half]
    return lambda builder, a, b: chosen(builder, a, b, places)


woven_first = operation(SIXTEEN_BYTES, (SIXTEEN_BYTES, SIXTEEN_BYTES), _woven(0))
"""The first eight bytes of both, in turns."""
woven_last = operation(SIXTEEN_BYTES, (SIXTEEN_BYTES, SIXTEEN_BYTES), _woven(LANES))
"""The last eight bytes of both, in turns."""


def _eight_of(begin: int, place: int) -> Any:
    """Eight of sixteen bytes, from one on, as numbers; each goes to this byte of a whole number of 32 bits."""

    def sign(_context: Any, _bytes: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            is_wide = "+avx2" in context.codegen().magic_tuple()[2]
            return builder.sitofp((brought if is_wide else widened)(builder, values[0], begin, place), eight(F32))

        return EIGHT_NUMBERS(SIXTEEN_BYTES), generate

    return intrinsic(with_arguments(sign, 1))


def brought(builder: Any, vector: Any, begin: int, place: int) -> Any:
    """Eight of sixteen bytes, each at a byte of a number of 32 bits, by an instruction of AVX2."""
    control = [(begin + at // 4 if at % 4 == place else 128) for at in range(MANY)]
    return builder.bitcast(looked_up(builder, vector, ir.Constant(vector.type, control)), eight(I32))


def widened(builder: Any, vector: Any, begin: int, place: int) -> Any:
    """The same anywhere."""
    some = chosen(builder, vector, undefined(vector), list(range(begin, begin + LANES)))
    return builder.shl(builder.zext(some, eight(I32)), constant(eight(I32), 8 * place))


def looked_up(builder: Any, table: Any, codes: Any) -> Any:
    """In each half of a register: of the sixteen bytes there those that codes stand for, 0 for 128."""
    kind = ir.FunctionType(codes.type, [codes.type, codes.type])
    name = "llvm.x86.avx2.pshuf.b"
    look_up = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(look_up, [table, codes])


first, last = _eight_of(0, 0), _eight_of(LANES, 0)
"""The first, or the last, eight bytes as numbers."""
first_high, last_high = _eight_of(0, 3), _eight_of(LANES, 3)
"""The first, or the last, eight bytes as numbers with a sign, times 2 ** 24: as much work as without a sign."""


def _as_stored() -> Any:
    def sign(_context: Any, array: Any, _index: Any) -> Any:
        is_narrow = array.dtype == types.int16

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            content = eight(I16) if is_narrow else eight(F32)
            loaded = builder.load(place_of(context, builder, signature.args[0], values, content), align=1)
            return _of_bfloats(builder, loaded) if is_narrow else loaded

        return EIGHT_NUMBERS(array, types.intp), generate

    return intrinsic(with_arguments(sign, 2))


as_stored = _as_stored()
"""Eight numbers of an array of float32, or of int16, which stands for bfloat16."""


store = building.store(EIGHT_NUMBERS)
"""Write eight numbers into an array of float32, from an index on."""


def _as_number() -> Any:
    """An item of an array as float32; see `arrays.scales`."""

    def sign(_context: Any, array: Any, _index: Any) -> Any:
        contents = {types.float32: F32, types.uint16: F16, types.int16: I16}
        content = contents[array.dtype]

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            if content is F16:
                return _half(builder, builder.load(place_of(context, builder, signature.args[0], values, I16), align=1))
            loaded = builder.load(place_of(context, builder, signature.args[0], values, content), align=1)
            if content is I16:
                wide = builder.shl(builder.zext(loaded, I32), ir.Constant(I32, 16))
                return builder.bitcast(wide, F32)
            return loaded

        return types.float32(array, types.intp), generate

    return intrinsic(with_arguments(sign, 2))


number = _as_number()
"""One number of an array of scales."""


def _fetch() -> Any:
    def sign(_context: Any, array: Any, _at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, values[0]).data
            place = builder.gep(builder.bitcast(data, I8.as_pointer()), [values[1]])
            kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
            name = "llvm.prefetch.p0"
            ask = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            builder.call(ask, [place, *(ir.Constant(I32, each) for each in (0, 2, 1))])  # read, second level, data
            return context.get_dummy_value()

        return types.none(array, types.intp), generate

    return intrinsic(with_arguments(sign, 2))


fetch = _fetch()
"""Ask for the line of the cache in which a byte of an array's memory lies; any byte, there need be none."""


def exponential_of(builder: Any, exponents: Any) -> Any:
    """Of a vector: 2 to the whole part of x / ln 2 by bits, e to the rest by a polynomial (Cephes' `expf`).

    Off by 2 ulp at most. Of what is less than -87 it is 0, and of more than 88 that of 88, nearly the largest number.
    """

    kind, bits_kind = exponents.type, ir.VectorType(I32, exponents.type.count)

    def each(number: float) -> Any:
        return constant(kind, float(np.float32(number)))

    def times_plus(first: Any, second: Any, third: Any) -> Any:
        return builder.fadd(builder.fmul(first, second, flags=CONTRACTED), third, flags=CONTRACTED)

    is_none = builder.fcmp_ordered("<", exponents, each(-87.0))
    x = builder.select(is_none, each(0.0), exponents)
    x = builder.select(builder.fcmp_ordered(">", x, each(88.0)), each(88.0), x)
    whole = building.instruction(
        builder, f"llvm.floor.v{kind.count}f32", kind, times_plus(x, each(1.44269504088896341), each(0.5))
    )
    rest = times_plus(whole, each(2.12194440e-4), times_plus(whole, each(-0.693359375), x))
    found = each(1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        found = times_plus(found, rest, each(factor))
    found = builder.fadd(times_plus(found, builder.fmul(rest, rest), rest), each(1.0))
    bits = builder.shl(builder.fptosi(whole, bits_kind), constant(bits_kind, 23))
    grown = builder.bitcast(builder.add(builder.bitcast(found, bits_kind), bits), kind)
    return builder.select(is_none, each(0.0), grown)


exponential = operation(EIGHT_NUMBERS, (EIGHT_NUMBERS,), exponential_of)
"""e to the power of each: within 2 ulp; 0 below -87, and above 88 that of 88."""
over = operation(EIGHT_NUMBERS, (EIGHT_NUMBERS, EIGHT_NUMBERS), lambda builder, a, b: builder.fdiv(a, b))
"""a / b."""
