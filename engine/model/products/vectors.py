"""Eight float32 numbers, and 16 or 32 bytes, as values in compiled code: what a processor's registers hold.

LLVM makes the widest instructions of the machine from them. Written as loops over single numbers, sums would be
reordered as each processor likes, and short loops of 16 or 32 numbers would not be vectorised at all. Here every
operation is one that is named, so that the bits of results are the same wherever a product and a sum are fused.

Indices count the array's own items. Nothing is checked: what is loaded must be there.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LANES, BYTES, MANY = 8, 16, 32
_F32, _F16, _I8, _I16, _I32 = ir.FloatType(), ir.HalfType(), ir.IntType(8), ir.IntType(16), ir.IntType(32)
_FUSED = ("contract",)  # a product and a sum become one instruction where there is one


def _eight(kind: ir.Type) -> ir.VectorType:
    return ir.VectorType(kind, LANES)


class Vector(types.Type):  # type: ignore[misc]  # numba has no types
    """The type of a vector in numba's eyes."""

    def __init__(self, name: str, llvm: ir.VectorType) -> None:
        self.llvm = llvm
        super().__init__(name=name)


class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, kind.llvm)


register_model(Vector)(_Model)
_NUMBERS, _PACKED = Vector("EightNumbers", _eight(_F32)), Vector("SixteenBytes", ir.VectorType(_I8, MANY))
_MANY = Vector("ThirtyTwoBytes", ir.VectorType(_I8, MANY))
EIGHT_NUMBERS = _NUMBERS

Build = Callable[..., Any]
"""(builder, values) to a value of LLVM."""


def _operation(result: types.Type, arguments: tuple[types.Type, ...], build: Build) -> Any:
    """An operation on values of these types."""

    def sign(_context: Any, *_given: Any) -> Any:
        return result(*arguments), lambda _target, builder, _signature, values: build(builder, *values)

    return intrinsic(_with_arguments(sign, len(arguments)))


def _with_arguments(sign: Callable[..., Any], count: int) -> Callable[..., Any]:
    """numba counts the arguments that a function names."""
    counted: dict[int, Callable[..., Any]] = {
        1: lambda context, a: sign(context, a),  # noqa: PLW0108
        2: lambda context, a, b: sign(context, a, b),  # noqa: PLW0108
        3: lambda context, a, b, c: sign(context, a, b, c),  # noqa: PLW0108
        4: lambda context, a, b, c, d: sign(context, a, b, c, d),  # noqa: PLW0108
    }
    return counted[count]


def _place(context: Any, builder: Any, kind: Any, values: Any, content: ir.Type) -> Any:
    """A pointer to an item of an array, as one to `content`; `values` begin with the array and the index."""
    data = context.make_array(kind)(context, builder, values[0]).data
    return builder.bitcast(builder.gep(data, [values[1]]), content.as_pointer())


def _load(result: types.Type, content: ir.Type, build: Build) -> Any:
    """What lies at an index of an array, of whatever alignment."""

    def sign(_context: Any, array: Any, _index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = _place(context, builder, signature.args[0], values, content)
            return build(builder, builder.load(place, align=1))

        return result(array, types.intp), generate

    return intrinsic(_with_arguments(sign, 2))


def _constant(kind: ir.VectorType, number: int) -> ir.Constant:
    return ir.Constant(kind, [number] * kind.count)


def _chosen(builder: Any, first: Any, second: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(_I32, len(places)), places))


def _undefined(vector: Any) -> ir.Constant:
    return ir.Constant(vector.type, ir.Undefined)


def _of_bfloats(builder: Any, bits: Any) -> Any:
    wide = builder.zext(bits, _eight(_I32))
    return builder.bitcast(builder.shl(wide, _constant(_eight(_I32), 16)), _eight(_F32))


def _of_e4m3(builder: Any, codes: Any) -> Any:
    """Their numbers divided by 256: the bits are those of a float16 whose exponents stand for so much more."""
    wide = builder.sext(codes, _eight(_I16))
    halves = builder.and_(builder.shl(wide, _constant(_eight(_I16), 7)), _constant(_eight(_I16), 0xBFFF))
    magnitude = builder.and_(wide, _constant(_eight(_I16), 0x7F))
    is_number = builder.icmp_signed("!=", magnitude, _constant(_eight(_I16), 0x7F))
    halves = builder.select(is_number, halves, _constant(_eight(_I16), 0x7E00))
    return builder.fpext(builder.bitcast(halves, _eight(_F16)), _eight(_F32))


def _twice(builder: Any, bytes_: Any) -> Any:
    return _chosen(builder, bytes_, _undefined(bytes_), [*range(BYTES)] * 2)


def _spread_half(builder: Any, bits: Any) -> Any:
    empty = ir.Constant(_eight(_I16), ir.Undefined)
    one = builder.insert_element(empty, bits, ir.Constant(_I32, 0))
    all_bits = _chosen(builder, one, empty, [0] * LANES)
    return builder.fpext(builder.bitcast(all_bits, _eight(_F16)), _eight(_F32))


def _half(builder: Any, bits: Any) -> Any:
    """Of a whole register: one into which 16 bits are put waits for what was computed there before."""
    return builder.extract_element(_spread_half(builder, bits), ir.Constant(_I32, 0))


numbers = _load(_NUMBERS, _eight(_F32), lambda _, loaded: loaded)
"""Eight float32 numbers."""
bfloats = _load(_NUMBERS, _eight(_I16), _of_bfloats)
"""Eight bfloat16 numbers of an array of 16 bits."""
halves = _load(_NUMBERS, _eight(_F16), lambda builder, loaded: builder.fpext(loaded, _eight(_F32)))
"""Eight float16 numbers of an array of 16 bits."""
signed = _load(_NUMBERS, _eight(_I8), lambda b, loaded: b.sitofp(b.sext(loaded, _eight(_I32)), _eight(_F32)))
"""Eight whole numbers of 8 bits, with a sign."""
e4m3 = _load(_NUMBERS, _eight(_I8), _of_e4m3)
"""Eight numbers of 8 bits, e4m3, by 1/256, which is exact."""
spread_half = _load(_NUMBERS, _I16, _spread_half)
"""One float16 number that begins at a byte, or at an item of 16 bits, eight times."""
half = _load(types.float32, _I16, _half)
"""The same, once."""
sixteen = _load(_PACKED, ir.VectorType(_I8, BYTES), _twice)
"""Sixteen bytes, in both halves of a register: from there instructions bring any eight of them to where they belong."""
thirty_two = _load(_MANY, ir.VectorType(_I8, MANY), lambda _, loaded: loaded)
"""Thirty-two bytes."""
word = _load(types.uint32, _I32, lambda _, loaded: loaded)
"""Four bytes as one number, the first one lowest."""


def _splat(builder: Any, number: Any) -> Any:
    empty = ir.Constant(_eight(_F32), ir.Undefined)
    one = builder.insert_element(empty, number, ir.Constant(_I32, 0))
    return _chosen(builder, one, empty, [0] * LANES)


def _total(builder: Any, vector: Any) -> Any:
    for width in (4, 2, 1):
        low, high = (_chosen(builder, vector, _undefined(vector), list(range(at, at + width))) for at in (0, width))
        vector = builder.fadd(low, high)
    return builder.extract_element(vector, ir.Constant(_I32, 0))


def _fused(builder: Any, first: Any, second: Any, third: Any) -> Any:
    return builder.fadd(builder.fmul(first, second, flags=_FUSED), third, flags=_FUSED)


splat = _operation(_NUMBERS, (types.float32,), _splat)
"""One number eight times."""
times = _operation(_NUMBERS, (_NUMBERS, _NUMBERS), lambda builder, a, b: builder.fmul(a, b))
plus = _operation(_NUMBERS, (_NUMBERS, _NUMBERS), lambda builder, a, b: builder.fadd(a, b))
minus = _operation(_NUMBERS, (_NUMBERS, _NUMBERS), lambda builder, a, b: builder.fsub(a, b))
fused = _operation(_NUMBERS, (_NUMBERS, _NUMBERS, _NUMBERS), _fused)
"""a x b + c, rounded once where the processor can."""
total = _operation(types.float32, (_NUMBERS,), _total)
"""The sum of all eight, in a fixed order."""


def _spread(builder: Any, number: Any, kind: ir.VectorType) -> Any:
    empty = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(empty, builder.trunc(number, kind.element), ir.Constant(_I32, 0))
    return _chosen(builder, one, empty, [0] * kind.count)


def _masked(builder: Any, vector: Any, mask: Any) -> Any:
    return builder.and_(vector, _spread(builder, mask, vector.type))


def _shifted(builder: Any, vector: Any, places: Any) -> Any:
    return builder.lshr(vector, _spread(builder, places, vector.type))


def _less(builder: Any, vector: Any, byte: Any) -> Any:
    return builder.sub(vector, _spread(builder, byte, vector.type))


def _field(builder: Any, vector: Any, places: Any, mask: Any) -> Any:
    """Processors shift no bytes: what comes in from the byte beside is masked away."""
    wide = ir.VectorType(_I16, vector.type.count // 2)
    moved = builder.lshr(builder.bitcast(vector, wide), _spread(builder, places, wide))
    return _masked(builder, builder.bitcast(moved, vector.type), mask)


def _placed(builder: Any, low: Any, high: Any) -> Any:
    wide = ir.VectorType(_I16, high.type.count // 2)
    moved = builder.shl(builder.bitcast(high, wide), _constant(wide, 4))
    return builder.or_(low, builder.bitcast(moved, low.type))


masked = _operation(_PACKED, (_PACKED, types.int64), _masked)
"""Of every byte the bits of a mask."""
shifted = _operation(_PACKED, (_PACKED, types.int64), _shifted)
"""Every byte moved to the right."""
less = _operation(_PACKED, (_PACKED, types.int64), _less)
"""Every byte less a number."""
field = _operation(_MANY, (_MANY, types.int64, types.int64), _field)
"""Of every byte the bits of a mask, once it is moved to the right: no more bits than remain there."""
placed = _operation(_MANY, (_MANY, _MANY), _placed)
"""Every byte of the first with that of the second, of 4 bits at most, moved 4 to the left."""
many_less = _operation(_MANY, (_MANY, types.int64), _less)
"""Each of thirty-two bytes less a number."""
united = _operation(
    _MANY,
    (_PACKED, _PACKED),
    lambda b, low, high: _chosen(b, low, high, [*range(BYTES), *range(MANY + BYTES, 2 * MANY)]),
)
"""Sixteen bytes and sixteen more."""
lower = _operation(_PACKED, (_MANY,), lambda b, many: _chosen(b, many, many, [*range(BYTES)] * 2))
"""The first sixteen of thirty-two bytes."""
upper = _operation(_PACKED, (_MANY,), lambda b, many: _chosen(b, many, many, [*range(BYTES, MANY)] * 2))
"""The last sixteen of thirty-two bytes."""


def _stacked(builder: Any, *words: Any) -> Any:
    found = ir.Constant(ir.VectorType(_I32, len(words)), ir.Undefined)
    for place, each in enumerate(words):
        found = builder.insert_element(found, each, ir.Constant(_I32, place))
    return _twice(builder, builder.bitcast(found, ir.VectorType(_I8, BYTES)))


stacked = _operation(_PACKED, (types.int32,) * 4, _stacked)
"""Four words, one behind the other."""


def _woven(first: int) -> Build:
    half = [place for at in range(first, first + LANES) for place in (at, at + MANY)]
    places = half + [place + BYTES for place in half]
    return lambda builder, a, b: _chosen(builder, a, b, places)


woven_first = _operation(_PACKED, (_PACKED, _PACKED), _woven(0))
"""The first eight bytes of both, in turns."""
woven_last = _operation(_PACKED, (_PACKED, _PACKED), _woven(LANES))
"""The last eight bytes of both, in turns."""


def _eight_of(begin: int, place: int) -> Any:
    """Eight of sixteen bytes, from one on, as numbers; each goes to this byte of a whole number of 32 bits."""

    def sign(_context: Any, _bytes: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            is_wide = "+avx2" in context.codegen().magic_tuple()[2]
            return builder.sitofp((_brought if is_wide else _widened)(builder, values[0], begin, place), _eight(_F32))

        return _NUMBERS(_PACKED), generate

    return intrinsic(_with_arguments(sign, 1))


def _brought(builder: Any, vector: Any, begin: int, place: int) -> Any:
    control = [(begin + at // 4 if at % 4 == place else 128) for at in range(MANY)]
    return builder.bitcast(_looked_up(builder, vector, ir.Constant(vector.type, control)), _eight(_I32))


def _widened(builder: Any, vector: Any, begin: int, place: int) -> Any:
    some = _chosen(builder, vector, _undefined(vector), list(range(begin, begin + LANES)))
    return builder.shl(builder.zext(some, _eight(_I32)), _constant(_eight(_I32), 8 * place))


def _looked_up(builder: Any, table: Any, codes: Any) -> Any:
    """In each half of a register: of the sixteen bytes there those that codes stand for, 0 for 128."""
    kind = ir.FunctionType(codes.type, [codes.type, codes.type])
    name = "llvm.x86.avx2.pshuf.b"
    look_up = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(look_up, [table, codes])


first, last = _eight_of(0, 0), _eight_of(LANES, 0)
"""The first, or the last, eight bytes as numbers."""
first_high, last_high = _eight_of(0, 3), _eight_of(LANES, 3)
"""The first, or the last, eight bytes as numbers with a sign, times 2 ** 24: as much work as without a sign."""


def _four(build: Callable[..., list[Any]]) -> Any:
    """An operation on a table and thirty-two bytes to four vectors of eight numbers."""
    result = types.UniTuple(_NUMBERS, 4)

    def by_table(_context: Any, array: Any, _codes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            zero = ir.Constant(ir.IntType(64), 0)
            data = _place(context, builder, signature.args[0], (values[0], zero), _I8)
            is_wide = "+avx2" in context.codegen().magic_tuple()[2]
            return context.make_tuple(builder, result, build(builder, data, values[1], is_wide))

        return result(array, _MANY), generate

    return intrinsic(_with_arguments(by_table, 2))


def _levels(builder: Any, data: Any, codes: Any, is_wide: bool) -> list[Any]:
    return _by_planes(builder, data, codes) if is_wide else _one_by_one(builder, data, codes)


def _by_planes(builder: Any, data: Any, codes: Any) -> list[Any]:
    """Each byte of the numbers is looked up for all codes at once; then the four of a number are brought together.

    Instructions work on both halves of a register alike: so the first half gets the first four codes of every eight.
    """
    places = [place for half in (0, 4) for begin in range(half, MANY, 8) for place in range(begin, begin + 4)]
    codes = _chosen(builder, codes, _undefined(codes), places)
    planes = []
    for plane in range(4):
        place = builder.gep(data, [ir.Constant(_I32, 64 + BYTES * plane)])
        loaded = builder.load(builder.bitcast(place, ir.VectorType(_I8, BYTES).as_pointer()), align=1)
        planes.append(_looked_up(builder, _twice(builder, loaded), codes))
    lower = _woven_halves(builder, planes[0], planes[1], 1)
    upper = _woven_halves(builder, planes[2], planes[3], 1)
    found = [_woven_halves(builder, low, high, 2) for low, high in zip(lower, upper, strict=True)]
    return [builder.bitcast(each, _eight(_F32)) for pair in found for each in pair]


def _woven_halves(builder: Any, first: Any, second: Any, size: int) -> list[Any]:
    """Items of so many bytes of both in turns, in each half of a register: those of the lower parts, of the upper."""
    found = []
    for part in (0, 8):
        begins = [half + part + at for half in (0, BYTES) for at in range(0, 8, size)]
        places = [at + i for begin in begins for at in (begin, begin + MANY) for i in range(size)]
        found.append(_chosen(builder, first, second, places))
    return found


def _one_by_one(builder: Any, data: Any, codes: Any) -> list[Any]:
    table, found = builder.bitcast(data, _F32.as_pointer()), []
    for begin in range(0, MANY, LANES):
        eight = ir.Constant(_eight(_F32), ir.Undefined)
        for lane in range(LANES):
            code = builder.zext(builder.extract_element(codes, ir.Constant(_I32, begin + lane)), _I32)
            eight = builder.insert_element(eight, builder.load(builder.gep(table, [code])), ir.Constant(_I32, lane))
        found.append(eight)
    return found


levels_of = _four(_levels)
"""(table of `layouts.levels`, thirty-two bytes, less than 16 each) to the numbers that they stand for."""


def _store() -> Any:
    def sign(_context: Any, array: Any, _index: Any, _vector: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = _place(context, builder, signature.args[0], values, _eight(_F32))
            builder.store(values[2], place, align=1)
            return context.get_dummy_value()

        return types.none(array, types.intp, _NUMBERS), generate

    return intrinsic(_with_arguments(sign, 3))


store = _store()
"""Write eight numbers into an array of float32, from an index on."""


def _as_number() -> Any:
    """An item of an array as float32; see `layouts.scales`."""

    def sign(_context: Any, array: Any, _index: Any) -> Any:
        contents = {types.float32: _F32, types.uint16: _F16, types.int16: _I16}
        content = contents[array.dtype]

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            if content is _F16:
                return _half(builder, builder.load(_place(context, builder, signature.args[0], values, _I16), align=1))
            loaded = builder.load(_place(context, builder, signature.args[0], values, content), align=1)
            if content is _I16:
                wide = builder.shl(builder.zext(loaded, _I32), ir.Constant(_I32, 16))
                return builder.bitcast(wide, _F32)
            return loaded

        return types.float32(array, types.intp), generate

    return intrinsic(_with_arguments(sign, 2))


number = _as_number()
"""One number of an array of scales."""


def _fetch() -> Any:
    def sign(_context: Any, array: Any, _at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, values[0]).data
            place = builder.gep(builder.bitcast(data, _I8.as_pointer()), [values[1]])
            kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
            name = "llvm.prefetch.p0"
            ask = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            builder.call(ask, [place, *(ir.Constant(_I32, each) for each in (0, 2, 1))])  # read, second level, data
            return context.get_dummy_value()

        return types.none(array, types.intp), generate

    return intrinsic(_with_arguments(sign, 2))


fetch = _fetch()
"""Ask for the line of the cache in which a byte of an array's memory lies; any byte, there need be none."""
