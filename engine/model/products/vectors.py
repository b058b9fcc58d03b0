"""Eight float32 numbers, and sixteen bytes, as values in compiled code: what a processor's registers hold.

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

LANES, BYTES = 8, 16
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
_NUMBERS, _PACKED = Vector("EightNumbers", _eight(_F32)), Vector("SixteenBytes", ir.VectorType(_I8, BYTES))

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
half = _load(types.float32, _F16, lambda builder, loaded: builder.fpext(loaded, _F32))
"""One float16 number that begins at a byte, or at an item of 16 bits."""
sixteen = _load(_PACKED, ir.VectorType(_I8, BYTES), lambda _, loaded: loaded)
"""Sixteen bytes."""


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


def _masked(builder: Any, vector: Any, mask: Any) -> Any:
    return builder.and_(vector, _spread(builder, mask))


def _spread(builder: Any, byte: Any) -> Any:
    empty = ir.Constant(ir.VectorType(_I8, BYTES), ir.Undefined)
    one = builder.insert_element(empty, builder.trunc(byte, _I8), ir.Constant(_I32, 0))
    return _chosen(builder, one, empty, [0] * BYTES)


def _shifted(builder: Any, vector: Any, places: Any) -> Any:
    return builder.lshr(vector, _spread(builder, places))


def _lifted(builder: Any, vector: Any, places: Any) -> Any:
    return builder.shl(vector, _spread(builder, places))


masked = _operation(_PACKED, (_PACKED, types.int64), _masked)
"""Of every byte the bits of a mask."""
shifted = _operation(_PACKED, (_PACKED, types.int64), _shifted)
"""Every byte moved to the right."""
lifted = _operation(_PACKED, (_PACKED, types.int64), _lifted)
"""Every byte moved to the left."""
joined = _operation(_PACKED, (_PACKED, _PACKED), lambda builder, a, b: builder.or_(a, b))
"""The bits of both."""


def _stacked(builder: Any, *words: Any) -> Any:
    found = ir.Constant(ir.VectorType(_I32, len(words)), ir.Undefined)
    for place, each in enumerate(words):
        found = builder.insert_element(found, each, ir.Constant(_I32, place))
    return builder.bitcast(found, ir.VectorType(_I8, BYTES))


stacked = _operation(_PACKED, (types.int32,) * 4, _stacked)
"""Four words, one behind the other."""


def _woven(first: int) -> Build:
    places = [place for at in range(first, first + LANES) for place in (at, at + BYTES)]
    return lambda builder, a, b: _chosen(builder, a, b, places)


woven_first = _operation(_PACKED, (_PACKED, _PACKED), _woven(0))
"""The first eight bytes of both, in turns."""
woven_last = _operation(_PACKED, (_PACKED, _PACKED), _woven(LANES))
"""The last eight bytes of both, in turns."""


def _wide(builder: Any, vector: Any, begin: int) -> Any:
    some = _chosen(builder, vector, _undefined(vector), list(range(begin, begin + LANES)))
    return builder.zext(some, _eight(_I32))


first = _operation(_NUMBERS, (_PACKED,), lambda b, vector: b.sitofp(_wide(b, vector, 0), _eight(_F32)))
"""The first eight bytes as numbers."""
last = _operation(_NUMBERS, (_PACKED,), lambda b, vector: b.sitofp(_wide(b, vector, LANES), _eight(_F32)))
"""The last eight bytes as numbers."""


def _level(begin: int) -> Any:
    """Of a table of 16 numbers, those that eight bytes (less than 16) stand for."""

    def sign(_context: Any, table: Any, _codes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            places = _wide(builder, values[1], begin)
            zero = ir.Constant(ir.IntType(64), 0)
            data = _place(context, builder, signature.args[0], (values[0], zero), _F32)
            look_up = _by_permutation if "+avx2" in context.codegen().magic_tuple()[2] else _one_by_one
            return look_up(builder, data, places)

        return _NUMBERS(table, _PACKED), generate

    return intrinsic(_with_arguments(sign, 2))


def _by_permutation(builder: Any, data: Any, places: Any) -> Any:
    """Both halves of the table lie in registers."""
    kind = ir.FunctionType(_eight(_F32), [_eight(_F32), _eight(_I32)])
    name = "llvm.x86.avx2.permps"
    permute = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    low, high = (
        builder.load(builder.bitcast(builder.gep(data, [ir.Constant(_I32, at)]), _eight(_F32).as_pointer()), align=1)
        for at in (0, LANES)
    )
    is_high = builder.icmp_signed(">", places, _constant(_eight(_I32), LANES - 1))
    return builder.select(is_high, builder.call(permute, [high, places]), builder.call(permute, [low, places]))


def _one_by_one(builder: Any, data: Any, places: Any) -> Any:
    found = ir.Constant(_eight(_F32), ir.Undefined)
    for lane in range(LANES):
        at = ir.Constant(_I32, lane)
        number = builder.load(builder.gep(data, [builder.extract_element(places, at)]))
        found = builder.insert_element(found, number, at)
    return found


first_levels, last_levels = _level(0), _level(LANES)
"""(table float32 [16], bytes) to the numbers that the first, or the last, eight bytes stand for."""


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
            loaded = builder.load(_place(context, builder, signature.args[0], values, content), align=1)
            if content is _F16:
                return builder.fpext(loaded, _F32)
            if content is _I16:
                wide = builder.shl(builder.zext(loaded, _I32), ir.Constant(_I32, 16))
                return builder.bitcast(wide, _F32)
            return loaded

        return types.float32(array, types.intp), generate

    return intrinsic(_with_arguments(sign, 2))


number = _as_number()
"""One number of an array of scales."""
