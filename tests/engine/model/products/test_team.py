"""Shares that compiled code hands out: all of them, with the bits of one thread, and nobody reads a table too long."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.model.products import product, team
from engine.model.products.layouts import Array
from engine.model.products.product import Stored, native, plain, times_all
from engine.model.products.programs import WORTH_SPREADING, Steps
from engine.model.products.team import Team
from engine.own_thread import computes_alone, in_own_thread

ROWS, COLUMNS = 96, 64


@pytest.fixture(autouse=True)
def _small_matrices_count(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(product, "SMALLEST", 1)
    monkeypatch.setattr(product, "WORTH_A_THREAD", 1)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def matrix(seed: int) -> Stored:
    found = plain(torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(seed)).bfloat16())
    assert found
    return found


def table_of(matrices: list[Stored], x: Tensor, found: list[Tensor], rows: int = 16) -> Array:
    """Shares of so many rows of each matrix; x is as loops read it."""
    return np.array(
        [
            (*each.line(x.data_ptr(), y.data_ptr(), len(y)), begin, begin + rows)
            for each, y in zip(matrices, found, strict=True)
            for begin in range(0, ROWS, rows)
        ],
        np.int64,
    )


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("more_follow", [False, True])
def test_all_shares_are_done_with_the_bits_of_one_thread(count: int, more_follow: bool) -> None:
    ours, matrices, x = Team(), [matrix(seed) for seed in range(4)], torch.randn(count, COLUMNS)
    expected = [torch.zeros(count, ROWS) for _ in matrices]
    read = torch.empty(count * COLUMNS) if count > 1 else x
    if count > 1:
        packing = native().packings([(x.data_ptr(), read.data_ptr(), count, COLUMNS)], 1)
        native().do_all(packing.ctypes.data, len(packing))
    alone = table_of(matrices, read, expected)
    native().do_all(alone.ctypes.data, len(alone))
    for one, other in zip(expected, matrices, strict=True):
        torch.testing.assert_close(one, x @ other_numbers(other).T, rtol=1e-4, atol=1e-4)
    for threads in (1, 2, 3) * 20:
        found = [torch.full((count, ROWS), torch.nan) for _ in matrices]
        ours.run(table_of(matrices, read, found), threads, more_follow)
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def other_numbers(stored: Stored) -> Tensor:
    out = torch.empty(ROWS, COLUMNS)
    stored.decode(out)
    return out


def test_helpers_sleep_when_nothing_follows_and_wake_again() -> None:
    ours, matrices, x = Team(), [matrix(0)], torch.randn(1, COLUMNS)
    found = [torch.zeros(1, ROWS)]
    for _ in range(2):
        ours.run(table_of(matrices, x, found), 3, more_follow=True)
        assert len(ours._helpers) == 2
        until = time.monotonic() + 30
        while any(helper.is_awake for helper in ours._helpers):
            assert time.monotonic() < until, "a helper spins for ever"
            time.sleep(0.001)


def test_helpers_stay_awake_while_one_thread_does_a_long_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would wake them for the shares behind it."""
    monkeypatch.setattr(team, "BETWEEN_SECONDS", 60.0)  # that such a step is longer than, where a machine is busy
    ours, go_on, seen = Team(), native().go_on, list[bool]()

    def slow(*arguments: Any) -> Any:
        until = time.monotonic() + 30
        while not ours.is_awake and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(0.05)
        seen.append(ours.is_awake)
        return go_on(*arguments)

    monkeypatch.setattr(native(), "go_on", slow)
    steps = np.zeros((1, native().steps.STEP), np.int64)
    steps[0, 0] = native().steps.GATE  # of no numbers
    for more_follow in (False, True):
        ours.run_steps([(steps.ctypes.data, 1)], 2, more_follow)
    assert seen == [True, True]


def test_a_gate_that_threads_share_has_the_bits_of_one() -> None:
    count, found = WORTH_SPREADING + 24, list[Tensor]()
    x, y = torch.randn(2, count, generator=torch.Generator().manual_seed(0))
    for threads in (1, 3):
        torch.set_num_threads(threads)
        steps, gated = Steps(), x.clone()
        steps.gate(gated, y)
        steps.finish()
        assert (steps.program[0, 0] == native().steps.SHARES) == (threads > 1)
        steps.run(0, len(steps))
        found.append(gated)
    assert torch.equal(*found)
    torch.testing.assert_close(found[0], functional.silu(x) * y)


def test_who_finds_the_team_at_work_does_all_alone() -> None:
    ours, matrices, x = Team(), [matrix(0)], torch.randn(1, COLUMNS)
    found = [torch.full((1, ROWS), torch.nan)]
    with ours._is_free:
        ours.run(table_of(matrices, x, found), 3, more_follow=False)
    assert not found[0].isnan().any()
    assert not ours._helpers


def test_an_interrupt_is_raised_once_nobody_reads_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, waits = Team(), 0

    def interrupted(_seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 1:
            raise KeyboardInterrupt
        ours._state[native().BUSY] = 0  # the helper has done its share

    ours._state[native().BUSY] = 1
    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ours._settle()
    assert waits == 2


def test_a_system_without_threads_leaves_all_to_the_one_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    ours, matrices, x, found = Team(), [matrix(0)], torch.randn(1, COLUMNS), [torch.full((1, ROWS), torch.nan)]
    ours.run(table_of(matrices, x, found), 3, more_follow=False)
    assert not found[0].isnan().any()


def test_products_in_a_light_pass_have_the_same_bits() -> None:
    torch.set_num_threads(3)
    matrices, x = [matrix(seed) for seed in range(3)], torch.randn(2, COLUMNS)
    expected = times_all(matrices, x)
    with in_own_thread():
        assert computes_alone()
        found = times_all(matrices, x)
    assert not computes_alone()
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
