"""Shares on several threads: all of them, once each; and products in one batch have the bits of each alone."""

import gc
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest
import torch

from engine.model.products.arranged import Joined, Woven
from engine.model.products.compiling import has_compiler
from engine.model.products.crew import Crew, Share
from engine.model.products.product import Product, plain, times_all


@pytest.fixture
def _threads_restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_all_shares_are_done_once_by_no_more_threads_than_may() -> None:
    crew, met = Crew(), threading.Barrier(3)
    done: list[tuple[int, str]] = []

    def share(number: int) -> None:
        if number < 3:
            met.wait(timeout=30)  # three threads are here at once
        done.append((number, threading.current_thread().name))

    for _ in range(3):
        done.clear()
        crew.run([lambda number=number: share(number) for number in range(40)], 3)  # type: ignore[misc]
        assert sorted(number for number, _ in done) == list(range(40))
        assert len({name for _, name in done}) <= 3
    crew.run([lambda: done.append((40, ""))], 1)
    assert done[-1] == (40, "")


def test_an_error_comes_when_nobody_works_on_and_the_crew_goes_on() -> None:
    crew, met = Crew(), threading.Barrier(2)
    is_caller = threading.current_thread()

    def share() -> None:
        met.wait(timeout=30)
        if threading.current_thread() is not is_caller:
            raise MemoryError("boom")

    for _ in range(2):
        with pytest.raises(MemoryError, match="boom"):
            crew.run([share, share], 2)
    done: list[int] = []
    crew.run([lambda: done.append(1)] * 3, 2)
    assert done == [1, 1, 1]


class Weights:
    """Stands for what a share computes with."""


def test_nothing_of_a_run_is_kept_after_it() -> None:
    crew, met = Crew(), threading.Barrier(3)
    weights = Weights()
    kept = weakref.ref(weights)

    def share(of: Weights) -> None:
        met.wait(timeout=30)
        raise MemoryError("boom", of)

    gc.disable()  # nobody should have to look for it
    try:
        with pytest.raises(MemoryError, match="boom") as caught:
            crew.run([partial(share, weights)] * 3, 3)
        del caught, weights
        assert kept() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("step", ["before", "after", "waiting"])
def test_after_an_interrupt_nobody_works_on(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    crew, works, ends = Crew(), threading.Event(), threading.Event()
    crew.run([lambda: None] * 2, 2)
    helper = crew._helpers[0]
    begin, end, running = helper.begin, helper.end, []

    def interrupted_begin(shares: Iterator[Share]) -> None:
        if step != "before":
            begin(shares)
        if step == "after":
            works.wait(30)
            raise KeyboardInterrupt
        if step == "before":
            raise KeyboardInterrupt

    def interrupted_end() -> BaseException | None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    def share() -> None:
        running.append(1)
        works.set()
        ends.wait(0.2)
        running.pop()

    monkeypatch.setattr(helper, "begin", interrupted_begin)
    if step == "waiting":
        monkeypatch.setattr(helper, "end", interrupted_end)
    with pytest.raises(KeyboardInterrupt):
        crew.run([share] * 2, 2)
    assert not running
    monkeypatch.undo()
    assert (helper.begin, helper.end) == (begin, end)
    names: list[str] = []
    met = threading.Barrier(2)

    def both() -> None:
        met.wait(timeout=30)
        names.append(threading.current_thread().name)

    crew.run([both] * 2, 2)
    assert len(set(names)) == 2


def test_who_finds_the_crew_at_work_or_no_more_threads_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    crew, names = Crew(), []

    def inner() -> None:
        crew.run([lambda: names.append(threading.current_thread().name)] * 2, 2)

    crew.run([inner], 2)
    assert len(set(names)) == 1

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    Crew().run([lambda: done.append(1)] * 3, 3)
    assert done == [1, 1, 1]


@pytest.mark.skipif(not has_compiler(), reason="there is no compiler")
@pytest.mark.usefixtures("_threads_restored")
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_batch_gives_the_bits_of_each_product_alone(rows: int) -> None:
    chance = torch.Generator().manual_seed(rows)
    first, second, third = (
        matrix
        for count in (1024, 512, 520)
        if (matrix := plain(torch.randn(count, 256, generator=chance).bfloat16())) is not None
    )
    matrices: list[Product] = [first, Joined([second, third]), Woven(second, heads=4)]
    x = torch.randn(rows, 256, generator=chance)
    torch.set_num_threads(1)
    alone = [matrix(x) for matrix in matrices]
    torch.set_num_threads(3)
    for one, together in zip(alone, times_all(matrices, x), strict=True):
        assert torch.equal(one, together)
