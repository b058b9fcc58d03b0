"""Copies from host memory to the compute device on a stream of their own, and how fast bytes arrive."""

from typing import Any, Protocol

import torch
from torch import Tensor

from engine import accelerator

DECAY = 0.98  # per transfer: about the last fifty count; shared disks are now fast, now slow


class Arrival(Protocol):
    """A copy that was started."""

    def synchronize(self) -> None:
        """Return when its bytes are there, and those of all copies that the same stream began before it."""


class CopyStream(Protocol):
    """Copies to a device that computes asynchronously; tests put a stand-in here."""

    device: torch.device

    def another(self) -> "CopyStream":
        """One more to the same device, whose copies do not queue behind those of this one."""

    def allocate(self, nbytes: int) -> Tensor:
        """uint8 [nbytes] of the device's memory.

        Earlier work of the compute stream may still use it: a copy must not go there before an event recorded now.
        """

    def record_event(self) -> Any:
        """An event on the compute stream, after all work launched until now."""

    def start(self, source: Tensor, target: Tensor, after: Any) -> Arrival:
        """Begin to copy once the device has passed the event `after` (None: at once); `source` must stay as it is."""

    def copy(self, source: Tensor, target: Tensor, after: Any) -> None:
        """The same, and return when the bytes are there."""


class CudaCopyStream:
    """A stream of an accelerator beside the compute stream, so that layers are copied while others are computed."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = accelerator.make_stream(device)

    def another(self) -> "CudaCopyStream":
        """See `CopyStream.another`."""
        return CudaCopyStream(self.device)

    def allocate(self, nbytes: int) -> Tensor:
        """See `CopyStream.allocate`."""
        return torch.empty(nbytes, dtype=torch.uint8, device=self.device)

    def record_event(self) -> accelerator.Event:
        """See `CopyStream.record_event`."""
        return accelerator.record_event(self.device)

    def start(self, source: Tensor, target: Tensor, after: Any) -> accelerator.Event:
        """See `CopyStream.start`. The processor sleeps while it waits for the event that this returns."""
        with accelerator.on_stream(self._stream):
            if after is not None:
                self._stream.wait_event(after)
            target.copy_(source, non_blocking=True)
            arrived = accelerator.make_event(self.device)
            arrived.record(self._stream)
        return arrived

    def copy(self, source: Tensor, target: Tensor, after: Any) -> None:
        """See `CopyStream.copy`. Waiting for the end costs some 20 us a layer, and saves every reader an event."""
        self.start(source, target, after).synchronize()


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
