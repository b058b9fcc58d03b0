"""Instructions of a processor's matrix unit (AMX) in compiled code: eight tiles, by their numbers.

Tiles 0 to 3 hold sums, 4 and 5 a weight, 6 and 7 rows of x; nothing else uses them, so their numbers are fixed here.
A place is an index of an array's own items; `stride` is the bytes from a tile's row to the next. Nothing is checked.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products.building import I8, I64, instruction, place_of
from engine.model.products.layouts import Array

COUNT, ROWS, ROW_BYTES = 8, 16, 64


def _number(tile: int) -> ir.Constant:
    return ir.Constant(I8, tile)


def _bare(name: str, *tiles: int) -> Any:
    """An instruction on tiles alone."""

    def sign(_context: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, _values: Any) -> Any:
            instruction(builder, name, ir.VoidType(), *map(_number, tiles))
            return context.get_dummy_value()

        return types.none(), generate

    return intrinsic(sign)


def _moved(name: str, tile: int) -> Any:
    """A tile from memory, or to it: (array, place, stride)."""

    def sign(_context: Any, array: Any, _place: Any, _stride: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = place_of(context, builder, signature.args[0], values, I8)
            instruction(builder, name, ir.VoidType(), _number(tile), place, values[2])
            return context.get_dummy_value()

        return types.none(array, types.intp, types.int64), generate

    return intrinsic(sign)


def _configure() -> Any:
    def sign(_context: Any, array: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = place_of(context, builder, signature.args[0], [values[0], ir.Constant(I64, 0)], I8)
            instruction(builder, "llvm.x86.ldtilecfg", ir.VoidType(), place)
            return context.get_dummy_value()

        return types.none(array), generate

    return intrinsic(sign)


configure = _configure()
"""Begin to use tiles, in this thread: with `SHAPES`."""
release = _bare("llvm.x86.tilerelease")
"""End it: a thread that holds tiles is slower to switch."""

clear_0, clear_1, clear_2, clear_3 = (_bare("llvm.x86.tilezero", tile) for tile in range(4))
load_0, load_1, load_2, load_3 = (_moved("llvm.x86.tileloadd64", tile) for tile in range(4))
load_weight, load_weight_below, load_x, load_more_x = (_moved("llvm.x86.tileloadd64", tile) for tile in range(4, 8))
save_0, save_1, save_2, save_3 = (_moved("llvm.x86.tilestored64", tile) for tile in range(4))
add_0, add_1 = _bare("llvm.x86.tdpbf16ps", 0, 4, 6), _bare("llvm.x86.tdpbf16ps", 1, 4, 7)
add_2, add_3 = _bare("llvm.x86.tdpbf16ps", 2, 5, 6), _bare("llvm.x86.tdpbf16ps", 3, 5, 7)


def shapes() -> Array:
    """What `configure` takes: uint8 [64], all tiles as large as they can be."""
    found = np.zeros(64, np.uint8)
    found[0] = 1  # the only palette there is
    found[16 : 16 + 2 * COUNT : 2] = ROW_BYTES
    found[48 : 48 + COUNT] = ROWS
    return found
