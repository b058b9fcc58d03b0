"""What compiled code does with memory and other code by their addresses, beside other threads.

Calls hand addresses over as numbers, because that takes no time. Nothing is checked: what is pointed to must be there.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_operation: Callable[[Callable[..., Any]], Callable[..., Any]] = intrinsic  # numba has no types
_I64 = ir.IntType(64)

PAUSES: dict[str, tuple[str, list[Any]]] = {
    "x86_64": ("llvm.x86.sse2.pause", []),
    "aarch64": ("llvm.aarch64.hint", [ir.Constant(ir.IntType(32), 1)]),
    "arm64": ("llvm.aarch64.hint", [ir.Constant(ir.IntType(32), 1)]),
}
"""By the processor's kind: what a thread that waits in a loop says to it."""


def _at(builder: Any, address: Any, kind: ir.Type = _I64) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


@_operation
def look(_context: Any, address: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """An integer in memory, as other threads left it."""
    return types.int64(types.int64), lambda _c, builder, _s, values: builder.load_atomic(
        _at(builder, values[0]), "seq_cst", 8
    )


@_operation
def write(_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """An integer to memory, behind all that was written before."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        builder.store_atomic(values[1], _at(builder, values[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_operation
def add(_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """Add to an integer in memory; returns what it was."""
    return types.int64(types.int64, types.int64), lambda _c, builder, _s, values: builder.atomic_rmw(
        "add", _at(builder, values[0]), values[1], "seq_cst"
    )


@_operation
def pause(_context: Any) -> Any:
    """Tell the processor that a thread waits in a loop."""

    def generate(context: Any, builder: Any, _signature: Any, _values: Any) -> Any:
        name, arguments = PAUSES.get(_architecture(), ("", []))
        if name:
            kind = ir.FunctionType(ir.VoidType(), [each.type for each in arguments])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)
        return context.get_dummy_value()

    return types.void(), generate


def _architecture() -> str:
    from llvmlite import binding  # noqa: PLC0415

    return str(binding.get_process_triple()).partition("-")[0]


@_operation
def call(_context: Any, address: Any, share: Any, matrix: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """Call a loop for a share of a matrix, all by their addresses."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_I64, _I64.as_pointer()])
        builder.call(_at(builder, values[0], kind), [values[1], _at(builder, values[2])])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@_operation
def value(_context: Any, place: Any) -> Any:
    """What was told in `told`, as a value of the type that `place` points to."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        content = context.get_value_type(place.dtype).as_pointer()
        return builder.load(builder.bitcast(values[0], content), align=8)

    return place.dtype(place), generate


def _pointer_to(item: types.Type, kind: ir.Type) -> tuple[Any, Callable[..., Any]]:
    return types.CPointer(item)(types.int64), lambda _context, builder, _signature, values: builder.inttoptr(
        values[0], kind.as_pointer()
    )


@_operation
def floats(_context: Any, address: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """An address as a pointer to float32."""
    return _pointer_to(types.float32, ir.FloatType())


@_operation
def integers(_context: Any, address: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """An address as a pointer to int64."""
    return _pointer_to(types.int64, ir.IntType(64))


@_operation
def booleans(_context: Any, address: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """An address as a pointer to bytes that are 0 or 1."""
    return _pointer_to(types.boolean, ir.IntType(8))


@_operation
def shorts(_context: Any, address: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """An address as a pointer to int16, which stand for bfloat16."""
    return _pointer_to(types.int16, ir.IntType(16))


@_operation
def octets(_context: Any, address: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """An address as a pointer to bytes."""
    return _pointer_to(types.uint8, ir.IntType(8))


@_operation
def signed_octets(_context: Any, address: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """An address as a pointer to bytes with a sign."""
    return _pointer_to(types.int8, ir.IntType(8))
