"""The loop for rows of x in 8 bits with matrices whose weights are whole numbers times scales, as most of GGUF's are.

As llama.cpp multiplies: of every 256 numbers of x each is rounded to 127 steps of the largest one, so that products
are those of bytes. A block of eight rows of the matrix is taken apart once for all rows of x, see `words`. What a row
of x is rounded to depends on it alone, and its sums are made in the same order whichever rows are beside it. So it has
the same bits alone, where each row of the matrix is multiplied as it is taken apart.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array
from engine.model.products.loops.kernels import BLOCK, LINE, copy
from engine.model.products.units import by_layout, k_codes, unit_codes
from engine.model.products.units.digits import has_byte_products
from engine.model.products.units.lines import add_lines, store_sums
from engine.model.products.units.words import (
    BLOCK_BYTES,
    CODES,
    GROUPS,
    REGISTER,
    ROWS,
    Shape,
    add_block,
    no_sums,
    store_four_units,
    store_half_factors,
    store_turned_factors,
    store_two_units,
    turn,
    with_unit,
    write_rounded,
)
from engine.model.products.units.written import BY_TURNS
from engine.model.products.vectors import fetch, first, fused, last, shifted, splat, spread_half, store, times

TOGETHER = ROWS * GROUPS  # rows of the matrix that are taken apart for all rows of x
UNITS = BLOCK // UNIT
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


def is_able() -> bool:
    """Whether this processor has what these loops are made of."""
    return has_byte_products()


def takes(parts: Any) -> bool:
    """Whether it multiplies rows in 8 bits with matrices of such a layout."""
    return type(parts) in SHAPES and is_able()


@compiled
def bytes_of_a_row(columns: int) -> int:
    """How much a row of x takes, see `round_row`."""
    return -(-columns // BLOCK) * BLOCK_BYTES


@compiled
def round_row(line: Array, x: Array) -> None:
    """Write a row float32 [columns] in 8 bits, block by block, into bytes: see `words.write_rounded`."""
    for block in range(len(x) // BLOCK_BYTES):
        begin = BLOCK * block
        if begin + BLOCK <= len(line):
            write_rounded(line, begin, x, BLOCK_BYTES * block)
        else:
            some = np.zeros(BLOCK, np.float32)
            copy(line, begin, some, len(line) - begin)
            write_rounded(some, 0, x, BLOCK_BYTES * block)


@compiled
def multiply(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    """Rows of x in 8 bits times rows [begin, end) of the matrix, into y float32 [rows of x, all rows and more].

    x: bytes, the rows one behind the other.
    """
    if len(y) == 1:
        _multiply_one(parts, x, y[0], begin, end)
    else:
        _multiply_several(parts, x, y, begin, end)


@compiled
def _multiply_one(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    """The same of one row, into y [all rows and more]."""
    size, whole = _line_bytes(parts), _whole_blocks(parts)
    memory = np.empty(2 * ROWS * size + ROWS * REGISTER + LINE, np.uint8)
    turned = ROWS * size + -(memory.ctypes.data + ROWS * size) % LINE
    found, sums = turned + ROWS * size, np.empty(ROWS, np.float32)
    for row in range(begin, end, ROWS):
        sums[:] = 0
        for block in range(len(x) // BLOCK_BYTES):
            i = BLOCK_BYTES * block
            if block < whole:
                _write_lines(parts, row, end, block, memory)
            else:
                _write_rest(parts, row, end, block, memory)
            for each in range(ROWS):
                _store_sums(parts, memory, each * size, x, i, memory, found + REGISTER * each)
            for at in range(CODE_BYTES, size, REGISTER):
                turn(memory, at, size, memory, turned + ROWS * at)
            _add_lines(parts, memory, turned, x, i, memory, found, sums, 0)
        copy_to(sums, y, row, min(ROWS, end - row))


@compiled
def copy_to(sums: Array, y: Array, row: int, count: int) -> None:
    """So many sums to y, from a row on."""
    for each in range(count):
        y[row + each] = sums[each]


@compiled
def _multiply_several(parts: Any, x: Array, y: Array, begin: int, end: int) -> None:
    rows, size = len(y), _line_bytes(parts)
    step = len(x) // rows
    memory = np.empty(ROWS * size + TOGETHER * size + 2 * LINE, np.uint8)
    turned = ROWS * size + -(memory.ctypes.data + ROWS * size) % LINE
    sums, whole = np.empty(rows * TOGETHER, np.float32), _whole_blocks(parts)
    for row in range(begin, end, TOGETHER):
        sums[:] = 0
        for block in range(step // BLOCK_BYTES):
            for group in range(GROUPS):
                first_row, place = row + ROWS * group, turned + ROWS * size * group
                if block < whole:
                    _write_lines(parts, first_row, end, block, memory)
                else:
                    _write_rest(parts, first_row, end, block, memory)
                for at in range(0, size, REGISTER):
                    turn(memory, at, size, memory, place + ROWS * at)
            _multiply_block(parts, memory, turned, x, BLOCK_BYTES * block, step, sums, rows)
        for r in range(rows):
            copy_to(sums[TOGETHER * r :], y[r], row, min(TOGETHER, end - row))


@compiled
def _write_lines(parts: Any, row: int, end: int, block: int, memory: Array) -> None:
    """Take a block of eight rows of the matrix apart, one behind the other."""
    size, distance = _line_bytes(parts), TOGETHER * by_layout.bytes_of_a_row(parts)
    for each in range(ROWS):
        _write_line(parts, min(row + each, end - 1), block, distance, memory, each * size)


@compiled
def _multiply_block(parts: Any, memory: Array, place: int, x: Array, i: int, step: int, sums: Array, rows: int) -> None:
    """Add the products of a block of the matrix to the sums of all rows of x."""
    r = 0
    while r + 4 <= rows:
        _tile(parts, memory, place, x, i + step * r, step, sums, TOGETHER * r, (0, 0, 0, 0))
        r += 4
    if r + 2 <= rows:
        _tile(parts, memory, place, x, i + step * r, step, sums, TOGETHER * r, (0, 0))
        r += 2
    if r < rows:
        _tile(parts, memory, place, x, i + step * r, step, sums, TOGETHER * r, (0,))


def _line_bytes(parts: Any) -> int:
    """How many bytes a row's block takes, taken apart: codes, factors, offsets and scales."""
    raise NotImplementedError


def _whole_blocks(parts: Any) -> int:
    """How many full ones a row has."""
    raise NotImplementedError


def _write_rest(parts: Any, row: int, end: int, block: int, memory: Array) -> None:
    """The same as `_write_lines` of what is left of rows behind their last full block."""
    raise NotImplementedError


def _store_sums(parts: Any, line: Array, place: int, x: Array, i: int, sums: Array, at: int) -> None:
    """See `lines.store_sums`."""
    raise NotImplementedError


def _add_lines(
    parts: Any, memory: Array, place: int, x: Array, i: int, sums: Array, at: int, y: Array, to: int
) -> None:
    """See `lines.add_lines`."""
    raise NotImplementedError


def _write_line(parts: Any, row: int, block: int, distance: int, line: Array, i: int) -> None:
    """Write a row's block taken apart, and ask for the memory of the one that is so many bytes later."""
    raise NotImplementedError


def _tile(parts: Any, memory: Array, place: int, x: Array, i: int, step: int, sums: Array, at: int, rows: Any) -> None:
    """The products of a few rows of x, as many as a tuple has numbers."""
    raise NotImplementedError


@compiled
def _ask_for(codes: Array, place: int, size: int) -> None:
    for at in range(place, place + size, LINE):
        fetch(codes, at)


def _line_of_a_block(parts: Any, row: int, block: int, distance: int, line: Array, i: int) -> None:
    """Of K types."""
    size = k_codes.bytes_of_a_block(parts)
    _ask_for(parts[0], row * parts[0].shape[1] + size * block + distance, size)
    _store_codes(parts, row, block, line, i)
    head = k_codes.head(parts, row, block)
    _store_others(parts, row, block, head, line, i + CODE_BYTES)


def _line_of_units(parts: Any, row: int, block: int, distance: int, line: Array, i: int) -> None:
    """Of blocks of 32 numbers."""
    size = unit_codes.bytes_of_a_block(parts)
    _ask_for(parts[0], row * parts[0].shape[1] + size * block + distance, size)
    _write_units(parts, unit_codes.line_of(parts, row), block, line, i)


@compiled
def _write_units(parts: Any, source: Any, block: int, line: Array, i: int) -> None:
    for four in range(2):
        low, high = unit_codes.codes(parts, source, 2 * block + four)
        store_four_units(line, i + CODE_BYTES // 2 * four, low, high)
    _store_scales(parts, source, block, line, i + CODE_BYTES)


def _store_codes(parts: Any, row: int, block: int, line: Array, i: int) -> None:
    """Of K types: the codes of 256 numbers in their order."""
    raise NotImplementedError


def _store_others(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> None:
    """Of K types: factors, offsets, and what all of a block is multiplied by."""
    raise NotImplementedError


def _store_scales(parts: Any, source: Any, block: int, line: Array, i: int) -> None:
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


def _others_q2_k(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> None:
    store_half_factors(line, i, k_codes.factors(parts, head))
    less, blocks = shifted(head, 4), parts.blocks[row]
    scale = times(spread_half(blocks, 84 * block + 82), splat(np.float32(-1)))
    store(line, i + 64, times(first(less), scale))
    store(line, i + 96, times(last(less), scale))
    store(line, i + 128, k_codes.factor(parts, row, block))


def _others_of_halves(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> None:
    store_half_factors(line, i, k_codes.factors(parts, head))
    store(line, i + 64, k_codes.factor(parts, row, block))


def _others_q4_k(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> None:
    store_turned_factors(line, i, k_codes.factors(parts, head))
    scale = times(spread_half(parts.blocks[row], 144 * block + 2), splat(np.float32(-1)))
    store(line, i + 32, times(last(head), scale))
    store(line, i + 64, k_codes.factor(parts, row, block))


def _others_q5_k(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> None:
    store_turned_factors(line, i, k_codes.factors(parts, head))
    scale, factor = spread_half(parts.blocks[row], 176 * block + 2), k_codes.factor(parts, row, block)
    more = times(first(head), times(factor, splat(np.float32(16))))  # as codes are less 16
    store(line, i + 32, fused(last(head), times(scale, splat(np.float32(-1))), more))
    store(line, i + 64, factor)


def _scales_alone(parts: Any, source: Any, block: int, line: Array, i: int) -> None:
    store(line, i, unit_codes.scales(parts, source, block))


def _scales_q4_1(parts: Any, source: Any, block: int, line: Array, i: int) -> None:
    store(line, i, unit_codes.scales(parts, source, block))
    store(line, i + 32, unit_codes.offsets_q4_1(source[0], 160 * block))


def _scales_q5_1(parts: Any, source: Any, block: int, line: Array, i: int) -> None:
    scales = unit_codes.scales(parts, source, block)
    store(line, i, scales)
    store(line, i + 32, fused(scales, splat(np.float32(16)), unit_codes.offsets_q5_1(source[0], 192 * block)))


OTHERS: dict[type, Callable[..., None]] = {
    layouts.Q2K: _others_q2_k,
    layouts.Q3K: _others_of_halves,
    layouts.Q4K: _others_q4_k,
    layouts.Q5K: _others_q5_k,
    layouts.Q6K: _others_of_halves,
}
"""What stands for `_store_others`."""

SCALES: dict[type, Callable[..., None]] = {layouts.Q41: _scales_q4_1, layouts.Q51: _scales_q5_1}
"""What stands for `_store_scales` where there are offsets."""


def _tile_of(shape: Shape) -> Callable[..., None]:
    none, add_unit, finish = no_sums(shape), with_unit(shape), add_block(shape)

    def tile(
        parts: Any, memory: Array, place: int, x: Array, i: int, step: int, sums: Array, at: int, rows: Any  # noqa: ARG001  # numba looks at names
    ) -> None:  # fmt: skip
        found = none(rows)
        for unit in range(UNITS):
            found = add_unit(memory, place, x, i, step, unit, found)
        finish(memory, place, x, i, step, sums, at, found)

    return tile


def _sums_of(shape: Shape) -> Callable[..., None]:
    store_one = store_sums(shape)

    def sums_of(parts: Any, line: Array, place: int, x: Array, i: int, sums: Array, at: int) -> None:  # noqa: ARG001
        store_one(line, place, x, i, sums, at)

    return sums_of


def _lines_of(shape: Shape) -> Callable[..., None]:
    add = add_lines(shape)

    def lines(
        parts: Any, memory: Array, place: int, x: Array, i: int, sums: Array, at: int, y: Array, to: int  # noqa: ARG001
    ) -> None:  # fmt: skip
        add(memory, place, x, i, sums, at, y, to)

    return lines


_TILES, _SUMS, _LINES = (
    {shape: make(shape) for shape in set(SHAPES.values())} for make in (_tile_of, _sums_of, _lines_of)
)


def _blocks_of_a_k_type(parts: Any) -> int:
    return parts[0].shape[1] // k_codes.bytes_of_a_block(parts)  # type: ignore[no-any-return]


def _blocks_of_units(parts: Any) -> int:
    return unit_codes.whole_blocks(parts)


def _no_rest(parts: Any, row: int, end: int, block: int, memory: Array) -> None:
    pass


def _rest_of_units(parts: Any, row: int, end: int, block: int, memory: Array) -> None:
    rests, size = unit_codes.room_for(parts, 1), _line_bytes(parts)
    for each in range(ROWS):
        unit_codes.copy_rest(parts, min(row + each, end - 1), block, rests, 0)
        _write_units(parts, unit_codes.rest_of(rests, 0), 0, memory, each * size)


def _is_k_type(parts: Any) -> bool:
    return parts.instance_class in k_codes.CODES


def _line_bytes_of(parts: Any) -> Callable[[Any], int]:
    size = SHAPES[parts.instance_class].nbytes // ROWS

    def constant(parts: Any) -> int:  # noqa: ARG001  # numba looks at names
        return size

    return constant


def _whole_blocks_of(parts: Any) -> Callable[[Any], int]:
    return _blocks_of_a_k_type if _is_k_type(parts) else _blocks_of_units


def _writing_rest(parts: Any, row: int, end: int, block: int, memory: Array) -> Callable[..., None]:  # noqa: ARG001
    return _no_rest if _is_k_type(parts) else _rest_of_units


def _writing(
    parts: Any, row: int, block: int, distance: int, line: Array, i: int  # noqa: ARG001
) -> Callable[..., None]:  # fmt: skip
    return _line_of_a_block if _is_k_type(parts) else _line_of_units


def _tile_for(
    parts: Any, memory: Array, place: int, x: Array, i: int, step: int, sums: Array, at: int, rows: Any  # noqa: ARG001
) -> Callable[..., None]:  # fmt: skip
    return _TILES[SHAPES[parts.instance_class]]


def _sums_for(
    parts: Any, line: Array, place: int, x: Array, i: int, sums: Array, at: int  # noqa: ARG001
) -> Callable[..., None]:  # fmt: skip
    return _SUMS[SHAPES[parts.instance_class]]


def _lines_for(
    parts: Any, memory: Array, place: int, x: Array, i: int, sums: Array, at: int, y: Array, to: int  # noqa: ARG001
) -> Callable[..., None]:  # fmt: skip
    return _LINES[SHAPES[parts.instance_class]]


def _codes_of(parts: Any, row: int, block: int, line: Array, i: int) -> Callable[..., None]:  # noqa: ARG001
    is_by_turns = k_codes.ORDERS[parts.instance_class] == BY_TURNS
    return _codes_by_turns if is_by_turns else _codes_by_units


def _others_of(parts: Any, row: int, block: int, head: Any, line: Array, i: int) -> Callable[..., None]:  # noqa: ARG001
    return OTHERS[parts.instance_class]


def _scales_of(parts: Any, source: Any, block: int, line: Array, i: int) -> Callable[..., None]:  # noqa: ARG001
    return SCALES.get(parts.instance_class, _scales_alone)


overload(_line_bytes)(_line_bytes_of)
overload(_whole_blocks)(_whole_blocks_of)
overload(_write_rest)(_writing_rest)
overload(_store_sums)(_sums_for)
overload(_add_lines)(_lines_for)
overload(_write_line)(_writing)
overload(_tile)(_tile_for)
overload(_store_codes)(_codes_of)
overload(_store_others)(_others_of)
overload(_store_scales)(_scales_of)
