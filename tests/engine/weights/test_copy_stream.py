"""How copies are launched on an accelerator: behind what they must wait for, and waited for asleep."""

from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import accelerator
from engine.weights.streaming.copy_stream import CudaCopyStream


class Steps:
    """What was done on the accelerator, in its order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        steps, copy = self.done, Tensor.copy_

        class Stream:
            def wait_event(self, event: str) -> None:
                steps.append(f"wait for {event}")

        class Event:
            def record(self, stream: Any) -> None:
                assert isinstance(stream, Stream)
                steps.append("mark")

            def synchronize(self) -> None:
                steps.append("sleep")

        @contextmanager
        def on_stream(stream: Any) -> Any:
            assert isinstance(stream, Stream)
            steps.append("begin")
            yield
            steps.append("end")

        def copied(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
            steps.append("copy" if non_blocking else "copy and wait")
            return copy(target, source)

        monkeypatch.setattr(accelerator, "make_stream", lambda _device: Stream())
        monkeypatch.setattr(accelerator, "on_stream", on_stream)
        monkeypatch.setattr(accelerator, "make_event", lambda _device: Event())
        monkeypatch.setattr(Tensor, "copy_", copied)


def test_a_copy_waits_on_its_stream_and_the_host_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    copy_stream = CudaCopyStream(torch.device("cuda"))
    source, target = torch.ones(3), torch.zeros(3)
    copy_stream.copy(source, target, "an event")
    assert steps.done == ["begin", "wait for an event", "copy", "mark", "end", "sleep"]
    assert torch.equal(source, target)


def test_what_is_only_started_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    copy_stream = CudaCopyStream(torch.device("cuda"))
    arrivals = [copy_stream.start(torch.ones(3), torch.zeros(3), None) for _ in range(3)]
    assert steps.done == ["begin", "copy", "mark", "end"] * 3
    arrivals[-1].synchronize()
    assert steps.done[-1:] == ["sleep"]
    assert steps.done.count("sleep") == 1


def test_an_event_that_the_host_waits_for_lets_it_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(torch.cuda, "Event", lambda **flags: made.append(flags))
    accelerator.make_event(torch.device("cuda"))
    assert made == [{"enable_timing": False, "blocking": True}]


def test_experts_get_a_stream_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "make_stream", lambda _device: object())
    one = CudaCopyStream(torch.device("cuda"))
    assert one.another()._stream is not one._stream
