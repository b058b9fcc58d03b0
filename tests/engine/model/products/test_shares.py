"""Shares of products: every row once, and the threads' parts one behind the other."""

import numpy as np
import pytest

from engine.model.products.loops import shares


@pytest.mark.parametrize(("count", "threads"), [(0, 2), (1, 4), (7, 2), (8, 2), (9, 4), (23, 3)])
def test_compiled_code_puts_shares_in_the_same_order(count: int, threads: int) -> None:
    table = np.arange((count + 2) * shares.SHARE, dtype=np.int64).reshape(-1, shares.SHARE)
    expected = table.copy()
    expected[:count] = table[shares._interleaved(count, threads)] if count else table[:0]
    shares.interleave(table, count, threads)
    assert (table == expected).all()


@pytest.mark.parametrize("threads", [2, 4])
def test_a_thread_that_takes_every_second_share_reads_on_from_where_it_was(threads: int) -> None:
    order = shares._interleaved(24, threads)
    for thread in range(threads):
        assert (np.diff(order[thread::threads]) == 1).all()
    assert sorted(order) == [*range(24)]
