"""What a layer computes for few rows, step by step in one call: products by all threads, all else by the one that asks.

A step is a line of numbers, int64: what to do, and with which addresses of float32, numbers one behind the other. What
is a float32 itself stands in the first half of a number.
"""

from typing import Any

import numba

from engine.model.products.addresses import floats, integers, look
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array
from engine.model.products.loops import between, groups, routing

STEP = 12  # numbers of a step, of which the first says what it is:
SHARES = 0  # address of shares, their count
DIGITS = 1  # address of a row, columns, where to, whether in fewer digits, order: see `whole_numbers.write_row`
NORM = 2  # see `between.norm_rows`: x, weight, y, rows, width, epsilon, what is added to the weight
TURN = 3  # x, cosine, sine, y, numbers from one head of y to the next, rows, heads, width, by pairs, turned
PLACE = 4  # x, y, numbers from one head of y to the next, rows, heads, width: the same without turning
ADD = 5  # x, y, z, count: z = x + y
BIAS = 6  # x, bias, rows, width: added to each row
GATE = 7  # x, y, count: x = x / (1 + e to the power of -x) * y
MIX = 8  # x, weights, y, rows, width: y = the sum of all rows of x, each times its weight
NARROW = 9  # x, y, numbers from one head of y to the next, heads, width: of x as they lie, to bfloat16
CLAMPED = 10  # gate, up, numbers from one to the next, bias, y, count, alpha, limit: see `between.clamped_gate`
ROUTE = 11  # logits, experts, chosen, of all, normalised, choice, weights, -, rows: see `routing.choose`
TELL = 12  # choice, owners, count, pieces, places, the first number told, bytes to the next: see `routing.tell`
WIDEN = 13  # x, y, count: bfloat16 to float32
ROUND = 14  # x, count: to what bfloat16 holds
ROUTE_SCORED = 15  # logits, experts, chosen, bias, normalised, choice, weights, scaling, rows: `routing.choose_scored`
BYTES = 17  # address of a row, columns, where to: it in 8 bits, see `rounded.round_row`
GROUP = 16  # the address of what the grouping is told: see `groups.group_pairs`

LOOP = STEP - 1  # where the address of a loop stands, of steps that have one of their own:
WITH_LOOPS = {
    DIGITS: "digits of a row",
    BYTES: "bytes of a row",
    CLAMPED: "clamped gate",
    ROUTE: "route",
    ROUTE_SCORED: "route scored",
    GROUP: "group",
    TELL: "tell",
}
"""The names of their works, see `works.loop_for`. Most networks have no need of them, so all are compiled apart."""


@compiled
def small_step(step: Array) -> None:
    """Do a step that one thread does, and that has no loop of its own."""
    kind = step[0]
    if kind == NORM:
        epsilon, more = _number(step, 6), _number(step, 7)
        between.norm_rows(step[1], step[2], step[3], step[4], step[5], epsilon, more)
    elif kind == TURN:
        rows, heads, width, turned = step[6], step[7], step[8], step[10]
        between.turn_heads(step[1], step[2], step[3], step[4], step[5], rows, heads, width, step[9] != 0, turned)
    elif kind == PLACE:
        between.place_heads(step[1], step[2], step[3], step[4], step[5], step[6])
    elif kind == ADD:
        between.add(step[1], step[2], step[3], step[4])
    elif kind == BIAS:
        for row in range(step[3]):
            place = step[1] + 4 * row * step[4]
            between.add(place, step[2], place, step[4])
    elif kind == GATE:
        between.gate(step[1], step[2], step[1], step[3])
    elif kind == NARROW:
        between.narrow_heads(step[1], step[2], step[3], step[4], step[5])
    elif kind == MIX:
        _mix(step[1], step[2], step[3], step[4], step[5])
    elif kind == WIDEN:
        between.widen(step[1], step[2], step[3])
    elif kind == ROUND:
        between.round_numbers(step[1], step[2])


def _clamp(place: Any, _matrix: Any) -> None:
    step = numba.carray(integers(place), STEP)
    alpha, limit = _number(step, 7), _number(step, 8)
    between.clamped_gate(step[1], step[2], step[3], step[4], step[5], step[6], alpha, limit)


def _route(place: Any, _matrix: Any) -> None:
    step = numba.carray(integers(place), STEP)
    of_all, normalised = step[4] != 0, step[5] != 0
    for row in range(step[9]):
        logits, places = step[1] + 4 * step[2] * row, step[3] * row
        routing.choose(logits, step[2], step[3], of_all, normalised, step[6] + 8 * places, step[7] + 4 * places)


def _route_scored(place: Any, _matrix: Any) -> None:
    step = numba.carray(integers(place), STEP)
    scaling, normalised = _number(step, 8), step[5] != 0
    for row in range(step[9]):
        logits, places = step[1] + 4 * step[2] * row, step[3] * row
        choice, weights = step[6] + 8 * places, step[7] + 4 * places
        routing.choose_scored(logits, step[2], step[3], step[4], normalised, choice, weights, scaling)


def _group(place: Any, _matrix: Any) -> None:
    groups.group_pairs(look(place + 8))


def _tell(place: Any, _matrix: Any) -> None:
    step = numba.carray(integers(place), STEP)
    routing.tell(step[1], step[2], step[3], step[4], step[5], step[6], step[7])


LOOPS = {
    WITH_LOOPS[CLAMPED]: _clamp,
    WITH_LOOPS[ROUTE]: _route,
    WITH_LOOPS[ROUTE_SCORED]: _route_scored,
    WITH_LOOPS[GROUP]: _group,
    WITH_LOOPS[TELL]: _tell,
}


@compiled
def _number(step: Array, field: int) -> Any:
    return numba.carray(floats(step.ctypes.data + 8 * field), 1)[0]


@compiled
def _mix(x: int, weights: int, y: int, rows: int, width: int) -> None:
    """In the order of the rows."""
    factors = numba.carray(floats(weights), rows)
    numba.carray(floats(y), width)[:] = 0
    for row in range(rows):
        between.add_weighted(x + 4 * row * width, factors[row], y, width)
