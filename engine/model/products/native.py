"""Shares of products that compiled code hands out: threads take the next one without asking the interpreter.

A share is a line of numbers: where its loop is, where the matrix is told, what is multiplied and where to. Loops are
reached by their addresses, so that one batch may hold matrices of any layouts.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.model.products.bfloat_loops import TILE_COLUMNS, TILE_ROWS, bfloat_loop
from engine.model.products.compiling import callback, compiled
from engine.model.products.layouts import Array
from engine.model.products.loops import (
    attending,
    attending_pairs,
    kernels,
    output_kernels,
    pairs,
    steps,
    tiles,
    whole_numbers,
)
from engine.model.products.loops.kernels import LINE
from engine.model.products.pointers import floats, integers, octets, shorts, signed_octets
from engine.model.products.units.by_layout import APART
from engine.model.products.units.digits import DIGITS, FEWER_DIGITS

LOOP, MATRIX, X, Y, ROWS, COLUMNS, ALL, WIDTH, BEGIN, END = range(10)
SHARE = 10  # numbers of a share: rows of x, columns, rows of the matrix, numbers of a row of y, and which rows it does

# Numbers that threads share; each is written beside nothing else.
OPEN, NEXT, BUSY, TABLE, COUNT = 0, 16, 32, 48, 49
PATIENCE, CALLS = 50, 51  # looks that helpers take without finding a share; how often they were called so far
STATE = 64
DECODED = 4  # rows of x whose products take about as long as decoding a matrix does

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
def _look(_context: Any, address: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """An integer in memory, as other threads left it."""
    return types.int64(types.int64), lambda _c, builder, _s, values: builder.load_atomic(
        _at(builder, values[0]), "seq_cst", 8
    )


@_operation
def _write(_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """An integer to memory, behind all that was written before."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        builder.store_atomic(values[1], _at(builder, values[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_operation
def _add(_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """Add to an integer in memory; returns what it was."""
    return types.int64(types.int64, types.int64), lambda _c, builder, _s, values: builder.atomic_rmw(
        "add", _at(builder, values[0]), values[1], "seq_cst"
    )


@_operation
def _pause(_context: Any) -> Any:
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
def _call(_context: Any, address: Any, share: Any, matrix: Any) -> Any:  # noqa: ARG001  # numba looks at names
    """Call a loop for a share of a matrix, all by their addresses."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_I64, _I64.as_pointer()])
        builder.call(_at(builder, values[0], kind), [values[1], _at(builder, values[2])])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@_operation
def _value(_context: Any, place: Any) -> Any:
    """What was told in `told`, as a value of the type that `place` points to."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        content = context.get_value_type(place.dtype).as_pointer()
        return builder.load(builder.bitcast(values[0], content), align=8)

    return place.dtype(place), generate


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


_loops: dict[tuple[Any, ...], Any] = {}


def _one_row(share: Any, matrix: Any) -> None:
    parts, columns = _value(matrix), _look(share + 8 * COLUMNS)
    x = numba.carray(floats(_look(share + 8 * X)), (1, columns))
    y = numba.carray(floats(_look(share + 8 * Y)), (1, _look(share + 8 * ALL)))
    kernels.one_row(parts, x, y, _look(share + 8 * BEGIN), _look(share + 8 * END))


def _several_rows(share: Any, matrix: Any) -> None:
    parts, rows, columns = _value(matrix), _look(share + 8 * ROWS), _look(share + 8 * COLUMNS)
    packed = numba.carray(floats(_look(share + 8 * X)), rows * columns)
    y = numba.carray(floats(_look(share + 8 * Y)), (rows, _look(share + 8 * WIDTH)))
    kernels.several_rows(parts, packed, y, _look(share + 8 * BEGIN), _look(share + 8 * END))


def _one_row_apart(share: Any, matrix: Any) -> None:
    parts, columns = _value(matrix), _look(share + 8 * COLUMNS)
    x = numba.carray(floats(_look(share + 8 * X)), (1, columns))
    y = numba.carray(floats(_look(share + 8 * Y)), (1, _look(share + 8 * ALL)))
    output_kernels.one_row(parts, x, y, _look(share + 8 * BEGIN), _look(share + 8 * END))


def _several_rows_apart(share: Any, matrix: Any) -> None:
    parts, rows, columns = _value(matrix), _look(share + 8 * ROWS), _look(share + 8 * COLUMNS)
    x = numba.carray(floats(_look(share + 8 * X)), (rows, columns))
    y = numba.carray(floats(_look(share + 8 * Y)), (rows, _look(share + 8 * WIDTH)))
    output_kernels.several_rows(parts, x, y, _look(share + 8 * BEGIN), _look(share + 8 * END))


def _tiled_rows(share: Any, matrix: Any) -> None:
    parts, rows, steps = _value(matrix), _look(share + 8 * ROWS), _look(share + 8 * COLUMNS) // TILE_COLUMNS
    x = numba.carray(shorts(_look(share + 8 * X)), (-(-rows // TILE_ROWS), steps, 2 * tiles.TILE))
    y = numba.carray(floats(_look(share + 8 * Y)), (rows, _look(share + 8 * WIDTH)))
    tiles.tile_rows(parts, x, y, _look(share + 8 * BEGIN), _look(share + 8 * END), tiles.SHAPES)


def _paired_rows(share: Any, matrix: Any) -> None:
    parts, rows, columns = _value(matrix), _look(share + 8 * ROWS), _look(share + 8 * COLUMNS)
    x = numba.carray(shorts(_look(share + 8 * X)), rows * columns)
    y = numba.carray(floats(_look(share + 8 * Y)), (rows, _look(share + 8 * WIDTH)))
    pairs.paired_rows(parts, x, y, _look(share + 8 * BEGIN), _look(share + 8 * END))


def _one_whole_row(share: Any, matrix: Any) -> None:
    x = _written(_look(share + 8 * X), _look(share + 8 * COLUMNS))
    y = numba.carray(floats(_look(share + 8 * Y)), _look(share + 8 * ALL))
    whole_numbers.multiply(_value(matrix), x, y, _look(share + 8 * BEGIN), _look(share + 8 * END))


def _one_short_row(share: Any, matrix: Any) -> None:
    x = _written_short(_look(share + 8 * X), _look(share + 8 * COLUMNS))
    y = numba.carray(floats(_look(share + 8 * Y)), _look(share + 8 * ALL))
    whole_numbers.multiply(_value(matrix), x, y, _look(share + 8 * BEGIN), _look(share + 8 * END))


@compiled
def _written(place: Any, columns: Any) -> Any:
    """A row in whole numbers that lies at an address: see `whole_numbers.write_row`."""
    blocks = -(-columns // kernels.BLOCK)
    digits, numbers = DIGITS * kernels.BLOCK * blocks, place + DIGITS * kernels.BLOCK * blocks
    count = whole_numbers.SUMS_OF_A_UNIT * kernels.UNITS * blocks
    steps, sums = numba.carray(floats(numbers), blocks), numba.carray(floats(numbers + 4 * blocks), count)
    return numba.carray(octets(place), digits), steps, sums


@compiled
def _written_short(place: Any, columns: Any) -> Any:
    """The same in fewer digits."""
    _, steps, sums = _written(place, columns)
    return numba.carray(signed_octets(place), FEWER_DIGITS * kernels.BLOCK * len(steps)), steps, sums


@compiled
def _write_whole(x: Any, columns: Any, place: Any, is_short: Any, order: Any) -> None:
    line = numba.carray(floats(x), columns)
    if is_short:
        digits, steps, sums = _written_short(place, columns)
        whole_numbers.write_row(line, digits, steps, sums, order)
    else:
        more_digits, steps, sums = _written(place, columns)
        whole_numbers.write_row(line, more_digits, steps, sums, order)


def in_whole_numbers(x: int, columns: int, order: int, is_short: bool) -> Array:
    """A row of x, float32 at an address, as the loop for whole numbers reads it: bytes that begin at a line."""
    room = np.empty(whole_numbers.bytes_of_a_row(columns) + LINE, np.uint8)
    found = room[-room.ctypes.data % LINE :]
    _write_whole(x, columns, found.ctypes.data, is_short, order)
    return found


def _attended(share: Any, _matrix: Any) -> None:
    attending.attend(_look(share + 8 * MATRIX), _look(share + 8 * BEGIN), _look(share + 8 * END))


def _attended_in_pairs(share: Any, _matrix: Any) -> None:
    attending_pairs.attend(_look(share + 8 * MATRIX), _look(share + 8 * BEGIN), _look(share + 8 * END))


def _gated(share: Any, _matrix: Any) -> None:
    begin = _look(share + 8 * BEGIN)
    steps.gate(_look(share + 8 * X) + 4 * begin, _look(share + 8 * Y) + 4 * begin, _look(share + 8 * END) - begin)


def _packed(share: Any, _matrix: Any) -> None:
    rows, columns = _look(share + 8 * ROWS), _look(share + 8 * COLUMNS)
    x = numba.carray(floats(_look(share + 8 * X)), (rows, columns))
    packed = numba.carray(floats(_look(share + 8 * Y)), rows * columns)
    kernels.pack(x, packed, _look(share + 8 * BEGIN), _look(share + 8 * END))


def _packed_pairs(share: Any, _matrix: Any) -> None:
    rows, columns = _look(share + 8 * ROWS), _look(share + 8 * COLUMNS)
    x = numba.carray(floats(_look(share + 8 * X)), (rows, columns))
    packed = numba.carray(shorts(_look(share + 8 * Y)), rows * columns)
    pairs.pack_wide(x, packed, _look(share + 8 * BEGIN), _look(share + 8 * END))


@lru_cache
def loop_for(work: str) -> int:
    """The address of a loop that multiplies no matrix, by the name of its work.

    "attention" and "attention in pairs": of heads, or parts of them, told at `MATRIX`; "gate": of numbers at X and Y;
    "pack" and "pairs": blocks of the columns of x at X into Y, see `kernels.pack` and `pairs.pack_wide`.
    """
    loops = {"attention": _attended, "attention in pairs": _attended_in_pairs, "gate": _gated}
    loop = (loops | {"pack": _packed, "pairs": _packed_pairs})[work]
    made = _loops[work,] = callback(types.void(types.int64, types.CPointer(types.int64)), loop)
    return int(made.address)


def _compiled_loop(kind: Any, loop: Callable[..., None]) -> Any:
    """The layout is the type of an argument: of a closure, kept code would never be found again."""
    return callback(types.void(types.int64, types.CPointer(kind)), loop)


def loop_of(parts: Any, kind: str) -> int:
    """The address of the loop for matrices of such a layout, and x of a `kind`: "alone", "several", or as follows.

    A row that is alone is read as `in_whole_numbers` writes it where `whole_numbers.order_of` says how, a "short" one
    in fewer digits, rows of bfloat16 as `bfloat_loop` arranges them, and several rows as `kernels.pack` does where
    `reads_packed`.
    """
    fields = ((each.dtype, each.ndim, each.flags.writeable) if isinstance(each, np.ndarray) else 0 for each in parts)
    is_whole = whole_numbers.order_of(parts) is not None
    key = type(parts), kind, is_whole, *fields
    if key not in _loops:  # numba takes a hundred microseconds to name a type, and experts are many
        alone, several = (_one_row_apart, _several_rows_apart) if type(parts) in APART else (_one_row, _several_rows)
        if is_whole:
            alone = _one_whole_row
        of_bfloats = bfloat_loop()
        may_be = kind in {"alone", "short", "several"} or (of_bfloats is not None and of_bfloats.kind == kind)
        assert may_be, "a process would end that uses what the processor has not, or the system was not asked for"
        loop = {
            "alone": alone,
            "short": _one_short_row,
            "several": several,
            "tiled": _tiled_rows,
            "paired": _paired_rows,
        }[kind]
        _loops[key] = _compiled_loop(numba.typeof(parts), loop)
    return int(_loops[key].address)


def reads_packed(parts: Any) -> bool:
    """Whether loops for matrices of such a layout read several rows of x as `kernels.pack` writes them."""
    return type(parts) not in APART


def packings(jobs: Sequence[tuple[int, int, int, int]], most: int, work: str = "pack") -> Array:
    """Lines of shares that pack rows, each of about `most` numbers, for a `work` of `loop_for`.

    `jobs`: the addresses where rows lie and where they are written to, how many they are, and their columns.
    """
    loop, lines, size = loop_for(work), list[tuple[int, ...]](), pairs.BLOCK if work == "pairs" else kernels.BLOCK
    for x, packed, rows, columns in jobs:
        blocks, step = -(-columns // size), max(1, most // (rows * size))
        for begin in range(0, blocks, step):
            lines.append((loop, 0, x, packed, rows, columns, 0, 0, begin, min(begin + step, blocks)))
    return np.array(lines, np.int64)


def shares(products: Array, whole: int, count: int, together: int) -> Array:
    """Lines of shares for all rows of the matrices of `products`, int64 [products, `BEGIN`], about `count` of them.

    `whole`: how many products of numbers these are. Each share is for a multiple of so many rows of a matrix as lie
    `together`, but for the last one of each matrix.
    """
    table = np.empty((count + len(products), SHARE), np.int64)
    return table[: _lay_out(products, whole, count, together, table)]


@compiled
def _lay_out(products: Array, whole: int, count: int, together: int, table: Array) -> int:
    line = 0
    for each in range(len(products)):
        rows = min(products[each, ROWS], DECODED)
        step = -(-whole // (count * products[each, COLUMNS] * rows * together)) * together
        for begin in range(0, products[each, ALL], step):
            for field in range(BEGIN):
                table[line, field] = products[each, field]
            table[line, BEGIN], table[line, END] = begin, min(begin + step, products[each, ALL])
            line += 1
    return line


@compiled
def _take(state: Any, table: Any, count: Any) -> None:
    """Do shares until none is left."""
    while True:
        share = _add(state + 8 * NEXT, 1)
        if share >= count:
            return
        place = table + 8 * SHARE * share
        _call(_look(place + 8 * LOOP), place, _look(place + 8 * MATRIX))


@compiled
def do_all(table: int, count: int) -> None:
    """Do all shares in this thread."""
    for share in range(count):
        place = table + 8 * SHARE * share
        _call(_look(place + 8 * LOOP), place, _look(place + 8 * MATRIX))


@compiled
def lead(state: int, table: int, count: int, patience: int) -> bool:
    """Do shares together with whoever helps; False if some still work after so many looks, see `is_over`.

    Helpers that come after the end find nothing open. `table` stays as it is until nobody is busy.
    """
    _write(state + 8 * TABLE, table)
    _write(state + 8 * COUNT, count)
    _write(state + 8 * NEXT, 0)
    _write(state + 8 * OPEN, 1)
    _take(state, table, count)
    _write(state + 8 * OPEN, 0)
    while _look(state + 8 * BUSY) and patience > 0:
        _pause()
        patience -= 1
    return bool(_look(state + 8 * BUSY) == 0)


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
        elif line[0] == steps.DIGITS:
            _write_whole(line[1], line[2], line[3], line[4] != 0, line[5])
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
    return bool(_look(state + 8 * BUSY) == 0)


@compiled
def help_out(state: int, awake: int) -> None:
    """Do shares as long as there are any; returns when there were none for `PATIENCE` looks.

    `awake`: where a 1 stands meanwhile. Who calls after that is 0 has to wake this thread; of an earlier call this
    takes note by itself.
    """
    _write(awake, 1)
    while True:
        calls, looked = _look(state + 8 * CALLS), 0
        while looked < _look(state + 8 * PATIENCE):
            if _look(state + 8 * OPEN) and _look(state + 8 * NEXT) < _look(state + 8 * COUNT):
                _add(state + 8 * BUSY, 1)
                if _look(state + 8 * OPEN):  # or the leader may have gone on, and written other shares
                    _take(state, _look(state + 8 * TABLE), _look(state + 8 * COUNT))
                _add(state + 8 * BUSY, -1)
                looked = 0
            _pause()
            looked += 1
        _write(awake, 0)
        if _look(state + 8 * CALLS) == calls:
            return
        _write(awake, 1)


@compiled
def wait(looks: int) -> None:
    """Look so many times: how long that takes differs among processors by a factor of ten."""
    for _ in range(looks):
        _pause()


@compiled
def mix(outputs: Array, order: Array, weights: Array, found: Array) -> None:
    """Weighted sums of outputs, see `grouped.mixed`."""
    rows, chosen = weights.shape
    place = np.empty(rows * chosen, np.int64)
    for pair in range(len(order)):
        place[order[pair]] = pair
    for row in range(rows):
        line = found[row]
        line[:] = 0
        for k in range(chosen):
            some, weight = outputs[place[row * chosen + k]], weights[row, k]
            for i in range(len(line)):
                line[i] += some[i] * weight


@compiled
def gate_halves(inner: Array) -> None:
    """Write silu(first half) * second half of each row, float32 [rows, 2 x width], into the first; see `steps.GATE`."""
    rows, both = inner.shape
    for row in range(rows):
        place = inner.ctypes.data + 4 * row * both
        steps.gate(place, place + 2 * both, both // 2)


@compiled
def gate_woven(inner: Array, alpha: Any, limit: Any, found: Array) -> None:
    """Write into `found` [rows, width] what `steps.CLAMPED` makes of rows float32 [rows, 2 x width], biases added."""
    rows, both = inner.shape
    for row in range(rows):
        place, there = inner.ctypes.data + 4 * row * both, found.ctypes.data + 2 * row * both
        steps.clamped_gate(place, place + 4, 2, 0, there, both // 2, alpha, limit)
