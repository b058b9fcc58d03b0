"""Several rows that are routed to experts: their pairs of a row and an expert, put together by experts.

Which rows an expert is multiplied with is known only when the router has chosen. So the lines of all shares that follow
are written here: what packs an expert's rows, and what multiplies them, as `grouped.multiply` would have it done.
"""

from typing import Any

import numba
import numpy as np

from engine.model.products.addresses import floats, integers
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array
from engine.model.products.loops import between
from engine.model.products.loops.shares import (
    ALL,
    BEGIN,
    COLUMNS,
    END,
    LOOP,
    MATRIX,
    ROWS,
    SHARE,
    WIDTH,
    X,
    Y,
    cost,
    interleave,
    lay_out,
)

# What the grouping of a layer is told, and all that follows it: int64; addresses of int64 unless said otherwise.
CHOICE, PASS_ROWS, CHOSEN, EXPERTS = range(4)  # of [rows, chosen]; how many there are of each
SOURCES, OWNERS, PAIRS_OF = range(4, 7)  # of pairs: the row, and the expert; of places in the choice: the pair
UP, DOWN = 7, 8  # what is told of both stacks
# Of what lies between the stacks, see `gate`: float32, and bytes from a pair to the next; numbers.
GATES, OTHERS, DISTANCE, EACH, HALF, GATED = range(9, 15)
UP_BIASES, LIMIT, ALPHA, NARROW = range(15, 19)  # addresses of float32, 0 for none; both float32; whether to round
OUTPUTS, OUTPUT_WIDTH, DOWN_BIASES, WEIGHTS, MIXED = range(19, 24)  # float32; see `mix`
GROUPING = 24  # numbers

# What is told of a stack. Of pairs: x float32, and rows of it; 0 if these are the pairs.
STACK_X, STACK_SOURCES, STACK_COLUMNS, PIECES = range(4)
# [experts, pieces]; [rows + 1, KIND]; [pieces, rows + 1]; [pieces, 2]: where products are written to, and rows.
PLACES, KINDS, LOOPS, FOUND = range(4, 8)
PACKED = 8  # where rows are packed
PACKS, PACK_COUNT, LINES, TABLE, TABLE_COUNT = range(9, 14)  # tables, and where their counts are told
MOST, WORTH, THREADS = range(14, 17)  # shares; products of numbers that one is worth; that take shares
STACK = 17

# How rows of a group are packed, by their number:
PACKING, FIELD, BYTES, UNITS, STEP = range(5)  # loop, 0 for none; at `WIDTH`; of a row; what is packed, and how much
KIND = 5

LINE = 64  # bytes of a line of the cache, where packed rows begin


@compiled
def group_pairs(place: int) -> None:
    """Sort pairs by their experts, those of an expert by their rows, and write all lines of shares."""
    told = numba.carray(integers(place), GROUPING)
    chosen, experts, pairs = told[CHOSEN], told[EXPERTS], told[PASS_ROWS] * told[CHOSEN]
    choice = numba.carray(integers(told[CHOICE]), pairs)
    sources, owners = numba.carray(integers(told[SOURCES]), pairs), numba.carray(integers(told[OWNERS]), pairs)
    pairs_of = numba.carray(integers(told[PAIRS_OF]), pairs)
    begins = np.zeros(experts + 1, np.int64)
    for at in range(pairs):
        begins[choice[at] + 1] += 1
    for expert in range(experts):
        begins[expert + 1] += begins[expert]
    for at in range(pairs):
        pair = begins[choice[at]]
        begins[choice[at]] += 1
        sources[pair], owners[pair], pairs_of[at] = at // chosen, choice[at], pair
    _share_out(told[UP], owners, told[PASS_ROWS])
    _share_out(told[DOWN], owners, told[PASS_ROWS])


@compiled
def _share_out(place: int, owners: Array, most_rows: int) -> None:
    """Write the lines of a stack."""
    told, pairs = numba.carray(integers(place), STACK), len(owners)
    columns, pieces = told[STACK_COLUMNS], told[PIECES]
    kinds = numba.carray(integers(told[KINDS]), (most_rows + 1, KIND))
    found = numba.carray(integers(told[FOUND]), (pieces, 2))
    loops = numba.carray(integers(told[LOOPS]), (pieces, most_rows + 1))
    lines = numba.carray(integers(told[LINES]), (pairs * pieces, BEGIN))
    none: Any = np.int64(0)  # with a plain 0 numba would compile what is called once more
    begin = count = packs = whole = none
    free = told[PACKED]
    while begin < pairs:
        end = begin + 1
        while end < pairs and owners[end] == owners[begin]:
            end += 1
        rows = end - begin
        x = _first_row(told, begin)
        if kinds[rows, PACKING]:
            packs = _pack(told, kinds[rows], begin, rows, free, packs)
            x = free
            free += -(-rows * kinds[rows, BYTES] // LINE) * LINE
        matrices = numba.carray(integers(told[PLACES] + 8 * pieces * owners[begin]), pieces)
        for piece in range(pieces):
            line, width = lines[count], found[piece, 1]
            line[LOOP], line[MATRIX], line[X] = loops[piece, rows], matrices[piece], x
            line[Y] = found[piece, 0] + 4 * begin * width
            line[ROWS], line[COLUMNS], line[ALL], line[WIDTH] = rows, columns, width, width
            whole += cost(rows) * columns * width
            count += 1
        begin = end
    shares = max(1, min(told[MOST], whole // told[WORTH]))
    table = numba.carray(integers(told[TABLE]), (told[MOST] + pairs * pieces, SHARE))
    written = lay_out(lines[:count], whole, shares, table)
    interleave(table, written, told[THREADS])
    _tell(told[TABLE_COUNT], written)
    _tell(told[PACK_COUNT], packs)


@compiled
def _first_row(told: Array, pair: int) -> Any:
    """Where the row of a pair lies, not packed."""
    row = pair
    if told[STACK_SOURCES]:
        row = numba.carray(integers(told[STACK_SOURCES]), pair + 1)[pair]
    return told[STACK_X] + 4 * told[STACK_COLUMNS] * row


@compiled
def _pack(told: Array, kind: Array, begin: int, rows: int, packed: int, count: int) -> int:
    """Write lines that pack rows of pairs, from one pair on, behind `count` others; returns how many there are then."""
    columns, sources, x = told[STACK_COLUMNS], told[STACK_SOURCES], told[STACK_X]
    numbers = sources + 8 * begin if sources else 0
    if not sources:
        x += 4 * columns * begin
    units = kind[UNITS] if kind[UNITS] else rows
    for unit in range(0, units, kind[STEP]):
        line = numba.carray(integers(told[PACKS] + 8 * SHARE * count), SHARE)
        line[LOOP], line[MATRIX], line[X], line[Y] = kind[PACKING], numbers, x, packed
        line[ROWS], line[COLUMNS], line[ALL], line[WIDTH] = rows, columns, 0, kind[FIELD]
        line[BEGIN], line[END] = unit, min(unit + kind[STEP], units)
        count += 1
    return count


@compiled
def _tell(place: int, number: int) -> None:
    numba.carray(integers(place), 1)[0] = number


@compiled
def gate(place: int, begin: int, end: int) -> None:
    """Write what lies between the stacks for pairs [begin, end), see `grouped.Gate`: float32 [pairs, half].

    Gates and what they are multiplied with lie in two tensors or one, side by side or in turns.
    """
    told = numba.carray(integers(place), GROUPING)
    half, distance = told[HALF], told[DISTANCE]
    owners = numba.carray(integers(told[OWNERS]), end)
    for pair in range(begin, end):
        gates, others, gated = (
            told[GATES] + distance * pair,
            told[OTHERS] + distance * pair,
            told[GATED] + 4 * half * pair,
        )
        if told[EACH]:
            bias = _bias(told[UP_BIASES], owners[pair])
            alpha, limit = _number(place, ALPHA), _number(place, LIMIT)
            between.clamped_gate(gates, others, told[EACH], bias, gated, half, alpha, limit)
        else:
            between.gate(gates, others, gated, half)
        if told[NARROW]:
            between.round_numbers(gated, half)


@compiled
def _number(place: int, field: int) -> Any:
    return numba.carray(floats(place + 8 * field), 1)[0]


@compiled
def _bias(biases: int, expert: int) -> Any:
    return numba.carray(integers(biases), expert + 1)[expert] if biases else 0


@compiled
def mix(place: int, begin: int, end: int) -> None:
    """Write rows [begin, end) of weighted sums of outputs, see `grouped.mixed`, each with its expert's bias added."""
    told = numba.carray(integers(place), GROUPING)
    width, chosen = told[OUTPUT_WIDTH], told[CHOSEN]
    pairs_of = numba.carray(integers(told[PAIRS_OF]), end * chosen)
    owners = numba.carray(integers(told[OWNERS]), told[PASS_ROWS] * chosen)
    weights = numba.carray(floats(told[WEIGHTS]), end * chosen)
    for row in range(begin, end):
        found = told[MIXED] + 4 * width * row
        numba.carray(floats(found), width)[:] = 0
        for at in range(row * chosen, (row + 1) * chosen):
            pair = pairs_of[at]
            some = told[OUTPUTS] + 4 * width * pair
            if told[DOWN_BIASES]:
                between.add(some, _bias(told[DOWN_BIASES], owners[pair]), some, width)
            between.add_weighted(some, weights[at], found, width)
