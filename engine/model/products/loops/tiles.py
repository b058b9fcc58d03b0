"""The loop for processors with a matrix unit: products of several rows of bfloat16 with a matrix in any layout.

The matrix is rounded to bfloat16, as it is where it is decoded for torch's products in that type; sums are in float32.
They are made in the same order for every row, so that its bits depend neither on the other rows nor on threads.
"""

from typing import Any

import numpy as np

from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array
from engine.model.products.loops.tile_operations import (
    add_0,
    add_1,
    add_2,
    add_3,
    clear_0,
    clear_1,
    clear_2,
    clear_3,
    configure,
    load_0,
    load_1,
    load_2,
    load_3,
    load_more_x,
    load_weight,
    load_weight_below,
    load_x,
    release,
    save_0,
    save_1,
    save_2,
    save_3,
    shapes,
)  # fmt: skip
from engine.model.products.units.bfloat_units import find_factors, write_units
from engine.model.products.units.by_layout import SHARED, bytes_of_a_row
from engine.model.products.vectors import fetch

ROWS = 16  # of x in a tile, and pairs of columns
GROUP = 32  # rows of the matrix at a time: two tiles
STEPS = 64
SHARING = 8  # units whose scales are found at once
LINE = 64  # bytes that come from memory together
WIDTH = STEPS * UNIT + UNIT  # of a decoded row in memory: rows of a tile must not fall into the same set of a cache
TILE = 256  # sums of a tile; x has twice as many numbers
SHAPES = shapes()


@compiled
def tile_rows(parts: Any, x: Array, y: Array, begin: int, end: int, shapes: Array) -> None:
    """x, see `in_tiles`, times rows [begin, end) of the matrix, into y float32 [rows, all rows of the matrix]."""
    count, steps = x.shape[0], x.shape[1]
    memory = np.empty(GROUP * WIDTH + UNIT, np.uint16)
    weights = memory[-memory.ctypes.data % LINE // 2 :]
    sums, scales = np.empty(count * 2 * TILE, np.float32), np.empty(SHARED, np.float32)
    numbers = x.reshape(-1)
    configure(shapes)
    for row in range(begin, end, GROUP):
        for block in range(0, steps, STEPS):
            some = min(STEPS, steps - block)
            for each in range(GROUP):
                _decode(parts, min(row + each, end - 1), block, some, steps, scales, weights, each * WIDTH)
            for tile in range(0, count, 2):
                at = (tile * steps + block) * 2 * TILE
                is_begun, is_whole = block > 0, count <= 2 and block + some < steps
                beside = steps * 2 * TILE if tile + 1 < count else 0
                _multiply(weights, numbers, at, beside, some, sums, tile * 2 * TILE, is_begun, is_whole, count > 2)
        _write(sums, y, row, min(row + GROUP, end))
    release()


@compiled
def fill_tiles(x: Array, runs: Array, tiles: Array) -> None:
    """Pairs of columns of x, int32 [rows, pairs], as tiles int32 [tiles, steps, 16 pairs x 16 rows]: see `in_tiles`."""
    at, steps = 0, tiles.shape[1]
    for run in range(len(runs)):
        for begin in range(runs[run, 0], runs[run, 1], ROWS):
            count = min(ROWS, runs[run, 1] - begin)
            for step in range(steps):
                tile, pairs = tiles[at, step], step * ROWS
                if count < ROWS:
                    tile[:] = 0
                for row in range(count):
                    some = x[begin + row]
                    for pair in range(ROWS):
                        tile[pair * ROWS + row] = some[pairs + pair]
            at += 1


@compiled
def _decode(parts: Any, row: int, begin: int, some: int, steps: int, scales: Array, out: Array, i: int) -> None:
    """Units [begin, begin + some) of the matrix's row `row`; memory is asked for those of the next group."""
    size = bytes_of_a_row(parts)
    ahead = (row + GROUP) * size + begin * size // steps
    part = SHARING * size // steps
    for block in range(begin, begin + some, SHARING):
        for place in range(ahead, ahead + part, LINE):
            fetch(parts[0], place)
        ahead += part
        find_factors(parts, row, block, scales)
        write_units(parts, row, block, min(block + SHARING, begin + some), scales, out, i)
        i += SHARING * UNIT


@compiled
def _begin(sums: Array, s: int, beside: int, is_begun: bool, moves: bool) -> None:
    """Have the sums in their tiles; see `_multiply`."""
    if not is_begun:
        clear_0()
        clear_1()
        clear_2()
        clear_3()
    elif moves:
        load_0(sums, s, 64)
        load_2(sums, s + TILE, 64)
        if beside:
            load_1(sums, s + 2 * TILE, 64)
            load_3(sums, s + 3 * TILE, 64)


@compiled
def _multiply(
    weights: Array,
    x: Array,
    at: int,
    beside: int,
    steps: int,
    sums: Array,
    s: int,
    is_begun: bool,
    stays: bool,
    moves: bool,
) -> None:
    """Two tiles of rows of the matrix times one tile of rows of x at `at`, or two, the second one `beside` it.

    Sums go on from before where these were begun: from memory where they `moves` to make room for others.
    """
    _begin(sums, s, beside, is_begun, moves)
    i = 0
    if beside:
        for _ in range(steps):
            load_weight(weights, i, 2 * WIDTH)
            load_x(x, at, 64)
            load_weight_below(weights, i + 16 * WIDTH, 2 * WIDTH)
            load_more_x(x, at + beside, 64)
            add_0()
            add_2()
            add_1()
            add_3()
            i += UNIT
            at += 2 * TILE
    else:
        for _ in range(steps):
            load_weight(weights, i, 2 * WIDTH)
            load_x(x, at, 64)
            load_weight_below(weights, i + 16 * WIDTH, 2 * WIDTH)
            add_0()
            add_2()
            i += UNIT
            at += 2 * TILE
    if stays:
        return
    save_0(sums, s, 64)
    save_2(sums, s + TILE, 64)
    if beside:
        save_1(sums, s + 2 * TILE, 64)
        save_3(sums, s + 3 * TILE, 64)


@compiled
def _write(sums: Array, y: Array, begin: int, end: int) -> None:
    """Sums [tile of x, tile of the matrix, its row, row of x]."""
    for r in range(len(y)):
        tile = r // 16 * 2 * TILE + r % 16
        target = y[r]
        for row in range(begin, end):
            target[row] = sums[tile + (row - begin) * 16]
