"""How rows of a matrix are taken apart for products with rows of x in 8 bits: see `rounded`.

A row's block of 256 numbers becomes a line of bytes: codes, factors, offsets and scales, one behind the other.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array
from engine.model.products.loops.kernels import LINE
from engine.model.products.units import k_codes, unit_codes
from engine.model.products.units.words import (
    CODES,
    GROUPS,
    REGISTER,
    ROWS,
    Shape,
    store_four_units,
    store_half_factors,
    store_turned_factors,
    store_two_units,
)
from engine.model.products.units.written import BY_TURNS
from engine.model.products.vectors import fetch, first, fused, last, shifted, splat, spread_half, store, times

TOGETHER = ROWS * GROUPS  # rows of the matrix that are taken apart for all rows of x


CODE_BYTES = CODES // ROWS  # of a row

SHAPES: dict[type, Shape] = {
    layouts.Q2K: Shape(zero=0, has_halves=True, is_whole=True, offsets=16),
    layouts.Q3K: Shape(zero=4, has_halves=True, is_whole=True, offsets=0),
    layouts.Q4K: Shape(zero=0, has_halves=False, is_whole=True, offsets=8),
    layouts.Q5K: Shape(zero=16, has_halves=False, is_whole=True, offsets=8),
    layouts.Q6K: Shape(zero=32, has_halves=True, is_whole=True, offsets=0),
    layouts.Q40: Shape(zero=8, has_halves=False, is_whole=False, offsets=0),
    layouts.Q41: Shape(zero=0, has_halves=False, is_whole=False, offsets=8),
    layouts.Q50: Shape(zero=16, has_halves=False, is_whole=False, offsets=0),
    layouts.Q51: Shape(zero=16, has_halves=False, is_whole=False, offsets=8),
    layouts.Mxfp4: Shape(zero=12, has_halves=False, is_whole=False, offsets=0),
}
"""Of the layouts that have such a loop."""

assert frozenset(SHAPES) == layouts.ROUNDED, "what is loaded is told by these"


def line_bytes(parts: Any) -> int:
    """How many bytes a row's block takes, taken apart: codes, factors, offsets and scales."""
    raise NotImplementedError


def whole_blocks(parts: Any) -> int:
    """How many full ones a row has."""
    raise NotImplementedError


def write_rest(parts: Any, row: int, end: int, block: int, memory: Array) -> None:
    """The same of eight rows, of what is left of these behind their last full block."""
    raise NotImplementedError


def write_line(parts: Any, row: int, block: int, line: Array, i: int) -> None:
    """Write a row's block taken apart, and ask for the memory of a later one."""
    raise NotImplementedError


@compiled
def ask_for(codes: Array, row: int, block: int, size: int) -> None:
    """For the memory of a row's block, and for that of the rows that are taken apart after it."""
    place = (row + TOGETHER) * codes.shape[1] + size * block
    for at in range(place, place + size, LINE):
        fetch(codes, at)


def _line_of_a_block(parts: Any, row: int, block: int, line: Array, i: int) -> None:
    """Of K types."""
    ask_for(parts[0], row, block, k_codes.bytes_of_a_block(parts))
    _store_codes(parts, row, block, line, i)
    head = k_codes.head(parts, row, block)
    offsets = i + CODE_BYTES + _store_factors(parts, head, line, i + CODE_BYTES)
    scales = offsets + store_offsets(parts, row, block, head, line, offsets)
    store(line, scales, k_codes.factor(parts, row, block))


def _line_of_units(parts: Any, row: int, block: int, line: Array, i: int) -> None:
    """Of blocks of 32 numbers."""
    ask_for(parts[0], row, block, unit_codes.bytes_of_a_block(parts))
    _write_units(parts, unit_codes.line_of(parts, row), block, line, i)


@compiled
def _write_units(parts: Any, source: Any, block: int, line: Array, i: int) -> None:
    for four in range(2):
        low, high = unit_codes.codes(parts, source, 2 * block + four)
        store_four_units(line, i + CODE_BYTES // 2 * four, low, high)
    store_scales(parts, source, block, line, i + CODE_BYTES)


def _store_codes(parts: Any, row: int, block: int, line: Array, i: int) -> None:
    """Of K types: the codes of 256 numbers in their order."""
    raise NotImplementedError


def _store_factors(parts: Any, head: Any, line: Array, i: int) -> int:
    """Of K types, and how many bytes these are."""
    raise NotImplementedError


def store_offsets(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> int:
    """Of K types, and how many bytes these are."""
    raise NotImplementedError


def store_scales(parts: Any, source: Any, block: int, line: Array, i: int) -> None:
    """Of blocks of 32 numbers: their scales, and offsets."""
    raise NotImplementedError


def _codes_by_units(parts: Any, row: int, block: int, line: Array, i: int) -> None:
    for half in range(2):
        some = k_codes.four(parts, row, block, half)
        store_two_units(line, i + 128 * half, UNIT, some[0])
        store_two_units(line, i + 128 * half + 64, UNIT, some[1])


def _codes_by_turns(parts: Any, row: int, block: int, line: Array, i: int) -> None:
    for half in range(2):
        some = k_codes.four(parts, row, block, half)
        store_two_units(line, i + 128 * half, 2 * UNIT, some[0])
        store_two_units(line, i + 128 * half + UNIT, 2 * UNIT, some[1])


def _whole_factors(parts: Any, head: Any, line: Array, i: int) -> int:
    store_turned_factors(line, i, k_codes.factors(parts, head))
    return REGISTER


def _half_factors(parts: Any, head: Any, line: Array, i: int) -> int:
    store_half_factors(line, i, k_codes.factors(parts, head))
    return 2 * REGISTER


def _offsets_q2_k(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> int:
    less, blocks = shifted(head, 4), parts.blocks[row]
    scale = times(spread_half(blocks, 84 * block + 82), splat(np.float32(-1)))
    store(line, i, times(first(less), scale))
    store(line, i + REGISTER, times(last(less), scale))
    return 2 * REGISTER


def _no_offsets(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> int:  # noqa: ARG001  # numba looks at names
    return 0


def _offsets_q4_k(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> int:
    scale = times(spread_half(parts.blocks[row], 144 * block + 2), splat(np.float32(-1)))
    store(line, i, times(last(head), scale))
    return REGISTER


def _offsets_q5_k(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> int:
    scale, factor = spread_half(parts.blocks[row], 176 * block + 2), k_codes.factor(parts, row, block)
    more = times(first(head), times(factor, splat(np.float32(16))))  # as codes are less 16
    store(line, i, fused(last(head), times(scale, splat(np.float32(-1))), more))
    return REGISTER


def _scales_alone(parts: Any, source: Any, block: int, line: Array, i: int) -> None:
    store(line, i, unit_codes.scales(parts, source, block))


def _scales_q4_1(parts: Any, source: Any, block: int, line: Array, i: int) -> None:
    store(line, i, unit_codes.scales(parts, source, block))
    store(line, i + 32, unit_codes.offsets_q4_1(source[0], 160 * block))


def _scales_q5_1(parts: Any, source: Any, block: int, line: Array, i: int) -> None:
    scales = unit_codes.scales(parts, source, block)
    store(line, i, scales)
    store(line, i + 32, fused(scales, splat(np.float32(16)), unit_codes.offsets_q5_1(source[0], 192 * block)))


OFFSETS: dict[type, Callable[..., int]] = {
    layouts.Q2K: _offsets_q2_k,
    layouts.Q4K: _offsets_q4_k,
    layouts.Q5K: _offsets_q5_k,
}
"""What stands for `store_offsets` where there are some."""


SCALES: dict[type, Callable[..., None]] = {layouts.Q41: _scales_q4_1, layouts.Q51: _scales_q5_1}
"""What stands for `store_scales` where there are offsets."""


def _blocks_of_a_k_type(parts: Any) -> int:
    return parts[0].shape[1] // k_codes.bytes_of_a_block(parts)  # type: ignore[no-any-return]


def _blocks_of_units(parts: Any) -> int:
    return unit_codes.whole_blocks(parts)


def _no_rest(parts: Any, row: int, end: int, block: int, memory: Array) -> None:
    pass


def _rest_of_units(parts: Any, row: int, end: int, block: int, memory: Array) -> None:
    rests, size = unit_codes.room_for(parts, 1), line_bytes(parts)
    for each in range(ROWS):
        unit_codes.copy_rest(parts, min(row + each, end - 1), block, rests, 0)
        _write_units(parts, unit_codes.rest_of(rests, 0), 0, memory, each * size)


def is_k_type(parts: Any) -> bool:
    return parts.instance_class in k_codes.CODES


def _line_bytes_of(parts: Any) -> Callable[[Any], int]:
    size = SHAPES[parts.instance_class].nbytes // ROWS

    def constant(parts: Any) -> int:  # noqa: ARG001  # numba looks at names
        return size

    return constant


def _whole_blocks_of(parts: Any) -> Callable[[Any], int]:
    return _blocks_of_a_k_type if is_k_type(parts) else _blocks_of_units


def _writing_rest(parts: Any, row: int, end: int, block: int, memory: Array) -> Callable[..., None]:  # noqa: ARG001
    return _no_rest if is_k_type(parts) else _rest_of_units


def _writing(parts: Any, row: int, block: int, line: Array, i: int) -> Callable[..., None]:  # noqa: ARG001
    return _line_of_a_block if is_k_type(parts) else _line_of_units


def _codes_of(parts: Any, row: int, block: int, line: Array, i: int) -> Callable[..., None]:  # noqa: ARG001
    is_by_turns = k_codes.ORDERS[parts.instance_class] == BY_TURNS
    return _codes_by_turns if is_by_turns else _codes_by_units


def _factors_of(parts: Any, head: Any, line: Array, i: int) -> Callable[..., int]:  # noqa: ARG001
    return _half_factors if SHAPES[parts.instance_class].has_halves else _whole_factors


def _offsets_of(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> Callable[..., int]:  # noqa: ARG001
    return OFFSETS.get(parts.instance_class, _no_offsets)


def _scales_of(parts: Any, source: Any, block: int, line: Array, i: int) -> Callable[..., None]:  # noqa: ARG001
    return SCALES.get(parts.instance_class, _scales_alone)


overload(line_bytes)(_line_bytes_of)


overload(whole_blocks)(_whole_blocks_of)


overload(write_rest)(_writing_rest)


overload(write_line)(_writing)


overload(_store_codes)(_codes_of)


overload(_store_factors)(_factors_of)


overload(store_offsets)(_offsets_of)


overload(store_scales)(_scales_of)
