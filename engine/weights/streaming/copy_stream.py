"""Copies from host memory to the compute device, who waits for whom on the way, and how fast bytes come."""

from typing import Any, Protocol

import torch
from torch import Tensor

KEPT = 0.98  # how much every figure counts when the next one comes: the last fifty decide


class Lane(Protocol):
    """Copies to a device that computes on its own; tests put a stand-in here."""

    device: torch.device

    def buffer(self, nbytes: int) -> Tensor:
        """uint8 [nbytes] of the device's memory."""

    def computed(self) -> Any:
        """A mark behind all computation that was asked for until now."""

    def copy(self, source: Tensor, target: Tensor, after: Any) -> None:
        """Copy once the device has passed the mark `after` (None: at once); returns when the bytes are there."""


class CudaLane:
    """A copy stream of its own, so that layers arrive while others are computed."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def buffer(self, nbytes: int) -> Tensor:
        """uint8 [nbytes] of the GPU's memory."""
        return torch.empty(nbytes, dtype=torch.uint8, device=self.device)

    def computed(self) -> torch.cuda.Event:
        """An event on the stream that computes."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def copy(self, source: Tensor, target: Tensor, after: torch.cuda.Event | None) -> None:
        """Copy on the copy stream. Waiting for the end costs some 20 us a layer, and spares every reader an event."""
        with torch.cuda.stream(self._stream):
            if after is not None:
                self._stream.wait_event(after)
            target.copy_(source, non_blocking=True)
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record(self._stream)
        arrived.synchronize()


class Flow:
    """A running rate. Slow pieces count by their time, so that a moment's stall does not pass for the way's pace."""

    def __init__(self) -> None:
        self._bytes = self._seconds = 0.0

    def add(self, nbytes: int, seconds: float) -> None:
        """So many bytes came in this time."""
        self._bytes = KEPT * self._bytes + nbytes
        self._seconds = KEPT * self._seconds + seconds

    @property
    def bytes_per_second(self) -> float:
        """0 as long as nothing came."""
        return self._bytes / self._seconds if self._seconds > 0 else 0.0
