"""Shares of products that compiled code hands out: threads take the next one without asking the interpreter.

A share is a line of numbers: where its loop is, where the matrix is told, what is multiplied and where to. Loops are
reached by their addresses, so that one batch may hold matrices of any layouts.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numba import types

from engine.model.products.addresses import add, call, floats, integers, look, octets, pause, shorts, value, write
from engine.model.products.bfloat_loops import TILE_COLUMNS, TILE_ROWS, bfloat_loop
from engine.model.products.compiling import callback, compiled
from engine.model.products.layouts import Array
from engine.model.products.loops import (
    between,
    kernels,
    output_kernels,
    pairs,
    rounded,
    shares,
    steps,
    tiles,
    whole_numbers,
    works,
)
from engine.model.products.loops.shares import (
    ALL,
    BEGIN,
    COLUMNS,
    END,
    LOOP,
    MATRIX,
    ROWS,
    WIDTH,
    X,
    Y,
)
from engine.model.products.units.by_layout import APART

# Numbers that threads share; each is written beside nothing else.
OPEN, NEXT, BUSY, TABLE, COUNT = 0, 16, 32, 48, 49
PATIENCE, CALLS = 50, 51  # looks that helpers take without finding a share; how often they were called so far
STATE = 64
ROUNDED_TOGETHER = 4  # rows of x


def told(parts: Any) -> Array:
    """A layout's fields as compiled code holds them: int64, arrays in seven or five numbers, others in one."""
    found: list[int] = []
    for field in parts:
        if isinstance(field, np.ndarray):
            place = field.__array_interface__["data"][0]
            found += [0, 0, field.size, field.itemsize, place, *field.shape, *field.strides]
        elif isinstance(field, np.float32):
            found.append(int(field.view(np.uint32)))
        else:
            found.append(int(field))
    return np.array(found, np.int64)


OF_ALL = frozenset({"alone", "short", "several", "whole", "shorts", "bytes"})
_loops: dict[tuple[Any, ...], Any] = {}


def _one_row(share: Any, matrix: Any) -> None:
    parts, columns = value(matrix), look(share + 8 * COLUMNS)
    x = numba.carray(floats(look(share + 8 * X)), (1, columns))
    y = numba.carray(floats(look(share + 8 * Y)), (1, look(share + 8 * ALL)))
    kernels.one_row(parts, x, y, look(share + 8 * BEGIN), look(share + 8 * END))


def _several_rows(share: Any, matrix: Any) -> None:
    parts, rows, columns = value(matrix), look(share + 8 * ROWS), look(share + 8 * COLUMNS)
    packed = numba.carray(floats(look(share + 8 * X)), rows * columns)
    y = numba.carray(floats(look(share + 8 * Y)), (rows, look(share + 8 * WIDTH)))
    kernels.several_rows(parts, packed, y, look(share + 8 * BEGIN), look(share + 8 * END))


def _one_row_apart(share: Any, matrix: Any) -> None:
    parts, columns = value(matrix), look(share + 8 * COLUMNS)
    x = numba.carray(floats(look(share + 8 * X)), (1, columns))
    y = numba.carray(floats(look(share + 8 * Y)), (1, look(share + 8 * ALL)))
    output_kernels.one_row(parts, x, y, look(share + 8 * BEGIN), look(share + 8 * END))


def _several_rows_apart(share: Any, matrix: Any) -> None:
    parts, rows, columns = value(matrix), look(share + 8 * ROWS), look(share + 8 * COLUMNS)
    x = numba.carray(floats(look(share + 8 * X)), (rows, columns))
    y = numba.carray(floats(look(share + 8 * Y)), (rows, look(share + 8 * WIDTH)))
    output_kernels.several_rows(parts, x, y, look(share + 8 * BEGIN), look(share + 8 * END))


def _tiled_rows(share: Any, matrix: Any) -> None:
    parts, rows, steps = value(matrix), look(share + 8 * ROWS), look(share + 8 * COLUMNS) // TILE_COLUMNS
    x = numba.carray(shorts(look(share + 8 * X)), (-(-rows // TILE_ROWS), steps, 2 * tiles.TILE))
    y = numba.carray(floats(look(share + 8 * Y)), (rows, look(share + 8 * WIDTH)))
    tiles.tile_rows(parts, x, y, look(share + 8 * BEGIN), look(share + 8 * END), tiles.SHAPES)


def _paired_rows(share: Any, matrix: Any) -> None:
    parts, rows, columns = value(matrix), look(share + 8 * ROWS), look(share + 8 * COLUMNS)
    x = numba.carray(shorts(look(share + 8 * X)), rows * columns)
    y = numba.carray(floats(look(share + 8 * Y)), (rows, look(share + 8 * WIDTH)))
    pairs.paired_rows(parts, x, y, look(share + 8 * BEGIN), look(share + 8 * END))


def _one_whole_row(share: Any, matrix: Any) -> None:
    x = _written(look(share + 8 * X), look(share + 8 * COLUMNS), (0,))
    y = numba.carray(floats(look(share + 8 * Y)), (1, look(share + 8 * ALL)))
    whole_numbers.multiply(value(matrix), x, y, look(share + 8 * BEGIN), look(share + 8 * END))


def _one_short_row(share: Any, matrix: Any) -> None:
    x = _written_short(look(share + 8 * X), look(share + 8 * COLUMNS), (0,))
    y = numba.carray(floats(look(share + 8 * Y)), (1, look(share + 8 * ALL)))
    whole_numbers.multiply(value(matrix), x, y, look(share + 8 * BEGIN), look(share + 8 * END))


def _byte_rows(share: Any, matrix: Any) -> None:
    rows = look(share + 8 * ROWS)
    size = rows * rounded.bytes_of_a_row(look(share + 8 * COLUMNS))
    x = numba.carray(octets(look(share + 8 * X)), size)
    y = numba.carray(floats(look(share + 8 * Y)), (rows, look(share + 8 * WIDTH)))
    rounded.multiply(value(matrix), x, y, look(share + 8 * BEGIN), look(share + 8 * END))


def _whole_rows(share: Any, matrix: Any) -> None:
    rows, parts = look(share + 8 * ROWS), value(matrix)
    if rows == 4:
        _multiply_some(share, parts, 0, (0, 0, 0, 0))
        return
    _multiply_some(share, parts, 0, (0, 0))
    if rows > 2:
        _multiply_some(share, parts, 2, (0,))


def _short_rows(share: Any, matrix: Any) -> None:
    rows, parts = look(share + 8 * ROWS), value(matrix)
    if rows == 4:
        _multiply_short(share, parts, 0, (0, 0, 0, 0))
        return
    _multiply_short(share, parts, 0, (0, 0))
    if rows > 2:
        _multiply_short(share, parts, 2, (0,))


@compiled
def _multiply_some(share: Any, parts: Any, row: Any, every: Any) -> None:
    """Some rows of a share, from one on, that lie together in whole numbers."""
    columns, width = look(share + 8 * COLUMNS), look(share + 8 * WIDTH)
    x = _written(look(share + 8 * X) + row * whole_numbers.bytes_of_a_row(columns), columns, every)
    y = numba.carray(floats(look(share + 8 * Y) + 4 * row * width), (len(every), width))
    whole_numbers.multiply(parts, x, y, look(share + 8 * BEGIN), look(share + 8 * END))


@compiled
def _multiply_short(share: Any, parts: Any, row: Any, every: Any) -> None:
    columns, width = look(share + 8 * COLUMNS), look(share + 8 * WIDTH)
    x = _written_short(look(share + 8 * X) + row * whole_numbers.bytes_of_a_row(columns), columns, every)
    y = numba.carray(floats(look(share + 8 * Y) + 4 * row * width), (len(every), width))
    whole_numbers.multiply(parts, x, y, look(share + 8 * BEGIN), look(share + 8 * END))


@compiled
def _written(place: Any, columns: Any, every: Any) -> Any:
    """Rows in whole numbers that lie at an address, as many as `every` has: see `whole_numbers.Rows`."""
    digits, steps, sums = works.spread(place, columns, len(every))
    return digits, steps, sums, every


@compiled
def _written_short(place: Any, columns: Any, every: Any) -> Any:
    """The same in fewer digits."""
    _, steps, sums = works.spread(place, columns, len(every))
    return works.fewer(place, steps), steps, sums, every


def digits(jobs: Sequence[tuple[int, int, int, int, int, bool]]) -> Array:
    """Lines of shares that write one to four rows of x in whole numbers, a line for each row.

    `jobs`: the addresses where rows lie and where they are written to, how many they are, their columns, the order, and
    whether in fewer digits. Where they are written begins at a line, and has room for as many times
    `whole_numbers.bytes_of_a_row`.
    """
    loop = works.loop_for("digits")
    lines = [
        (loop, 0, x, place, rows, columns, 0, 2 * order + is_short, row, row + 1)
        for x, place, rows, columns, order, is_short in jobs
        for row in range(rows)
    ]
    return np.array(lines, np.int64)


def rounding(jobs: Sequence[tuple[int, int, int, int]]) -> Array:
    """Lines of shares that round rows of x to 8 bits, a line for a few of them.

    `jobs`: the addresses where rows lie and where they are written to, how many they are, and their columns. Where they
    are written begins at a line, and has room for as many times `rounded.bytes_of_a_row`.
    """
    loop = works.loop_for("bytes")
    lines = [
        (loop, 0, x, place, rows, columns, 0, 0, row, min(row + ROUNDED_TOGETHER, rows))
        for x, place, rows, columns in jobs
        for row in range(0, rows, ROUNDED_TOGETHER)
    ]
    return np.array(lines, np.int64)


def _compiled_loop(kind: Any, loop: Callable[..., None]) -> Any:
    """The layout is the type of an argument: of a closure, kept code would never be found again."""
    return callback(types.void(types.int64, types.CPointer(kind)), loop)


def loop_of(parts: Any, kind: str) -> int:
    """The address of the loop for matrices of such a layout, and x of a `kind`: "alone", "several", or as follows.

    A row that is alone is read as `digits` writes it where `whole_numbers.order_of` says how, a "short" one in fewer
    digits, and so are two to four, "whole" or "shorts"; rows in 8 bits, "bytes", as `rounding` writes them;
    rows of bfloat16 as `bfloat_loop` arranges
    them, and several rows as `kernels.pack` does where `reads_packed`.
    """
    fields = ((each.dtype, each.ndim, each.flags.writeable) if isinstance(each, np.ndarray) else 0 for each in parts)
    is_whole = whole_numbers.order_of(parts) is not None
    key = type(parts), kind, is_whole, *fields
    if key not in _loops:  # numba takes a hundred microseconds to name a type, and experts are many
        alone, several = (_one_row_apart, _several_rows_apart) if type(parts) in APART else (_one_row, _several_rows)
        if is_whole:
            alone = _one_whole_row
        of_bfloats = bfloat_loop()
        may_be = kind in OF_ALL or (of_bfloats is not None and of_bfloats.kind == kind)
        assert may_be, "a process would end that uses what the processor has not, or the system was not asked for"
        loop = {
            "alone": alone,
            "short": _one_short_row,
            "several": several,
            "whole": _whole_rows,
            "shorts": _short_rows,
            "bytes": _byte_rows,
            "tiled": _tiled_rows,
            "paired": _paired_rows,
        }[kind]
        _loops[key] = _compiled_loop(numba.typeof(parts), loop)
    return int(_loops[key].address)


def reads_packed(parts: Any) -> bool:
    """Whether loops for matrices of such a layout read several rows of x as `kernels.pack` writes them."""
    return type(parts) not in APART


def packings(jobs: Sequence[tuple[int, int, int, int]], most: int, work: str = "pack") -> Array:
    """Lines of shares that pack rows, each of about `most` numbers, for a `work` of `works.loop_for`.

    `jobs`: the addresses where rows lie and where they are written to, how many they are, and their columns.
    """
    loop, lines, size = works.loop_for(work), list[tuple[int, ...]](), pairs.BLOCK if work == "pairs" else kernels.BLOCK
    for x, packed, rows, columns in jobs:
        blocks, step = -(-columns // size), max(1, most // (rows * size))
        for begin in range(0, blocks, step):
            lines.append((loop, 0, x, packed, rows, columns, 0, 0, begin, min(begin + step, blocks)))
    return np.array(lines, np.int64)


@compiled
def _take(state: Any, table: Any, count: Any) -> None:
    """Do shares until none is left."""
    while True:
        share = add(state + 8 * NEXT, 1)
        if share >= count:
            return
        place = table + 8 * shares.SHARE * share
        call(look(place + 8 * LOOP), place, look(place + 8 * MATRIX))


@compiled
def do_all(table: int, count: int) -> None:
    """Do all shares in this thread."""
    for share in range(count):
        place = table + 8 * shares.SHARE * share
        call(look(place + 8 * LOOP), place, look(place + 8 * MATRIX))


@compiled
def lead(state: int, table: int, count: int, patience: int) -> bool:
    """Do shares together with whoever helps; False if some still work after so many looks, see `is_over`.

    Helpers that come after the end find nothing open. `table` stays as it is until nobody is busy.
    """
    write(state + 8 * TABLE, table)
    write(state + 8 * COUNT, count)
    write(state + 8 * NEXT, 0)
    write(state + 8 * OPEN, 1)
    _take(state, table, count)
    write(state + 8 * OPEN, 0)
    while look(state + 8 * BUSY) and patience > 0:
        pause()
        patience -= 1
    return bool(look(state + 8 * BUSY) == 0)


@compiled
def go_on(state: int, place: int, step: int, count: int, patience: int, alone: bool) -> int:
    """Do the steps of a program that lies at an address, from one on: see `loops.steps`; returns 0 at the end.

    Else the number of the step behind shares of which some are still worked on. `alone`: nobody helps.
    """
    program = numba.carray(integers(place), (count, steps.STEP))
    while step < count:
        line = program[step]
        step += 1
        if line[0] == steps.SHARES:
            if alone:
                do_all(line[1], line[2])
            elif not lead(state, line[1], line[2], patience):
                return step
        elif line[steps.LOOP]:
            call(line[steps.LOOP], place + 8 * steps.STEP * (step - 1), place)
        else:
            steps.small_step(line)
    return 0


@compiled
def write_all(places: Array, values: Array) -> None:
    """Write numbers to addresses, both int64."""
    for i in range(len(values)):
        numba.carray(integers(places[i]), 1)[0] = values[i]


@compiled
def is_over(state: int) -> bool:
    """Whether nobody works on shares of a run that has ended."""
    return bool(look(state + 8 * BUSY) == 0)


@compiled
def help_out(state: int, awake: int) -> None:
    """Do shares as long as there are any; returns when there were none for `PATIENCE` looks.

    `awake`: where a 1 stands meanwhile. Who calls after that is 0 has to wake this thread; of an earlier call this
    takes note by itself.
    """
    write(awake, 1)
    while True:
        calls, looked = look(state + 8 * CALLS), 0
        while looked < look(state + 8 * PATIENCE):
            if look(state + 8 * OPEN) and look(state + 8 * NEXT) < look(state + 8 * COUNT):
                add(state + 8 * BUSY, 1)
                if look(state + 8 * OPEN):  # or the leader may have gone on, and written other shares
                    _take(state, look(state + 8 * TABLE), look(state + 8 * COUNT))
                add(state + 8 * BUSY, -1)
                looked = 0
            pause()
            looked += 1
        write(awake, 0)
        if look(state + 8 * CALLS) == calls:
            return
        write(awake, 1)


@compiled
def wait(looks: int) -> None:
    """Look so many times: how long that takes differs among processors by a factor of ten."""
    for _ in range(looks):
        pause()


@compiled
def mix(outputs: Array, order: Array, weights: Array, found: Array) -> None:
    """Weighted sums of outputs, see `grouped.mixed`."""
    rows, chosen = weights.shape
    place = np.empty(rows * chosen, np.int64)
    for pair in range(len(order)):
        place[order[pair]] = pair
    width = found.shape[1]
    found[:] = 0
    for row in range(rows):
        for k in range(chosen):
            some = outputs.ctypes.data + 4 * width * place[row * chosen + k]
            between.add_weighted(some, weights[row, k], found.ctypes.data + 4 * width * row, width)


@compiled
def gate_halves(inner: Array) -> None:
    """Write silu(first half) * second half of each row, float32 [rows, 2 x width], into the first; see `steps.GATE`."""
    rows, both = inner.shape
    for row in range(rows):
        place = inner.ctypes.data + 4 * row * both
        between.gate(place, place + 2 * both, place, both // 2)


@compiled
def gate_woven(inner: Array, alpha: Any, limit: Any, found: Array) -> None:
    """Write into `found` [rows, width] what `steps.CLAMPED` makes of rows float32 [rows, 2 x width], biases added."""
    rows, both = inner.shape
    for row in range(rows):
        place, there = inner.ctypes.data + 4 * row * both, found.ctypes.data + 2 * row * both
        between.clamped_gate(place, place + 4, 2, 0, there, both // 2, alpha, limit)
