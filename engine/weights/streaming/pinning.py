"""Pinned memory, which a device copies from by itself: how it is registered, and as much of it as the system gives."""

from contextlib import suppress
from typing import Any, Protocol

import torch
from torch import Tensor


class Pinning(Protocol):
    """Makes memory of the host pinned."""

    def pin(self, memory: Tensor) -> bool:
        """Whether the system let it be pinned; False leaves everything as it was."""

    def unpin(self, memory: Tensor) -> None:
        """Undo a `pin` that returned True, of the same memory."""


class CudaPinning:
    """Through the runtime of CUDA or ROCm, for memory that is there already."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def pin(self, memory: Tensor) -> bool:
        """See `Pinning.pin`. Windows gives about half of the RAM, and less to a process that holds much; WSL 1 GB."""
        if int(_runtime().cudaHostRegister(memory.data_ptr(), memory.nbytes, 0)) == 0:
            return True
        self._clear_error()
        return False

    def unpin(self, memory: Tensor) -> None:
        """See `Pinning.unpin`."""
        if int(_runtime().cudaHostUnregister(memory.data_ptr())) != 0:
            self._clear_error()

    def _clear_error(self) -> None:
        """Forget the error, which the runtime keeps for this thread and the next kernel would report as its own.

        torch's binding hands the code over and leaves it kept (torch/csrc/cuda/shared/cudart.cpp). Where the runtime's
        own function is not bound, a kernel of torch's asks for it behind its launch, raises, and it is forgotten
        (`C10_CUDA_KERNEL_LAUNCH_CHECK` in c10/cuda/CUDAException.h, by ATen/native/cuda/CUDALoops.cuh).
        """
        forget = getattr(_runtime(), "cudaGetLastError", None)
        if forget:
            forget()
            return
        with suppress(RuntimeError):
            _launch_kernel(self._device)


class PinnedBudget:
    """A `Pinning` that finds out how much the system gives: after it was refused once, it asks no more.

    What others pin later (torch's own buffers, the driver's) needs some of what is left.
    """

    def __init__(self, pinning: Pinning) -> None:
        self._pinning = pinning
        self._is_spent = False

    def pin(self, memory: Tensor) -> bool:
        """See `Pinning.pin`."""
        self._is_spent = self._is_spent or not self._pinning.pin(memory)
        return not self._is_spent

    def unpin(self, memory: Tensor) -> None:
        """See `Pinning.unpin`."""
        self._pinning.unpin(memory)


def pinning_for(device: torch.device) -> Pinning | None:
    """How memory is pinned for copies to a device; None where that is of no use, or not possible."""
    return CudaPinning(device) if device.type == "cuda" else None


def _runtime() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


def _launch_kernel(device: torch.device) -> None:
    torch.empty(1, device=device).fill_(1)  # zeros would be written without a kernel
