"""Small operations in one thread: torch's own setting comes back, and nobody asks it who may compute."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from engine.loading.measurements.benchmark import machine_key
from engine.own_thread import in_all_threads, in_own_thread, threads_allowed, threads_for
from engine.weights.streaming.experts.slots import ExpertSlots
from engine.weights.streaming.prefetch_ring import PrefetchRing
from engine.weights.streaming.stored_weight import LIGHT, LIGHT_PRODUCTS, NarrowWeight, light_rows, share_out_head


@pytest.fixture(autouse=True)
def _three_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(threads)


def test_torch_computes_in_one_thread_and_others_ask_for_all() -> None:
    def fail() -> None:
        raise MemoryError("boom")

    with in_own_thread():
        with in_own_thread():
            assert (torch.get_num_threads(), threads_allowed()) == (1, 3)
        with in_all_threads():
            assert (torch.get_num_threads(), threads_allowed()) == (3, 3)
            with in_own_thread():
                assert (torch.get_num_threads(), threads_allowed()) == (1, 3)
            assert (torch.get_num_threads(), threads_allowed()) == (3, 3)
        with threads_for(10, few=9):
            assert torch.get_num_threads() == 3
        with pytest.raises(MemoryError, match="boom"), in_all_threads():
            fail()
        assert (torch.get_num_threads(), threads_allowed()) == (1, 3)
    with threads_for(9, few=9):
        assert torch.get_num_threads() == 1
    with pytest.raises(MemoryError, match="boom"), in_own_thread():
        fail()
    with in_all_threads():
        assert (torch.get_num_threads(), threads_allowed()) == (3, 3)


def test_another_thread_is_not_meant() -> None:
    found: list[int] = []

    def ask() -> None:
        torch.set_num_threads(2)
        found.append(threads_allowed())

    with in_own_thread():
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert found == [2]


def test_a_thread_that_begins_meanwhile_may_use_as_many_threads() -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(threads_allowed())) for _ in range(2)]
    with in_own_thread():
        threads[0].start()
        threads[0].join()
        assert torch.get_num_threads() == 1
    threads[1].start()
    threads[1].join()
    assert found == [3, 3]


def test_threads_that_bring_weights_copy_in_as_many_threads_though_one_computes_alone() -> None:
    """A copy from pageable memory at the rate of one core would hold the device up for good."""
    found: list[int] = []
    pool = ExpertSlots._pool(SimpleNamespace(_copy_stream=None))  # type: ignore[arg-type]
    with in_own_thread():
        ring = PrefetchRing("layers", [0], 1, lambda _layer, _slot: found.append(torch.get_num_threads()))
        ring.acquire(0)
        found.append(pool.submit(torch.get_num_threads).result())
    ring.close()
    pool.shutdown()
    assert found == [3, 3]


def test_the_machine_is_the_same_for_a_thread_that_begins_meanwhile() -> None:
    expected, found = machine_key(torch.device("cpu")), list[str]()
    with in_own_thread():
        thread = threading.Thread(target=lambda: found.append(machine_key(torch.device("cpu"))))
        thread.start()
        thread.join()
    assert found == [expected]


def test_rows_are_few_for_the_matrix_that_is_worth_most() -> None:
    small, table = nn.Linear(64, 64), nn.Embedding(LIGHT // 64 + 1, 64)
    large = nn.Linear(LIGHT // 64 + 1, 64, device="meta")
    assert light_rows(nn.ModuleList([small, table])) == LIGHT_PRODUCTS // 64**2
    assert light_rows(nn.ModuleList([small, large])) == 0
    narrow = NarrowWeight.of(torch.zeros(64, LIGHT // 64 + 64), torch.bfloat16, few_rows=16)
    large._parameters["weight"] = narrow  # type: ignore[assignment]  # as `narrow_weights` does
    assert light_rows(nn.ModuleList([small, large])) == 16


class _WithHead(nn.Module):
    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def get_output_embeddings(self) -> nn.Module:
        return self.head


def test_a_large_head_makes_no_pass_heavy_as_it_asks_for_threads_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(3)
    seen: list[int] = []
    head = nn.Linear(LIGHT // 64 + 1, 64, bias=False)
    own = head.forward

    def noted(states: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return own(states)

    monkeypatch.setattr(head, "forward", noted)
    model = _WithHead(head)
    assert light_rows(model) == 0
    apart = share_out_head(model)
    assert apart == (head,)
    assert light_rows(nn.ModuleList([nn.Linear(64, 64), model]), apart) == LIGHT_PRODUCTS // 64**2
    x = torch.randn(1, LIGHT // 64 + 1)
    expected = own(x)
    with in_own_thread():
        assert torch.equal(head(x), expected)
        assert torch.get_num_threads() == 1
    assert seen == [3]
    assert share_out_head(_WithHead(nn.Embedding(4, 4))) == ()
