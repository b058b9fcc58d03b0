"""What goes from the host to a device in a round, without waiting for the device; and where reading back is free."""

from collections.abc import Sequence

import torch
from torch import Tensor


def sent(values: Sequence[int] | Sequence[float], device: torch.device, dtype: torch.dtype = torch.int64) -> Tensor:
    """The numbers as a tensor [n] on `device`; what is queued there already goes on.

    `torch.tensor(..., device=device)` waits until the device has done all of that. A small copy that need not block is
    staged by the driver before the call returns, so the host's memory may go at once.
    """
    return torch.tensor(values, dtype=dtype).to(device, non_blocking=True)


def reads_are_free(device: torch.device) -> bool:
    """Whether the host may look at a tensor without waiting for anything."""
    return device.type == "cpu"
