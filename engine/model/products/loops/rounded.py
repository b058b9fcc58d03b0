"""The loop for rows of x in 8 bits with matrices whose weights are whole numbers times scales, as most of GGUF's are.

As llama.cpp multiplies: of every 256 numbers of x each is rounded to 127 steps of the largest one, so that products
are those of bytes. A block of eight rows of the matrix is taken apart once for all rows of x, see `words`. What a row
of x is rounded to depends on it alone, and its sums are made in the same order whichever rows are beside it. So it has
the same bits alone, where each row of the matrix is multiplied as it is taken apart: whole sums are exact in any order.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array
from engine.model.products.loops.kernels import BLOCK, LINE, copy
from engine.model.products.loops.rounded_lines import (
    CODE_BYTES,
    SHAPES,
    TOGETHER,
    ask_for,
    is_k_type,
    line_bytes,
    store_offsets,
    store_scales,
    whole_blocks,
    write_line,
    write_rest,
)
from engine.model.products.units import k_codes, unit_codes
from engine.model.products.units.digits import has_byte_products
from engine.model.products.units.lines import (
    add_lines,
    store_first,
    store_sums_of_blocks,
    store_sums_of_units,
)
from engine.model.products.units.words import (
    BLOCK_BYTES,
    GROUPS,
    REGISTER,
    ROWS,
    Shape,
    add_block,
    no_sums,
    turn,
    with_unit,
)
from engine.model.products.units.written import BY_TURNS, write_rounded

UNITS = BLOCK // UNIT

Target = tuple[Array, int, Array, int, int, int]
"""x, where a block of it begins, and memory; where in that a line is, whole sums are, and a scale of all of a block."""


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
    """Write a row float32 [columns] in 8 bits, block by block, into bytes: see `written.write_rounded`."""
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
    size, (turned_from, turned_to), whole = line_bytes(parts), _turned(parts), whole_blocks(parts)
    memory = np.empty(2 * ROWS * size + ROWS * REGISTER + LINE, np.uint8)
    turned = ROWS * size + -(memory.ctypes.data + ROWS * size) % LINE
    found, sums = turned + ROWS * size, np.empty(ROWS, np.float32)
    for row in range(begin, end, ROWS):
        sums[:] = 0
        for block in range(len(x) // BLOCK_BYTES):
            i = BLOCK_BYTES * block
            if block < whole:
                for each in range(ROWS):
                    scale = turned + ROWS * turned_to + 4 * each
                    some = x, i, memory, size * each, found + REGISTER * each, scale
                    _store_line(parts, min(row + each, end - 1), block, some)
            else:
                _store_rest(parts, row, end, block, (x, i, memory, 0, found, 0))
            for at in range(turned_from, turned_to, REGISTER):
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
    rows, size = len(y), line_bytes(parts)
    step = len(x) // rows
    memory = np.empty(ROWS * size + TOGETHER * size + 2 * LINE, np.uint8)
    turned = ROWS * size + -(memory.ctypes.data + ROWS * size) % LINE
    sums, whole = np.empty(rows * TOGETHER, np.float32), whole_blocks(parts)
    for row in range(begin, end, TOGETHER):
        sums[:] = 0
        for block in range(step // BLOCK_BYTES):
            for group in range(GROUPS):
                first_row, place = row + ROWS * group, turned + ROWS * size * group
                if block < whole:
                    _write_lines(parts, first_row, end, block, memory)
                else:
                    write_rest(parts, first_row, end, block, memory)
                for at in range(0, size, REGISTER):
                    turn(memory, at, size, memory, place + ROWS * at)
            _multiply_block(parts, memory, turned, x, BLOCK_BYTES * block, step, sums, rows)
        for r in range(rows):
            copy_to(sums[TOGETHER * r :], y[r], row, min(TOGETHER, end - row))


@compiled
def _write_lines(parts: Any, row: int, end: int, block: int, memory: Array) -> None:
    """Take a block of eight rows of the matrix apart, one behind the other."""
    size = line_bytes(parts)
    for each in range(ROWS):
        write_line(parts, min(row + each, end - 1), block, memory, each * size)


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


def _turned(parts: Any) -> tuple[int, int]:
    """Where in a line is what is turned of eight, begin and end: offsets, or scales of units and these."""
    raise NotImplementedError


def _store_line(parts: Any, row: int, block: int, some: Target) -> None:
    """Multiply a row's block, ask for the memory of a later one, and write what sums are multiplied by."""
    raise NotImplementedError


def _store_rest(parts: Any, row: int, end: int, block: int, some: Target) -> None:
    """The same, with eight rows, of what is left of these behind their last full block."""
    raise NotImplementedError


def _store_sums(
    parts: Any, one: Any, two: Any, three: Any, four: Any, factors: Any, x: Array, i: int, sums: Array, at: int
) -> None:
    """Of K types: see `lines.store_sums_of_blocks`."""
    raise NotImplementedError


def _store_unit_sums(
    parts: Any, low: Any, high: Any, later_low: Any, later_high: Any, x: Array, i: int, sums: Array, at: int
) -> None:
    """Of blocks of 32 numbers: see `lines.store_sums_of_units`."""
    raise NotImplementedError


def _add_lines(
    parts: Any, memory: Array, place: int, x: Array, i: int, sums: Array, at: int, y: Array, to: int
) -> None:
    """See `lines.add_lines`."""
    raise NotImplementedError


def _tile(parts: Any, memory: Array, place: int, x: Array, i: int, step: int, sums: Array, at: int, rows: Any) -> None:
    """The products of a few rows of x, as many as a tuple has numbers."""
    raise NotImplementedError


def _sums_of_a_block(parts: Any, row: int, block: int, some: Target) -> None:
    """Of K types."""
    x, i, memory, line, found, scale = some
    ask_for(parts[0], row, block, k_codes.bytes_of_a_block(parts))
    head, begin, end = (
        k_codes.head(parts, row, block),
        k_codes.four(parts, row, block, 0),
        k_codes.four(parts, row, block, 1),
    )
    _store_sums(parts, begin[0], begin[1], end[0], end[1], k_codes.factors(parts, head), x, i, memory, found)
    store_offsets(parts, row, block, head, memory, line + _turned(parts)[0])
    store_first(memory, scale, k_codes.factor(parts, row, block))


def _sums_of_a_line(parts: Any, row: int, block: int, some: Target) -> None:
    """Of blocks of 32 numbers."""
    ask_for(parts[0], row, block, unit_codes.bytes_of_a_block(parts))
    _sums_of_units(parts, unit_codes.line_of(parts, row), block, some)


@compiled
def _sums_of_units(parts: Any, source: Any, block: int, some: Target) -> None:
    x, i, memory, line, found, _ = some
    begin, end = unit_codes.codes(parts, source, 2 * block), unit_codes.codes(parts, source, 2 * block + 1)
    _store_unit_sums(parts, begin[0], begin[1], end[0], end[1], x, i, memory, found)
    store_scales(parts, source, block, memory, line + CODE_BYTES)


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


def _sums_of(shape: Shape, order: int) -> Callable[..., None]:
    store_sums = store_sums_of_blocks(shape, order == BY_TURNS)

    def sums_of(
        parts: Any, one: Any, two: Any, three: Any, four: Any, factors: Any, x: Array, i: int, sums: Array, at: int  # noqa: ARG001
    ) -> None:  # fmt: skip
        store_sums(one, two, three, four, factors, x, i, sums, at)

    return sums_of


def _unit_sums_of(shape: Shape) -> Callable[..., None]:
    store_sums = store_sums_of_units(shape)

    def sums_of(
        parts: Any, low: Any, high: Any, later_low: Any, later_high: Any, x: Array, i: int, sums: Array, at: int  # noqa: ARG001
    ) -> None:  # fmt: skip
        store_sums(low, high, later_low, later_high, x, i, sums, at)

    return sums_of


def _lines_of(shape: Shape) -> Callable[..., None]:
    add = add_lines(shape)

    def lines(
        parts: Any, memory: Array, place: int, x: Array, i: int, sums: Array, at: int, y: Array, to: int  # noqa: ARG001
    ) -> None:  # fmt: skip
        add(memory, place, x, i, sums, at, y, to)

    return lines


_TILES, _LINES, _UNIT_SUMS = (
    {shape: make(shape) for shape in set(SHAPES.values())} for make in (_tile_of, _lines_of, _unit_sums_of)
)


_SUMS = {kind: _sums_of(SHAPES[kind], order) for kind, order in k_codes.ORDERS.items()}


def _sums_of_no_rest(parts: Any, row: int, end: int, block: int, some: Target) -> None:
    pass


def _sums_of_rests(parts: Any, row: int, end: int, block: int, some: Target) -> None:
    x, i, memory, line, found, scale = some
    rests, size = unit_codes.room_for(parts, ROWS), line_bytes(parts)
    for each in range(ROWS):
        unit_codes.copy_rest(parts, min(row + each, end - 1), block, rests, each)
    for each in range(ROWS):
        here = x, i, memory, line + size * each, found + REGISTER * each, scale
        _sums_of_units(parts, unit_codes.rest_of(rests, each), 0, here)


def _tile_for(
    parts: Any, memory: Array, place: int, x: Array, i: int, step: int, sums: Array, at: int, rows: Any  # noqa: ARG001
) -> Callable[..., None]:  # fmt: skip
    return _TILES[SHAPES[parts.instance_class]]


def _turned_of(parts: Any) -> Callable[..., tuple[int, int]]:
    shape = SHAPES[parts.instance_class]
    found = (shape.offsets_at // ROWS if shape.is_whole else CODE_BYTES, shape.scales_at // ROWS)

    def constant(parts: Any) -> tuple[int, int]:  # noqa: ARG001
        return found

    return constant


def _sums_for_lines(parts: Any, row: int, block: int, some: Target) -> Callable[..., None]:  # noqa: ARG001
    return _sums_of_a_block if is_k_type(parts) else _sums_of_a_line


def _sums_for_rests(parts: Any, row: int, end: int, block: int, some: Target) -> Callable[..., None]:  # noqa: ARG001
    return _sums_of_no_rest if is_k_type(parts) else _sums_of_rests


def _sums_for(
    parts: Any, one: Any, two: Any, three: Any, four: Any, factors: Any, x: Array, i: int, sums: Array, at: int  # noqa: ARG001
) -> Callable[..., None]:  # fmt: skip
    return _SUMS[parts.instance_class]


def _unit_sums_for(
    parts: Any, low: Any, high: Any, later_low: Any, later_high: Any, x: Array, i: int, sums: Array, at: int  # noqa: ARG001
) -> Callable[..., None]:  # fmt: skip
    return _UNIT_SUMS[SHAPES[parts.instance_class]]


def _lines_for(
    parts: Any, memory: Array, place: int, x: Array, i: int, sums: Array, at: int, y: Array, to: int  # noqa: ARG001
) -> Callable[..., None]:  # fmt: skip
    return _LINES[SHAPES[parts.instance_class]]


overload(_turned)(_turned_of)


overload(_store_line)(_sums_for_lines)


overload(_store_rest)(_sums_for_rests)


overload(_store_sums)(_sums_for)


overload(_store_unit_sums)(_unit_sums_for)


overload(_add_lines)(_lines_for)


overload(_tile)(_tile_for)
