"""Addresses as pointers, in compiled code: what calls hand over as a number, because that takes no time.

Nothing is checked: what is pointed to must be there.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_operation: Callable[[Callable[..., Any]], Callable[..., Any]] = intrinsic  # numba has no types


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
