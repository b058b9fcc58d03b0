"""What a layer computes for few rows, step by step in one call: products by all threads, all else by the one that asks.

A step is a line of numbers, int64: what to do, and with which addresses of float32, numbers one behind the other. What
is a float32 itself stands in the first half of a number.
"""

from typing import Any

import numba
import numpy as np

from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array
from engine.model.products.loops import between, routing
from engine.model.products.pointers import floats
from engine.model.products.vectors import exponential, minus, numbers, over, plus, splat, store, times

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
CLAMPED = 10  # gate, up, numbers from one of either to the next, bias, y, count, alpha, limit: see `clamped_gate`
ROUTE = 11  # logits, experts, chosen, of all, normalised, choice, weights: see `routing.choose`
TELL = 12  # choice, owners, count, pieces, places, the first number told, bytes to the next: see `routing.tell`
WIDEN = 13  # x, y, count: bfloat16 to float32
ROUND = 14  # x, count: to what bfloat16 holds
ROUTE_SCORED = 15  # logits, experts, chosen, bias, normalised, choice, weights, scaling: see `routing.choose_scored`

LANES = 8


@compiled
def small_step(step: Array) -> None:
    """Do a step that one thread does."""
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
        _add(step[1], step[2], step[3], step[4])
    elif kind == BIAS:
        for row in range(step[3]):
            place = step[1] + 4 * row * step[4]
            _add(place, step[2], place, step[4])
    elif kind == GATE:
        gate(step[1], step[2], step[3])
    elif kind == NARROW:
        between.narrow_heads(step[1], step[2], step[3], step[4], step[5])
    elif kind == MIX:
        _mix(step[1], step[2], step[3], step[4], step[5])
    else:
        _rarer_step(step)


@compiled
def _rarer_step(step: Array) -> None:
    kind = step[0]
    if kind == CLAMPED:
        clamped_gate(step[1], step[2], step[3], step[4], step[5], step[6], _number(step, 7), _number(step, 8))
    elif kind == WIDEN:
        between.widen(step[1], step[2], step[3])
    elif kind == ROUND:
        between.round_numbers(step[1], step[2])
    elif kind == ROUTE:
        routing.choose(step[1], step[2], step[3], step[4] != 0, step[5] != 0, step[6], step[7])
    elif kind == ROUTE_SCORED:
        scaling = _number(step, 8)
        routing.choose_scored(step[1], step[2], step[3], step[4], step[5] != 0, step[6], step[7], scaling)
    elif kind == TELL:
        routing.tell(step[1], step[2], step[3], step[4], step[5], step[6], step[7])


@compiled
def _number(step: Array, field: int) -> Any:
    return numba.carray(floats(step.ctypes.data + 8 * field), 1)[0]


@compiled
def _add(x: int, y: int, z: int, count: int) -> None:
    one, other, found = numba.carray(floats(x), count), numba.carray(floats(y), count), numba.carray(floats(z), count)
    for i in range(count):
        found[i] = one[i] + other[i]


@compiled
def gate(x: int, y: int, count: int) -> None:
    """`count` is a multiple of 8."""
    gate, up = numba.carray(floats(x), count), numba.carray(floats(y), count)
    zero, one = splat(np.float32(0)), splat(np.float32(1))
    for i in range(0, count, LANES):
        some = numbers(gate, i)
        store(gate, i, times(over(some, plus(one, exponential(minus(zero, some)))), numbers(up, i)))


@compiled
def clamped_gate(gate: int, up: int, step: int, bias: int, y: int, count: int, alpha: float, limit: float) -> None:
    """gpt-oss's: (up + 1) * gate / (1 + e to the power of -alpha * gate), of clamped numbers; `count` as of `gate`.

    `step`: numbers from one of either to the next. `bias`: of gates and ups in turns, or 0 for none.
    """
    gates, ups = numba.carray(floats(gate), step * count), numba.carray(floats(up), step * count)
    biases, out = numba.carray(floats(bias), 2 * count if bias else 0), numba.carray(floats(y), count)
    some, others = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    one, slope = splat(np.float32(1)), splat(np.float32(-alpha))
    for i in range(0, count, LANES):
        for lane in range(LANES):
            g, u = gates[step * (i + lane)], ups[step * (i + lane)]
            if bias:
                g, u = g + biases[2 * (i + lane)], u + biases[2 * (i + lane) + 1]
            g = limit if g > limit else g  # what is no number stays so
            u = limit if u > limit else u
            some[lane], others[lane] = g, -limit if u < -limit else u
        g = numbers(some, 0)
        store(out, i, times(plus(numbers(others, 0), one), over(g, plus(one, exponential(times(g, slope))))))


@compiled
def _mix(x: int, weights: int, y: int, rows: int, width: int) -> None:
    """In the order of the rows."""
    some, factors = numba.carray(floats(x), (rows, width)), numba.carray(floats(weights), rows)
    found = numba.carray(floats(y), width)
    found[:] = 0
    for row in range(rows):
        factor = factors[row]
        for i in range(width):
            found[i] += some[row, i] * factor
