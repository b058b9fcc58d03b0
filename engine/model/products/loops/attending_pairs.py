"""Attention of several rows over keys and values of bfloat16, by products of pairs: see `loops.pairs`.

Sixteen queries of the heads that share keys are a tile, one in each number of a register. So a slot's scores are sums
of what lies in one place, and so are the numbers that come out. Queries and weights are rounded to bfloat16.
"""

import numba
import numpy as np

from engine.model.products.addresses import booleans, floats, integers, shorts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array
from engine.model.products.loops.attending import (
    FACTS,
    GROUP,
    HEADS,
    KEY_STEP,
    KEYS,
    LEAST,
    MASK,
    MASK_STEP,
    OUT,
    PARTS,
    QUERY,
    ROWS,
    SCALE,
    SINKS,
    SLOTS,
    VALUE_STEP,
    VALUES,
    WIDTH,
)
from engine.model.products.loops.kernels import copy
from engine.model.products.units.bfloat_units import bfloats_at, bfloats_of, store_bfloats
from engine.model.products.units.sixteen import many_splat, many_store, many_times, sixteen_numbers
from engine.model.products.units.sums import (
    added,
    added_to_sums,
    divided,
    exponentials,
    less,
    loaded_sums,
    most,
    no_sums,
    store_sums,
    woven,
    woven_lower,
    woven_upper,
)

TILE = 16  # queries, slots and numbers of values that go through registers at a time
PAIRS = 2 * TILE  # numbers of bfloat16 in a register
SCRATCH = 1 << 21  # bytes of scores and weights: more would leave the caches, of fewer tiles keys are read more often
SLOT_BYTES = 6 * TILE  # of them for each slot and tile
CHUNK = 256  # slots whose values are woven at a time: 64 KiB of heads of 128


@compiled
def tiles_of(queries: int) -> int:
    """How many tiles so many queries take."""
    return (queries + TILE - 1) // TILE


@compiled
def attend(place: int, begin: int, end: int) -> None:
    """Parts [begin, end) of the heads of keys of what is told at an address: each head has `PARTS`, of whole tiles."""
    told = numba.carray(integers(place), FACTS)
    parts, tiles = told[PARTS], tiles_of(told[GROUP] * told[ROWS])
    some = max(1, min(tiles, SCRATCH // (SLOT_BYTES * TILE * tiles_of(told[SLOTS]))))
    for unit in range(begin, end):
        part = unit % parts
        first, last = tiles * part // parts, tiles * (part + 1) // parts
        for tile in range(first, last, some):
            _attend_tiles(told, unit // parts, tile, min(some, last - tile))


@compiled
def _attend_tiles(told: Array, shared: int, first: int, count: int) -> None:
    """So many tiles of the queries that share a head of keys."""
    slots, width, queries = told[SLOTS], told[WIDTH], told[GROUP] * told[ROWS]
    blocks = tiles_of(slots)
    query = numba.carray(floats(told[QUERY] + 4 * shared * queries * width), (queries, width))
    keys = numba.carray(shorts(told[KEYS] + 2 * shared * told[KEY_STEP]), slots * width)
    values = numba.carray(shorts(told[VALUES] + 2 * shared * told[VALUE_STEP]), slots * width)
    packed = np.empty(count * TILE * width, np.int16)
    scores = np.empty((count, TILE * TILE * blocks), np.float32)
    weights = np.empty((count, TILE * TILE * blocks), np.int16)
    found, sums = np.zeros((count, TILE * width), np.float32), np.empty(count * TILE, np.float32)
    for tile in range(count):
        _pack(query, (first + tile) * TILE, packed, tile * TILE * width)
    _score(told, keys, packed, scores, first, blocks)
    for tile in range(count):
        _weigh(told, scores[tile], weights[tile], blocks, shared, (first + tile) * TILE, sums, tile * TILE)
    _mix(values, weights, found, slots, width)
    for tile in range(count):
        _write(told, found[tile], sums, tile * TILE, shared, (first + tile) * TILE)


@compiled
def _pack(query: Array, begin: int, packed: Array, at: int) -> None:
    """Sixteen queries as [pairs of columns, queries, 2]; those that are missing are the last one again."""
    width = query.shape[1]
    line, pairs = np.empty(width, np.int16), width // 2
    numbers, target = line.view(np.int32), packed[at : at + TILE * width].view(np.int32)
    for each in range(TILE):
        row = query[min(begin + each, len(query) - 1)]
        for i in range(0, width, PAIRS):
            store_bfloats(line, i, bfloats_of(sixteen_numbers(row, i), sixteen_numbers(row, i + TILE)))
        for pair in range(pairs):
            target[pair * TILE + each] = numbers[pair]


@compiled
def _score(told: Array, keys: Array, packed: Array, scores: Array, first: int, blocks: int) -> None:
    """Write [tile, slot, query]; slots that are not seen, or that there are not, have the least score."""
    slots, width, rest = told[SLOTS], told[WIDTH], np.zeros(TILE * told[WIDTH], np.int16)
    for block in range(blocks):
        begin, some = block * TILE, min(TILE, slots - block * TILE)
        is_whole, is_seen = some == TILE, _are_seen(told, begin, some)
        if not is_whole:
            copy(keys, begin * width, rest, some * width)
        for tile in range(len(scores)):
            found, q = no_sums(0), tile * TILE * width
            for i in range(0, width, 2):
                pairs = bfloats_at(packed, q + TILE * i)
                if is_whole:
                    found = added_to_sums(keys, begin * width + i, width, pairs, found)
                else:
                    found = added_to_sums(rest, i, width, pairs, found)
            store_sums(scores[tile], TILE * begin, found)
            if not (is_whole and is_seen):
                _hide(told, scores[tile], begin, some, (first + tile) * TILE)


@compiled
def _are_seen(told: Array, begin: int, some: int) -> bool:
    """Whether all rows see all of some slots."""
    rows, slots = told[ROWS], told[SLOTS]
    if not told[MASK]:
        return bool(begin + some <= slots - rows + 1)
    for row in range(rows):
        mask = numba.carray(booleans(told[MASK] + row * told[MASK_STEP] + begin), some)
        for slot in range(some):
            if not mask[slot]:
                return False
    return True


@compiled
def _hide(told: Array, scores: Array, begin: int, some: int, query: int) -> None:
    rows, slots = told[ROWS], told[SLOTS]
    for each in range(TILE):
        row = min(query + each, told[GROUP] * rows - 1) % rows
        mask = numba.carray(booleans(told[MASK] + row * told[MASK_STEP] + begin), some if told[MASK] else 0)
        for slot in range(TILE):
            is_seen = slot < some and (mask[slot] if told[MASK] else begin + slot <= slots - rows + row)
            if not is_seen:
                scores[TILE * (begin + slot) + each] = LEAST


@compiled
def _weigh(
    told: Array, scores: Array, weights: Array, blocks: int, shared: int, query: int, sums: Array, at: int
) -> None:
    """Make weights of a tile's scores, as pairs of slots [slots / 2, queries, 2], and write their sums."""
    scale = numba.carray(floats(told.ctypes.data + 8 * SCALE), 1)[0]
    largest, whole = sixteen_numbers(scores, 0), many_splat(np.float32(0))
    for slot in range(TILE * blocks):
        largest = most(sixteen_numbers(scores, TILE * slot), largest)
    scales = many_splat(scale)
    largest = many_times(largest, scales)
    if told[SINKS]:
        sinks, line = numba.carray(floats(told[SINKS]), told[HEADS]), np.empty(TILE, np.float32)
        for each in range(TILE):
            last = told[GROUP] * told[ROWS] - 1
            line[each] = sinks[shared * told[GROUP] + min(query + each, last) // told[ROWS]]
        sink = sixteen_numbers(line, 0)
        largest = most(sink, largest)
        whole = exponentials(less(sink, largest))
    for slot in range(0, TILE * blocks, 2):
        one = exponentials(less(many_times(sixteen_numbers(scores, TILE * slot), scales), largest))
        other = exponentials(less(many_times(sixteen_numbers(scores, TILE * slot + TILE), scales), largest))
        whole = added(whole, added(one, other))
        store_bfloats(weights, TILE * slot, woven(bfloats_of(one, other)))
    many_store(sums, at, whole)


@compiled
def _mix(values: Array, weights: Array, found: Array, slots: int, width: int) -> None:
    """Add the values' weighted sums to `found` [tile, numbers of a value, queries]."""
    pairs = np.empty(CHUNK * width, np.int16)
    for chunk in range(0, slots, CHUNK):
        count = min(CHUNK, slots - chunk)
        for slot in range(0, count, 2):
            _weave(values, (chunk + slot) * width, pairs, slot * width, width, slot + 1 < count)
        for tile in range(len(found)):
            for i in range(0, width, TILE):
                sums = loaded_sums(found[tile], TILE * i)
                for slot in range(0, count, 2):
                    some = bfloats_at(weights[tile], TILE * (chunk + slot))
                    sums = added_to_sums(pairs, slot * width + 2 * i, 2, some, sums)
                store_sums(found[tile], TILE * i, sums)


@compiled
def _weave(values: Array, place: int, pairs: Array, at: int, width: int, are_two: bool) -> None:
    """The values of two slots as pairs; behind the last slot there are none."""
    nothing = bfloats_of(many_splat(np.float32(0)), many_splat(np.float32(0)))
    for i in range(0, width, PAIRS):
        one = bfloats_at(values, place + i)
        other = bfloats_at(values, place + width + i) if are_two else nothing
        store_bfloats(pairs, at + 2 * i, woven_lower(one, other))
        store_bfloats(pairs, at + 2 * i + PAIRS, woven_upper(one, other))


@compiled
def _write(told: Array, found: Array, sums: Array, at: int, shared: int, query: int) -> None:
    """Into [rows, heads, width]."""
    rows, heads, width = told[ROWS], told[HEADS], told[WIDTH]
    whole = sixteen_numbers(sums, at)
    for i in range(width):
        many_store(found, TILE * i, divided(sixteen_numbers(found, TILE * i), whole))
    for each in range(min(TILE, told[GROUP] * rows - query)):
        head, row = shared * told[GROUP] + (query + each) // rows, (query + each) % rows
        out = numba.carray(floats(told[OUT] + 4 * (row * heads + head) * width), width)
        for i in range(width):
            out[i] = found[TILE * i + each]
