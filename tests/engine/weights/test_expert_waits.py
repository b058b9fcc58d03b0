"""How often the host waits for the device because of experts, and whose time is told."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import accelerator
from engine.weights.streaming.copy_stream import Arrival
from engine.weights.streaming.experts.clocks import DeviceClock, HostClock, PendingTimes, clock_for
from engine.weights.streaming.experts.stream import ExpertStream, used_experts
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_expert_stream import PLENTY, ROWS, Mixture, always, lasting_qwen, passes, qwen
from tests.engine.weights.test_layer_stream import assert_same

__all__ = ["lasting_qwen", "qwen"]  # fixtures

WAITS = ("tolist", "item", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__index__", "__float__")


class CountingCopyStream(StandInCopyStream):
    """One whose copies are there when somebody waits; `own`: the one that was made of it for experts."""

    def __init__(self) -> None:
        super().__init__()
        self.started = self.waits = 0
        self.own: CountingCopyStream | None = None
        self._latest: Arrival | None = None

    def another(self) -> StandInCopyStream:
        assert self.own is None
        self.own = CountingCopyStream()
        return self.own

    def start(self, source: Tensor, target: Tensor, after: Any) -> Arrival:
        assert after is not None
        self.started += 1
        self._latest = super().start(source, target, after)
        return self

    def synchronize(self) -> None:
        self.waits += 1
        assert self._latest is not None
        self._latest.synchronize()


def test_experts_have_a_way_of_their_own_and_all_of_a_layer_are_waited_for_once(qwen: Mixture) -> None:
    copy_stream = CountingCopyStream()
    stream = qwen.stream(qwen.layouts, ["ram"] * 4, copy_stream, expert_cache_bytes=PLENTY, choose=always)
    assert_same(passes(qwen.context), qwen.expected)
    stream.close()
    own = copy_stream.own
    assert own is not None
    assert 0 < own.waits <= 4 * (len(ROWS) + 1), "once for each layer of each pass"
    assert own.started > 2 * own.waits, "of experts in several parts"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was called of a tensor, while experts were bound, that has the host wait for a device."""
    found: list[str] = []
    inside = threading.local()
    bind = ExpertStream._bind

    def watched(*arguments: Any) -> Tensor | None:
        inside.is_binding = True
        try:
            return bind(*arguments)
        finally:
            inside.is_binding = False

    def counted(name: str) -> Callable[..., Any]:
        call = getattr(Tensor, name)

        def count(tensor: Tensor, *arguments: Any) -> Any:
            if getattr(inside, "is_binding", False):
                found.append(name)
            return call(tensor, *arguments)

        return count

    monkeypatch.setattr(ExpertStream, "_bind", watched)
    for name in WAITS:
        monkeypatch.setattr(Tensor, name, counted(name))
    monkeypatch.setattr(torch, "unique", None)
    return found


def test_the_host_waits_once_a_layer_to_know_which_experts_were_chosen(qwen: Mixture, waits: list[str]) -> None:
    stream = qwen.stream(qwen.layouts, ["ram"] * 4, StandInCopyStream(), expert_cache_bytes=PLENTY, choose=always)
    passes(qwen.context)
    assert waits == ["tolist"] * 4 * (len(ROWS) + 1)
    stream.close()


def test_whole_layers_are_never_waited_for_that_way(qwen: Mixture, waits: list[str]) -> None:
    stream = qwen.stream(
        qwen.layouts, ["ram"] * 4, StandInCopyStream(), expert_cache_bytes=PLENTY, choose=lambda _: "whole"
    )
    passes(qwen.context)
    assert waits == []
    stream.close()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_the_experts_that_are_used_are_numbered_anew(dtype: torch.dtype) -> None:
    for rows in (1, 3, 40):
        choice = torch.randint(0, 16, (rows, 4), generator=torch.Generator().manual_seed(rows)).to(dtype)
        used, numbers = torch.unique(choice, return_inverse=True)
        is_used, renumbered = used_experts(choice, 16)
        assert is_used.nonzero().view(-1).tolist() == used.tolist()
        assert torch.equal(renumbered, numbers)


# ---- clocks ---------------------------------------------------------------------------------------------------------


class Device:
    """Work that it is told to do, in milliseconds, and events among it; it does nothing by itself."""

    def __init__(self) -> None:
        self.launched = self.done = 0.0

    def record(self, _device: torch.device, timed: bool = False) -> "Place":
        assert timed
        return Place(self)


class Place:
    def __init__(self, device: Device) -> None:
        self._device, self.at = device, device.launched

    def query(self) -> bool:
        return self.at <= self._device.done

    def elapsed_time(self, end: "Place") -> float:
        assert end.query(), "torch raises for events that were not passed"
        return end.at - self.at


def test_the_time_of_a_device_is_told_once_it_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    monkeypatch.setattr(accelerator, "record_event", device.record)
    clock = clock_for(torch.device("cuda"))
    assert isinstance(clock, DeviceClock)
    times = PendingTimes(clock)
    told: list[float] = []
    for milliseconds in (3, 5, 7):
        begin = clock.mark()
        device.launched += milliseconds
        middle = clock.mark()
        device.launched += 1000  # of something else
        again = clock.mark()
        device.launched += 1
        times.add([(begin, middle), (again, clock.mark())], told.append)
        assert told == [], "launching took no time at all"
    device.done = device.launched - 1  # all but the last
    begin = clock.mark()
    times.add([(begin, begin)], told.append)
    assert told == pytest.approx([0.004, 0.006])
    device.done = device.launched
    times.add([(begin, begin)], told.append)
    assert told == pytest.approx([0.004, 0.006, 0.008, 0, 0])


def test_the_time_of_a_processor_is_told_at_once() -> None:
    clock = clock_for(torch.device("cpu"))
    assert isinstance(clock, HostClock)
    told: list[float] = []
    PendingTimes(clock).add([(1.0, 1.5), (7.0, 7.25)], told.append)
    assert told == [0.75]
