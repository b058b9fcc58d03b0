"""Copies from host memory to the compute device on a stream of their own, and how fast bytes arrive."""

from typing import Any, Protocol

import torch
from torch import Tensor

DECAY = 0.98  # per transfer: about the last fifty count; shared disks are now fast, now slow


class CopyStream(Protocol):
    """Copies to a device that computes asynchronously; tests put a stand-in here."""

    device: torch.device

    def allocate(self, nbytes: int) -> Tensor:
        """uint8 [nbytes] of the device's memory."""

    def record_event(self) -> Any:
        """An event on the compute stream, after all work launched until now."""

    def copy(self, source: Tensor, target: Tensor, after: Any) -> None:
        """Copy once the device has passed the event `after` (None: at once); returns when the bytes are there."""


class CudaCopyStream:
    """A CUDA stream beside the compute stream, so that layers are copied while others are computed."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def allocate(self, nbytes: int) -> Tensor:
        """uint8 [nbytes] of the GPU's memory."""
        return torch.empty(nbytes, dtype=torch.uint8, device=self.device)

    def record_event(self) -> torch.cuda.Event:
        """See `CopyStream.record_event`."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def copy(self, source: Tensor, target: Tensor, after: torch.cuda.Event | None) -> None:
        """See `CopyStream.copy`. Waiting for the end costs some 20 us a layer, and saves every reader an event."""
        with torch.cuda.stream(self._stream):
            if after is not None:
                self._stream.wait_event(after)
            target.copy_(source, non_blocking=True)
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record(self._stream)
        arrived.synchronize()


class Throughput:
    """An exponentially weighted rate: bytes over seconds, so that a short stall counts by its time alone."""

    def __init__(self) -> None:
        self._bytes = self._seconds = 0.0

    def add(self, nbytes: int, seconds: float) -> None:
        """A transfer of `nbytes` took `seconds`."""
        self._bytes = DECAY * self._bytes + nbytes
        self._seconds = DECAY * self._seconds + seconds

    @property
    def bytes_per_second(self) -> float:
        """0 until the first transfer."""
        return self._bytes / self._seconds if self._seconds > 0 else 0.0
