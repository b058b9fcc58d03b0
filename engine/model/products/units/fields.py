"""Fields of bits in compiled code: eight whole numbers of 32 bits as a value, and single words of an array.

Scales of a few bits are taken apart so, eight at a time. Indices count the array's own items, and nothing is checked,
as in `vectors`.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

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
    MANY,
    MANY_BYTES,
    SIXTEEN_BYTES,
    Vector,
    chosen,
    constant,
    eight,
    load,
    opaque,
    operation,
    place_of,
    twice,
    undefined,
    with_arguments,
)

EIGHT_WORDS = Vector("EightWords", eight(I32))
AWQ_PLACES = (0, 16, 4, 20, 8, 24, 12, 28)  # where in a word of AutoAWQ, in bits, its eight outputs lie
TRIPLES = (0, 3, 6, 9, 16, 19, 22, 25)  # where in two numbers of 16 bits their four fields of three bits begin


def _widened(builder: Any, loaded: Any) -> Any:
    return builder.zext(loaded, eight(I32))


def _odd(builder: Any, loaded: Any) -> Any:
    return chosen(builder, loaded, undefined(loaded), [*range(1, 2 * LANES, 2)])


def _spread(builder: Any, number: Any, kind: ir.VectorType) -> Any:
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(I32, 0))
    return chosen(builder, one, undefined(one), [0] * kind.count)


eight_words = load(EIGHT_WORDS, eight(I32), lambda _, loaded: loaded)
"""Eight words."""
odd_words = load(EIGHT_WORDS, ir.VectorType(I32, 2 * LANES), _odd)
"""Of sixteen words every second one."""
eight_shorts = load(EIGHT_WORDS, eight(I16), _widened)
"""Eight numbers of 16 bits without a sign."""
byte_at = load(types.int64, I8, lambda builder, loaded: builder.zext(loaded, I64))
"""One byte."""
short_at = load(types.int64, I16, lambda builder, loaded: builder.zext(loaded, I64))
"""Two bytes as one number, the first one lowest."""
word_at = load(types.int64, I32, lambda builder, loaded: builder.zext(loaded, I64))
"""Four bytes, likewise."""
long_at = load(types.int64, I64, lambda _, loaded: loaded)
"""Eight bytes, likewise, the highest bit as the sign."""


def _six_bits(builder: Any, loaded: Any) -> Any:
    """As words of four bytes: the fourth one has four bits of all from the third word, and two of the first two.

    In both halves of a register from the beginning, as all who read it want it there.
    """
    kind = eight(I32)
    words = builder.bitcast(opaque(builder, twice(builder, loaded)), kind)
    low, high = (
        chosen(builder, words, undefined(words), [at + place for at in (0, 4) for place in places])
        for places in ([1, 3, 2, 3], [1, 1, 2, 2])
    )
    whole, four, two = 0x3F3F3F3F, 0x0F0F0F0F, 0x30303030
    low = builder.and_(builder.lshr(low, ir.Constant(kind, [0, 0, 0, 4] * 2)), ir.Constant(kind, [whole, four] * 4))
    high = builder.and_(builder.lshr(high, constant(kind, 2)), ir.Constant(kind, [0, two] * 4))
    return builder.bitcast(opaque(builder, builder.or_(low, high)), MANY_BYTES.llvm)


six_bits = load(SIXTEEN_BYTES, ir.VectorType(I8, BYTES), _six_bits)
"""(bytes, index): of a Q4_K or Q5_K block that begins at an index the factors of eight units, and their offsets, as
bytes. Of 6 bits each, those of the last four units have their upper two bits beside those of the first four."""
spread = load(EIGHT_NUMBERS, F32, lambda builder, loaded: _spread(builder, loaded, eight(F32)))
"""One float32 number of an array, eight times."""


def _fields(builder: Any, number: Any, step: Any, mask: Any) -> Any:
    places = builder.mul(
        ir.Constant(eight(I32), list(range(LANES))), _spread(builder, builder.trunc(step, I32), eight(I32))
    )
    return _cut(builder, number, places, _spread(builder, builder.trunc(mask, I32), eight(I32)))


def _cut(builder: Any, number: Any, places: Any, mask: Any) -> Any:
    return builder.and_(builder.lshr(_spread(builder, builder.trunc(number, I32), eight(I32)), places), mask)


def _fields_of(builder: Any, words: Any, places: Any, mask: Any) -> Any:
    moved = builder.lshr(words, _spread(builder, builder.trunc(places, I32), eight(I32)))
    return builder.and_(moved, _spread(builder, builder.trunc(mask, I32), eight(I32)))


def _triples(builder: Any, number: Any) -> Any:
    return _cut(builder, number, ir.Constant(eight(I32), list(TRIPLES)), constant(eight(I32), 7))


def _joined(builder: Any, low: Any, high: Any, places: Any) -> Any:
    return builder.or_(low, builder.shl(high, _spread(builder, builder.trunc(places, I32), eight(I32))))


def _half_of(builder: Any, bits: Any) -> Any:
    halves = _spread(builder, builder.trunc(bits, I16), eight(I16))
    return builder.fpext(builder.bitcast(halves, eight(F16)), eight(F32))


def _eight_scales() -> Any:
    """Eight items of an array of scales as float32; see `arrays.scales`."""

    def sign(_context: Any, array: Any, _index: Any) -> Any:
        content = {types.float32: F32, types.uint16: F16, types.int16: I16}[array.dtype]

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            loaded = builder.load(place_of(context, builder, signature.args[0], values, eight(content)), align=1)
            if content is F16:
                return builder.fpext(loaded, eight(F32))
            if content is I16:
                wide = builder.shl(_widened(builder, loaded), constant(eight(I32), 16))
                return builder.bitcast(wide, eight(F32))
            return loaded

        return EIGHT_NUMBERS(array, types.intp), generate

    return intrinsic(with_arguments(sign, 2))


eight_scales = _eight_scales()
"""Eight scales of an array."""
fields = operation(EIGHT_WORDS, (types.int64,) * 3, _fields)
"""(number, step, mask): its eight fields of bits that begin so many bits one behind the other."""
cut = operation(
    EIGHT_WORDS,
    (types.int64,),
    lambda builder, number: _cut(builder, number, ir.Constant(eight(I32), list(AWQ_PLACES)), constant(eight(I32), 15)),
)
"""The codes of 4 bits of a word of AutoAWQ, in the order of its outputs."""
triples = operation(EIGHT_WORDS, (types.int64,), _triples)
"""Of two numbers of 16 bits in one, the four lowest fields of three bits of both."""
fields_of = operation(EIGHT_WORDS, (EIGHT_WORDS, types.int64, types.int64), _fields_of)
"""(words, places, mask): of each the bits of a mask, once it is moved to the right."""
joined = operation(EIGHT_WORDS, (EIGHT_WORDS, EIGHT_WORDS, types.int64), _joined)
"""Each of the first with that of the second, moved so many places to the left."""
words_minus = operation(EIGHT_WORDS, (EIGHT_WORDS, EIGHT_WORDS), lambda builder, a, b: builder.sub(a, b))
"""Each of the first less that of the second."""
words_plus = operation(
    EIGHT_WORDS,
    (EIGHT_WORDS, types.int64),
    lambda builder, words, number: builder.add(words, _spread(builder, builder.trunc(number, I32), eight(I32))),
)
"""Each of them plus a number."""
as_numbers = operation(EIGHT_NUMBERS, (EIGHT_WORDS,), lambda builder, words: builder.sitofp(words, eight(F32)))
"""Whole numbers with a sign as float32."""
half_of = operation(EIGHT_NUMBERS, (types.int64,), _half_of)
"""The float16 number of the lowest 16 bits, eight times."""


def _eight_apart() -> Any:
    """Words of an array, `step` items from one to the next."""

    def sign(_context: Any, array: Any, _index: Any, _step: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            found, index = ir.Constant(eight(I32), ir.Undefined), values[1]
            for lane in range(LANES):
                place = place_of(context, builder, signature.args[0], (values[0], index), I32)
                found = builder.insert_element(found, builder.load(place, align=1), ir.Constant(I32, lane))
                index = builder.add(index, values[2])
            return found

        return EIGHT_WORDS(array, types.intp, types.intp), generate

    return intrinsic(with_arguments(sign, 3))


eight_apart = _eight_apart()
"""(array, index, step): eight words that lie apart."""


def _bits(builder: Any, word: Any) -> Any:
    return builder.sext(builder.bitcast(word, ir.VectorType(ir.IntType(1), MANY)), MANY_BYTES.llvm)


bits = load(MANY_BYTES, I32, _bits)
"""For each bit of four bytes, the lowest first, a byte: 255 or 0."""


def _storing(kind: Any, content: ir.Type) -> Any:
    def sign(_context: Any, array: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            builder.store(values[2], place_of(context, builder, signature.args[0], values, content), align=1)
            return context.get_dummy_value()

        return types.none(array, types.intp, kind), generate

    return intrinsic(with_arguments(sign, 3))


store_bytes = _storing(MANY_BYTES, MANY_BYTES.llvm)
"""Write thirty-two bytes to an item of an array."""
store_long = _storing(types.int64, I64)
"""Write eight bytes, the lowest first, to an item of an array."""
