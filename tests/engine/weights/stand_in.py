"""A device that computes on its own, played by the host: what a GPU's lane must get right fails here too."""

import random
import threading
import time
from typing import Any

import torch
from torch import Tensor

from engine.weights.streaming.copy_stream import Arrival


class Arrived:
    """A copy that is done."""

    def synchronize(self) -> None:
        """Nothing to wait for."""


class StandInCopyStream:
    """Copies with a delay, checks that nobody copies into a slot that computation has not passed."""

    device = torch.device("cpu")

    def __init__(self, seed: int = 0, fail_at: int | None = None) -> None:
        self.copies = 0
        self.peak_bytes = 0
        self._chance = random.Random(seed)
        self._fail_at = fail_at
        self._computed = 0
        self._lock = threading.Lock()

    def another(self) -> "StandInCopyStream":
        """The same one: it counts for both."""
        return self

    def allocate(self, nbytes: int) -> Tensor:
        self.peak_bytes += nbytes
        return torch.full((nbytes,), 0xAA, dtype=torch.uint8)  # whoever reads too early reads nonsense

    def record_event(self) -> Any:
        with self._lock:
            self._computed += 1
            return self._computed

    def start(self, source: Tensor, target: Tensor, after: Any) -> Arrival:
        """Copy now: nobody may read it before the arrival, and it may have arrived by then."""
        self.copy(source, target, after)
        return Arrived()

    def copy(self, source: Tensor, target: Tensor, after: Any) -> None:
        with self._lock:
            assert after is None or after <= self._computed, "a mark that was never set"
            self.copies += 1
            if self.copies == self._fail_at:
                raise RuntimeError("the copy engine failed")
        time.sleep(self._chance.random() * 0.002)
        target.copy_(source)
