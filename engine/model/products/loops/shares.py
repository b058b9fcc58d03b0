"""Shares of products: lines of numbers that threads take one by one."""

from functools import lru_cache

import numpy as np

from engine.model.products.compiling import compiled
from engine.model.products.layouts import TOGETHER, Array

LOOP, MATRIX, X, Y, ROWS, COLUMNS, ALL, WIDTH, BEGIN, END = range(10)
SHARE = 10  # numbers of a share: rows of x, columns, rows of the matrix, numbers of a row of y, and which rows it does
DECODED = 4  # rows of x whose products take about as long as decoding a matrix does; of more, two take as long as one


def table_of(products: Array, whole: int, count: int, threads: int) -> Array:
    """Lines of shares for all rows of the matrices of `products`, int64 [products, `BEGIN`], about `count` of them.

    `whole`: what they cost, see `cost`. Each share is for a multiple of so many rows of a matrix as lie together, but
    for the last one of each matrix.
    """
    table = np.empty((count + len(products), SHARE), np.int64)
    table = table[: lay_out(products, whole, count, table)]
    return table if threads == 1 else table[_interleaved(len(table), threads)]


@compiled
def interleave(table: Array, count: int, threads: int) -> None:
    """Put the first lines of a table, so many, in the order of `_interleaved`."""
    before, line, step = table[:count].copy(), 0, -(-count // threads)
    for begin in range(step):
        for at in range(begin, count, step):
            for field in range(SHARE):
                table[line, field] = before[at, field]
            line += 1


@lru_cache(maxsize=256)
def _interleaved(count: int, threads: int) -> Array:
    """Numbers up to a count: the first of as many parts as there are threads, one of each, and then the second ones.

    Threads that are as fast as each other read what lies one behind the other then: memory that is asked for ahead, by
    loops and by processors, is memory that the same thread reads.
    """
    step = -(-count // threads)
    return np.array([at for begin in range(step) for at in range(begin, count, step)])


@compiled
def costs(products: Array) -> int:
    """What products cost, see `cost`."""
    whole = 0
    for each in range(len(products)):
        whole += cost(products[each, ROWS]) * products[each, COLUMNS] * products[each, ALL]
    return whole


@compiled
def cost(rows: int) -> int:
    """Of so many rows of x with a matrix, against one row, about: threads are to end together."""
    return min(rows, DECODED) + max(0, rows - DECODED) // 2


@compiled
def lay_out(products: Array, whole: int, count: int, table: Array) -> int:
    """Write the lines of `table_of` into a table that has room for them; returns how many these are."""
    line = 0
    for each in range(len(products)):
        by_row = cost(products[each, ROWS]) * products[each, COLUMNS]
        step = -(-whole // (count * by_row * TOGETHER)) * TOGETHER
        for begin in range(0, products[each, ALL], step):
            for field in range(BEGIN):
                table[line, field] = products[each, field]
            table[line, BEGIN], table[line, END] = begin, min(begin + step, products[each, ALL])
            line += 1
    return line
