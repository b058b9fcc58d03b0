"""Recorded passes give what plain ones give, whatever their shape, and are given up where they do not."""

import gc
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from engine import accelerator
from engine.model.context import Context
from engine.model.passes import graphed_passes
from engine.model.passes.graphed_passes import CHECKS, WARM_UPS, CudaGraphs, why_not
from tests.campaigns.extent import choose
from tests.engine.model.test_context import PREFIX
from tests.engine.tiny_models import tiny_network

PLAIN = WARM_UPS + CHECKS
LEVELS = [([7], [-1]), ([8, 9, 10], [0, 0, 0]), ([11, 12, 13, 14, 15], [1, 2, 2, 3, 1])]


class StandIn:
    """Records work by calling it again: on the same memory, with the Python values of then, as a graph does.

    Work that is only recorded is not done: what it would have written is overwritten with nonsense.
    """

    def __init__(self, error: str = "", spoil: Callable[[int], bool] = lambda _replay: False) -> None:
        self.recorded = self.replayed = 0
        self._error, self._spoil = error, spoil
        self.logits: Callable[[], Tensor | None] = lambda: None

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        if self._error:
            raise RuntimeError(self._error)
        self.recorded += 1
        if (logits := self.logits()) is not None:
            logits.fill_(torch.nan)

        def replay() -> None:
            self.replayed += 1
            work()
            if self._spoil(self.replayed) and (logits := self.logits()) is not None:
                logits.add_(5 * torch.randn_like(logits))

        return replay


def with_graphs(network: Any, backend: StandIn, capacity: int = 96) -> Context:
    context = Context(network, capacity, graphs=backend)
    graphs = context._graphs
    assert graphs
    backend.logits = lambda: graphs._logits
    return context


def answer(context: Context, rounds: int) -> list[Tensor]:
    """Logits of so many rounds of drafting: levels of a tree, a path that is kept, some of the rest beside it."""
    found = []
    for round_ in range(rounds):
        found += [context.score([token + round_ for token in tokens], parents) for tokens, parents in LEVELS]
        found.append(context.score([3 + round_, 4], [0, 9], last=1))
        context.keep([0, 2], [5, 6] if round_ % 2 else [])
        context.rewind(context.length)
    return found


def equal_in(plain: Context, graphed: Context, rounds: int) -> None:
    for context in (plain, graphed):
        context.prefill(PREFIX)
    for one, other in zip(answer(graphed, rounds), answer(plain, rounds), strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)
    assert graphed.tokens == plain.tokens
    assert graphed._graphs
    assert not graphed._graphs.is_plain


# gemma3: windows; gemma2: eager attention, to whose scores masks are added
@pytest.mark.parametrize("family", choose(["gemma3"], ["llama", "gemma3", "gemma2"]))
def test_recorded_passes_equal_plain_ones(family: str) -> None:
    network = tiny_network(family)
    graphed = with_graphs(network, backend := StandIn())
    equal_in(Context(network, 96), graphed, rounds=6)
    assert backend.recorded == 4  # rows 1, 2, 4 and 8
    assert backend.replayed == 4 * (6 - WARM_UPS)


def test_more_slots_are_recorded_once_while_trees_reach_over_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphed_passes, "SLOTS", 16)
    network = tiny_network("llama")
    graphed = with_graphs(network, backend := StandIn())
    equal_in(Context(network, 96), graphed, rounds=8)
    assert 4 <= backend.recorded <= 8
    assert backend.replayed >= 4 * (8 - 2 * WARM_UPS - 2)


def test_texts_of_different_lengths_that_take_turns_are_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphed_passes, "SLOTS", 16)
    network = tiny_network("llama")
    graphed, plain = with_graphs(network, backend := StandIn(), capacity=256), Context(network, 256)
    texts = [[3 + (token * 7) % 90 for token in range(length)] for length in (10, 90, 200)]
    recorded = []
    for _ in range(PLAIN + 2):
        for text in texts:
            for context in (graphed, plain):
                context.prefill(text)
            assert graphed.score([5], [-1]).argmax() == plain.score([5], [-1]).argmax()
            for context in (graphed, plain):
                context.rewind(context.length)
        recorded.append(backend.recorded)
    assert recorded[WARM_UPS] == recorded[-1] > 0
    for length in (40, 60):  # of five sizes the two that were used longest ago are forgotten
        graphed.prefill(texts[2][:length])
        graphed.score([5], [-1])
    assert graphed._graphs
    assert sorted(graphed._graphs._recorded) == [48, 64, 208]


def test_a_cache_that_moves_has_its_passes_recorded_anew() -> None:
    network = tiny_network("llama")
    graphed = with_graphs(network, backend := StandIn(), capacity=24)
    equal_in(Context(network, 24), graphed, rounds=6)
    assert graphed._cache.attention[0].capacity > 24
    assert backend.recorded >= 4


def scored(context: Context, times: int) -> None:
    for _ in range(times):
        context.score([5], [-1])
        context.rewind(context.length)


def test_a_backend_that_fails_leaves_passes_plain(caplog: pytest.LogCaptureFixture) -> None:
    network = tiny_network("llama")
    context, plain = (
        with_graphs(network, StandIn("operation not permitted when stream is capturing")),
        Context(network, 96),
    )
    for each in (context, plain):
        each.prefill(PREFIX)
    with caplog.at_level(logging.WARNING):
        scored(context, PLAIN + 1)
    assert context._graphs
    assert context._graphs.is_plain
    assert "operation not permitted" in caplog.text
    torch.testing.assert_close(context.score([5], [-1]), plain.score([5], [-1]))


@pytest.mark.parametrize("spoiled", [1, 2])
def test_a_graph_that_gives_other_numbers_is_given_up(spoiled: int, caplog: pytest.LogCaptureFixture) -> None:
    context = with_graphs(tiny_network("llama"), backend := StandIn(spoil=lambda replay: replay == spoiled))
    context.prefill(PREFIX)
    with caplog.at_level(logging.WARNING):
        scored(context, PLAIN + 1)
    assert "other numbers" in caplog.text
    assert backend.replayed == spoiled


def test_what_is_recorded_is_asked_whether_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    network = tiny_network("llama")
    context = Context(network, 96, lambda: asked.append(1), graphs=StandIn())
    context.prefill(PREFIX)
    asked.clear()
    scored(context, PLAIN)
    before = len(asked)
    monkeypatch.setattr(context._graphs, "_work", lambda _shape: None)
    scored(context, 1)
    assert len(asked) == before + 1


@pytest.mark.parametrize(
    ("family", "reason"), [("llama", ""), ("gemma3", ""), ("mixtral", "experts"), ("qwen3_5", "state")]
)
def test_networks_whose_passes_differ_in_kind_are_not_recorded(family: str, reason: str) -> None:
    network = tiny_network(family)
    found = why_not(network)
    assert reason in found
    assert bool(found) == bool(reason)
    context = Context(network, 96, graphs=StandIn())
    assert context._graphs
    assert context._graphs.is_plain == bool(reason)


class Graph:
    """As `torch.cuda.CUDAGraph`, which counts; a pool is gone with the last of its graphs."""

    log: ClassVar[list[object]] = []
    living: ClassVar[set[int]] = set()

    def capture_begin(self, pool: object, capture_error_mode: str) -> None:
        self.log.append(("begin", pool, capture_error_mode))
        if pool is not None and not self.living:
            raise RuntimeError("INTERNAL ASSERT FAILED")
        self.living.add(id(self))

    def __del__(self) -> None:
        self.living.discard(id(self))

    def capture_end(self) -> None:
        self.log.append("end")

    def replay(self) -> None:
        self.log.append("replay")

    def pool(self) -> str:
        return "pool"


def test_graphs_share_memory_and_let_other_threads_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "make_stream", lambda _device: "its own")
    monkeypatch.setattr(accelerator, "make_graph", lambda _device: Graph())

    def entered(stream: object) -> AbstractContextManager[None]:
        Graph.log.append(stream)
        return nullcontext()

    monkeypatch.setattr(accelerator, "on_stream", entered)
    monkeypatch.setattr(Graph, "log", [])

    def fails() -> None:
        raise RuntimeError("not permitted")

    graphs = CudaGraphs(torch.device("cuda"))
    graphs.record(lambda: Graph.log.append("work"))()
    with pytest.raises(RuntimeError, match="not permitted"):
        graphs.record(fails)
    first = ["its own", ("begin", None, "thread_local"), "work", "end", "replay"]
    assert Graph.log == [*first, "its own", ("begin", "pool", "thread_local"), "end"]


def test_graphs_that_were_all_dropped_leave_the_pool_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "make_stream", lambda _device: None)
    monkeypatch.setattr(accelerator, "make_graph", lambda _device: Graph())
    monkeypatch.setattr(accelerator, "on_stream", lambda _stream: nullcontext())
    monkeypatch.setattr(Graph, "log", [])
    graphs = CudaGraphs(torch.device("cuda"))
    for _ in range(3):
        graphs.record(lambda: None)()  # nobody keeps what launches it again
        gc.collect()
    assert [each for each in Graph.log if each not in ("end", "replay")] == [
        ("begin", None, "thread_local"), *[("begin", "pool", "thread_local")] * 2
    ]  # fmt: skip
