"""Small tensors to a GPU that is receiving weights: a kernel fetches them, so that they need not wait for a layer.

A copy engine serves what it is given in turn. The few numbers that a draft's next level or a sampler needs would wait
there until the layer under way has arrived, 20 ms for a gigabyte over PCI Express 5, ten times a round. So the host
writes them into pinned memory that the GPU sees at the same address (CUDA C++ Programming Guide, "Unified Virtual
Addressing"), and a kernel on the stream that needs them reads it from there.
"""

import logging
import threading
from typing import TYPE_CHECKING, Any

from engine import accelerator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

HALF_BYTES = 4 << 20  # of pinned memory; larger tensors are copied as usual
UNIT = 16  # bytes, which tensors begin at multiples of
_log = logging.getLogger(__name__)


def sent(
    values: "Sequence[int] | Sequence[float]", device: "torch.device", dtype: "torch.dtype | None" = None
) -> "Tensor":
    """The numbers as a tensor [n] on any device, int64 by default; what is queued there already goes on.

    `torch.tensor(..., device=device)` waits until the device has done all of that.
    """
    import torch  # noqa: PLC0415

    return moved(torch.tensor(values, dtype=dtype or torch.int64), device)


def moved(tensor: "Tensor", device: "torch.device") -> "Tensor":
    """A tensor of the host on any device, for work on the current stream; `tensor` may change as soon as this returns.

    On the host it is the same one. A small copy that need not block is staged by the driver before the call returns.
    """
    if device.type == "cuda" and tensor.device.type == "cpu" and 0 < tensor.nbytes <= HALF_BYTES:
        mailbox = _mailbox_of(accelerator.current_stream(device))
        if mailbox is not None:
            return mailbox.send(tensor)
    return tensor.to(device, non_blocking=True)


class Mailbox:
    """Pinned memory in two halves, from which kernels of one stream fetch; one half is written once more only when all
    that was fetched from it is there.
    """

    def __init__(self, device: "torch.device") -> None:
        """Raises `RuntimeError` where memory cannot be pinned, or the device does not see it."""
        import torch  # noqa: PLC0415

        self._device = device
        self._host = torch.empty(2 * HALF_BYTES, dtype=torch.uint8, pin_memory=True)
        self._seen = torch.as_tensor(_SameAddress(self._host), device=device).view(torch.int64)
        self._half = self._used = 0
        self._read: list[accelerator.Event | None] = [None, None]
        self._lock = threading.Lock()

    def send(self, tensor: "Tensor") -> "Tensor":
        """The tensor on the device; of at most `HALF_BYTES`, and not empty."""
        import torch  # noqa: PLC0415

        size = -(-tensor.nbytes // UNIT) * UNIT
        with self._lock:
            if self._used + size > HALF_BYTES:
                self._turn()
            begin = self._half * HALF_BYTES + self._used
            self._used += size
            self._host[begin : begin + tensor.nbytes].copy_(tensor.contiguous().view(-1).view(torch.uint8))
            # No copy: between two addresses of a device that would be the copy engine's again.
            fetched = self._seen[begin // 8 : (begin + size) // 8].bitwise_or(0)
        return fetched.view(torch.uint8)[: tensor.nbytes].view(tensor.dtype).view(tensor.shape)

    def _turn(self) -> None:
        self._read[self._half] = accelerator.record_event(self._device)
        self._half, self._used = 1 - self._half, 0
        if event := self._read[self._half]:
            event.synchronize()


class _SameAddress:
    """Pinned memory as a device's array: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html"""

    def __init__(self, host: "Tensor") -> None:
        self.__cuda_array_interface__ = {
            "shape": (len(host),), "typestr": "|u1", "data": (host.data_ptr(), False), "version": 3
        }  # fmt: skip


_mailboxes: dict[int, Mailbox | None] = {}  # by stream; None where there can be none


def _mailbox_of(stream: Any) -> Mailbox | None:
    number = getattr(stream, "cuda_stream", None)
    if number is None:  # a stand-in for a GPU
        return None
    if number not in _mailboxes:
        try:
            _mailboxes[number] = Mailbox(stream.device)
        except Exception as error:  # noqa: BLE001  # drivers and torch's versions differ; copies are only slower
            _mailboxes[number] = None
            _log.warning("Small copies go through the copy engine: %s", error)
    return _mailboxes[number]
