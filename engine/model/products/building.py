"""How operations on what fills a register of a processor become code of LLVM, and as what types numba knows them."""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LANES, BYTES, MANY = 8, 16, 32
F32, F16 = ir.FloatType(), ir.HalfType()
I8, I16, I32, I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
CONTRACTED = ("contract",)  # a product and a sum become one instruction where there is one


def eight(kind: ir.Type) -> ir.VectorType:
    """The type of eight of them."""
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
EIGHT_NUMBERS, SIXTEEN_BYTES = Vector("EightNumbers", eight(F32)), Vector("SixteenBytes", ir.VectorType(I8, MANY))
MANY_BYTES = Vector("ThirtyTwoBytes", ir.VectorType(I8, MANY))

Build = Callable[..., Any]
"""(builder, values) to a value of LLVM."""


def operation(result: types.Type, arguments: tuple[types.Type, ...], build: Build) -> Any:
    """An operation on values of these types."""

    def sign(_context: Any, *_given: Any) -> Any:
        return result(*arguments), lambda _target, builder, _signature, values: build(builder, *values)

    return intrinsic(with_arguments(sign, len(arguments)))


def with_arguments(sign: Callable[..., Any], count: int) -> Callable[..., Any]:
    """numba counts the arguments that a function names."""
    counted: dict[int, Callable[..., Any]] = {
        1: lambda context, a: sign(context, a),  # noqa: PLW0108
        2: lambda context, a, b: sign(context, a, b),  # noqa: PLW0108
        3: lambda context, a, b, c: sign(context, a, b, c),  # noqa: PLW0108
        4: lambda context, a, b, c, d: sign(context, a, b, c, d),  # noqa: PLW0108
        5: lambda context, a, b, c, d, e: sign(context, a, b, c, d, e),  # noqa: PLW0108
        6: lambda context, a, b, c, d, e, f: sign(context, a, b, c, d, e, f),  # noqa: PLW0108
    }
    return counted[count]


def place_of(context: Any, builder: Any, kind: Any, values: Any, content: ir.Type) -> Any:
    """A pointer to an item of an array, as one to `content`; `values` begin with the array and the index."""
    data = context.make_array(kind)(context, builder, values[0]).data
    return builder.bitcast(builder.gep(data, [values[1]]), content.as_pointer())


def load(result: types.Type, content: ir.Type, build: Build) -> Any:
    """What lies at an index of an array, of whatever alignment."""

    def sign(_context: Any, array: Any, _index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = place_of(context, builder, signature.args[0], values, content)
            return build(builder, builder.load(place, align=1))

        return result(array, types.intp), generate

    return intrinsic(with_arguments(sign, 2))


def instruction(builder: Any, name: str, result: ir.Type, *values: Any) -> Any:
    """An instruction of a processor, by the name that LLVM has for it."""
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), values)


def store(kind: Vector) -> Any:
    """(array, index, value): write a vector from an index of an array on, of whatever alignment."""

    def sign(_context: Any, array: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            builder.store(values[2], place_of(context, builder, signature.args[0], values, kind.llvm), align=1)
            return context.get_dummy_value()

        return types.none(array, types.intp, kind), generate

    return intrinsic(with_arguments(sign, 3))


def constant(kind: ir.VectorType, number: float) -> ir.Constant:
    """A vector of one number."""
    return ir.Constant(kind, [number] * kind.count)


def chosen(builder: Any, first: Any, second: Any, places: list[int]) -> Any:
    """Items of two vectors, which are counted through, in any order."""
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(I32, len(places)), places))


def united(builder: Any, vectors: Sequence[Any]) -> Any:
    """One behind the other; their number is a power of two."""
    while len(vectors) > 1:
        vectors = [
            chosen(builder, first, second, [*range(2 * first.type.count)])
            for first, second in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]


def undefined(vector: Any) -> ir.Constant:
    """A vector of its type whose content is of no interest."""
    return ir.Constant(vector.type, ir.Undefined)


def twice(builder: Any, bytes_: Any) -> Any:
    """Sixteen bytes in both halves of a register."""
    return chosen(builder, bytes_, undefined(bytes_), [*range(BYTES)] * 2)


def opaque(builder: Any, vector: Any) -> Any:
    """The same, opaque to LLVM's optimizer, which would compute it anew for each part that is read; x86 with AVX."""
    form = ir.FunctionType(vector.type, [vector.type])
    return builder.asm(form, "", "=x,0", [vector], False)
