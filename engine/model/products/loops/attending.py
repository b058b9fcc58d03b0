"""Attention of few rows over keys and values as they lie in a cache: the heads of a layer, shared out among threads."""

from typing import Any

import numba
import numpy as np

from engine.model.products.addresses import booleans, floats, integers, shorts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array
from engine.model.products.vectors import (
    as_stored,
    exponential,
    fused,
    minus,
    numbers,
    plus,
    splat,
    store,
    times,
    total,
)

(
    QUERY, KEYS, VALUES, KEY_STEP, VALUE_STEP, MASK, MASK_STEP, OUT, HEADS, GROUP, ROWS, SLOTS, WIDTH, SCALE, NARROW,
    SINKS, PARTS,
) = range(17)  # fmt: skip
FACTS = 17
"""What is told of an attention, int64 in this order: addresses of float32 but for the mask's; the numbers from one head
to the next one of keys and values; that of bytes from one row to the next one of the mask, which is 0 where rows are
causal; how many heads share keys; in the first half of a number a float32, which scores are multiplied by; 1 where keys
and values are bfloat16; the address of each head's sink, a score that takes weight from values and has none itself, or
0 for none; into how many parts the queries of a head of keys go, see `attending_pairs`.

Queries lie as [heads, rows, width], keys and values as [slots, width] for each head, `OUT` is [rows, heads, width].
"""

LANES = 8
STEP = 32  # `WIDTH` is a multiple of it
LEAST = np.float32(-np.inf)


@compiled
def attend(place: int, begin: int, end: int) -> None:
    """Heads [begin, end) of what is told at an address, with keys and values of float32."""
    told = numba.carray(integers(place), FACTS)
    count = told[SLOTS] * told[WIDTH]
    scores = np.empty(told[SLOTS] + LANES, np.float32)
    for head in range(begin, end):
        shared = head // told[GROUP]
        keys = numba.carray(floats(told[KEYS] + 4 * shared * told[KEY_STEP]), count)
        values = numba.carray(floats(told[VALUES] + 4 * shared * told[VALUE_STEP]), count)
        _attend_head(told, head, keys, values, scores)


@compiled
def attend_narrow(place: int, begin: int, end: int) -> None:
    """The same with keys and values of bfloat16."""
    told = numba.carray(integers(place), FACTS)
    count = told[SLOTS] * told[WIDTH]
    scores = np.empty(told[SLOTS] + LANES, np.float32)
    for head in range(begin, end):
        shared = head // told[GROUP]
        keys = numba.carray(shorts(told[KEYS] + 2 * shared * told[KEY_STEP]), count)
        values = numba.carray(shorts(told[VALUES] + 2 * shared * told[VALUE_STEP]), count)
        _attend_head(told, head, keys, values, scores)


@compiled
def _attend_head(told: Array, head: int, keys: Array, values: Array, scores: Array) -> None:
    rows, slots, width = told[ROWS], told[SLOTS], told[WIDTH]
    for row in range(rows):
        query = numba.carray(floats(told[QUERY] + 4 * (head * rows + row) * width), width)
        out = numba.carray(floats(told[OUT] + 4 * (row * told[HEADS] + head) * width), width)
        seen = slots if told[MASK] else slots - rows + row + 1
        most = _score(told, query, keys, scores, row, seen, width)
        if told[SINKS]:
            sink = numba.carray(floats(told[SINKS]), told[HEADS])[head]
            most = max(most, sink)
            weight = _weigh(scores, seen, most) + total(exponential(splat(sink - most))) / LANES
        else:
            weight = _weigh(scores, seen, most)
        _mix(scores, values, out, seen, width, 1 / weight)


@compiled
def _score(told: Array, query: Array, keys: Array, scores: Array, row: int, seen: int, width: int) -> Any:
    """Write the scores of a row's slots; returns the largest one."""
    scale = numba.carray(floats(told.ctypes.data + 8 * SCALE), 1)[0]
    mask = numba.carray(booleans(told[MASK] + row * told[MASK_STEP]), seen if told[MASK] else 0)
    most = LEAST
    for slot in range(seen):
        if told[MASK] and not mask[slot]:
            scores[slot] = LEAST
            continue
        a = b = splat(np.float32(0))
        for i in range(0, width, 2 * LANES):
            a = fused(numbers(query, i), as_stored(keys, slot * width + i), a)
            b = fused(numbers(query, i + LANES), as_stored(keys, slot * width + i + LANES), b)
        scores[slot] = total(plus(a, b)) * scale
        most = max(most, scores[slot])
    return most


@compiled
def _weigh(scores: Array, seen: int, most: Any) -> Any:
    """Make weights of scores, that of the largest one 1; returns their sum."""
    scores[seen : seen + LANES] = LEAST
    sums, largest = splat(np.float32(0)), splat(most)
    for slot in range(0, seen, LANES):
        weights = exponential(minus(numbers(scores, slot), largest))
        store(scores, slot, weights)
        sums = plus(sums, weights)
    return total(sums)


@compiled
def _mix(weights: Array, values: Array, out: Array, seen: int, width: int, by: Any) -> None:
    """Write the values' weighted sum."""
    factor = splat(by)
    for i in range(0, width, STEP):
        a = b = c = d = splat(np.float32(0))
        for slot in range(seen):
            weight, at = splat(weights[slot]), slot * width + i
            a, b = fused(weight, as_stored(values, at), a), fused(weight, as_stored(values, at + 8), b)
            c, d = fused(weight, as_stored(values, at + 16), c), fused(weight, as_stored(values, at + 24), d)
        store(out, i, times(a, factor))
        store(out, i + 8, times(b, factor))
        store(out, i + 16, times(c, factor))
        store(out, i + 24, times(d, factor))
