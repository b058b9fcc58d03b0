"""Shares of products: lines of numbers that threads take one by one."""

import numpy as np

from engine.model.products.compiling import compiled
from engine.model.products.layouts import TOGETHER, Array

LOOP, MATRIX, X, Y, ROWS, COLUMNS, ALL, WIDTH, BEGIN, END = range(10)
SHARE = 10  # numbers of a share: rows of x, columns, rows of the matrix, numbers of a row of y, and which rows it does
DECODED = 4  # rows of x whose products take about as long as decoding a matrix does


def table_of(products: Array, whole: int, count: int) -> Array:
    """Lines of shares for all rows of the matrices of `products`, int64 [products, `BEGIN`], about `count` of them.

    `whole`: how many products of numbers these are. Each share is for a multiple of so many rows of a matrix as lie
    together, but for the last one of each matrix.
    """
    table = np.empty((count + len(products), SHARE), np.int64)
    return table[: lay_out(products, whole, count, table)]


@compiled
def lay_out(products: Array, whole: int, count: int, table: Array) -> int:
    """Write the lines of `table_of` into a table that has room for them; returns how many these are."""
    line = 0
    for each in range(len(products)):
        rows = min(products[each, ROWS], DECODED)
        step = -(-whole // (count * products[each, COLUMNS] * rows * TOGETHER)) * TOGETHER
        for begin in range(0, products[each, ALL], step):
            for field in range(BEGIN):
                table[line, field] = products[each, field]
            table[line, BEGIN], table[line, END] = begin, min(begin + step, products[each, ALL])
            line += 1
    return line
