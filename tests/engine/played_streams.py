"""Streams and events of the played GPU: copies beside the computation happen at the last moment that is allowed.

The stream that computes does its work at once. On every other stream a copy is queued, and done only when the host, or
the computation, waits for an event behind it; it must itself wait for an event behind the last use of its target.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from tests.engine.weights.slot_watch import poison
from tests.engine.weights.stand_in import computation


class PlayedStream:
    """A queue of copies. `passed`: how much of the computation is over before the next of them begins."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.device = torch.device("cuda", 0)
        self.passed = 0
        self.copies = 0
        self._queue: list[Callable[[], object]] = []
        self._lock = threading.RLock()

    @property
    def queued(self) -> int:
        """All copies that were ever queued."""
        return self.copies + len(self._queue)

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Queue a copy of a host's tensor into memory of the device; both as the host holds them."""
        if playing := computation():
            playing.watch.require_passed(target, self.passed)
        poison(target)
        with self._lock:
            self._queue.append(lambda: target.copy_(source))

    def finish(self, copies: int) -> None:
        """Do the first so many of all that were ever queued."""
        with self._lock:
            while self.copies < copies:
                self._queue.pop(0)()
                self.copies += 1

    def wait_event(self, event: "PlayedEvent") -> None:
        """Go on behind the event."""
        if event.stream is COMPUTING:
            self.passed = max(self.passed, event.passed)
        else:
            event.finish()

    def wait_stream(self, other: "PlayedStream") -> None:
        """Go on behind all that the other stream was given until now."""
        self.wait_event(other.record_event())

    def record_event(self, event: "PlayedEvent | None" = None) -> "PlayedEvent":
        """An event behind all that was given to this stream until now."""
        event = event or PlayedEvent()
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Wait for all of it."""
        self.finish(self.queued)

    def query(self) -> bool:
        """Whether nothing is left to do."""
        return self.copies == self.queued


class PlayedEvent:
    """A place in a stream."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.stream = COMPUTING
        self.passed = 0
        self._copies = 0

    def record(self, stream: PlayedStream | None = None) -> None:
        """Behind all that the stream was given until now."""
        self.stream = stream or current_stream()
        playing = computation()
        self.passed = playing.watch.clock if playing and self.stream is COMPUTING else self.stream.passed
        self._copies = self.stream.queued

    def finish(self) -> None:
        """What stands before it is done."""
        self.stream.finish(self._copies)

    def synchronize(self) -> None:
        """Wait for it; a copy is not there before the computation has nothing else to do."""
        playing = computation()
        if playing and self.stream is not COMPUTING:
            playing.until_it_waits()
        self.finish()

    def wait(self, stream: PlayedStream | None = None) -> None:
        """Have a stream wait for it."""
        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        """Whether it has been reached."""
        return self.stream.copies >= self._copies

    def elapsed_time(self, _later: "PlayedEvent") -> float:
        """Nothing takes time here."""
        return 0.0


COMPUTING = PlayedStream()
_current = threading.local()


def current_stream(_device: object = None) -> PlayedStream:
    """Of this thread."""
    found: PlayedStream = getattr(_current, "stream", COMPUTING)
    return found


@contextmanager
def on_stream(stream: PlayedStream | None) -> Iterator[None]:
    """As `torch.cuda.stream`."""
    before = current_stream()
    _current.stream = stream or before
    try:
        yield
    finally:
        _current.stream = before


class PlayedRuntime:
    """Of CUDA itself: whatever it is asked for succeeds."""

    def __getattr__(self, _name: str) -> Callable[..., int]:
        return lambda *_args: 0


def runtime() -> dict[str, Any]:
    """What stands in `torch.cuda` while a GPU is played."""
    return {
        "Stream": PlayedStream,
        "Event": PlayedEvent,
        "stream": on_stream,
        "current_stream": current_stream,
        "default_stream": lambda _device=None: COMPUTING,
        "cudart": PlayedRuntime,
        "get_device_capability": lambda _device=None: (8, 0),
        "is_bf16_supported": lambda *_args, **_kwargs: True,
        "empty_cache": lambda: None,
    }
