"""The absmax of every block in 8 bits instead of 32: bitsandbytes' `compress_statistics=True`.

Dettmers et al. 2023, "QLoRA", arXiv 2305.14314, section 3: the mean is taken off and kept, the rest is rounded to
Dettmers' dynamic 8-bit numbers (arXiv 1511.04561), 256 to a scale.
"""

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

GROUP = 256  # absmax values that share a scale
GRID = 65535  # bitsandbytes rounds to this many steps of [-1, 1] first and looks the rest up; so must we
SMALLEST_SCALE = 1e-38  # keeps 1 / scale finite


def groups_of(blocks: int) -> int:
    """How many scales `blocks` absmax values need."""
    return -(-blocks // GROUP)


def compress(absmax: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Round the block absmax of one matrix, float32 [blocks], to 8 bits.

    Returns, on the CPU: codes uint8 [blocks], scales float32 [groups], offset float32 [1]. Bytes are the same
    whatever the device and the number of threads.
    """
    absmax = absmax.cpu()
    offset = absmax.expand(2, -1).mean(dim=1)[:1]  # a sum to one number is split among threads, a row's sum is not
    groups = pad(absmax - offset, (0, -len(absmax) % GROUP)).view(-1, GROUP)
    scales = groups.abs().amax(dim=1, keepdim=True)
    unit = (groups * (1 / scales.clamp(min=SMALLEST_SCALE))).clamp_(-1, 1)
    steps = ((unit + 1) * 0.5 * GRID + 0.5).to(torch.int32)
    codes = _nearest_code().index_select(0, steps.view(-1)).view_as(groups)
    codes.masked_fill_(scales == 0, 0)
    return codes.view(-1)[: len(absmax)], scales.view(-1), offset


def restore(codes: Tensor, scales: Tensor, offset: Tensor) -> Tensor:
    """Undo `compress` for a stack of matrices: codes [matrices, blocks], scales [matrices, groups], offset
    [matrices, 1]; returns float32 [matrices * blocks] on the same device.
    """
    values = _dynamic_numbers(codes.device).index_select(0, codes.reshape(-1).int()).view(codes.shape)
    spread = scales[:, :, None].expand(-1, -1, GROUP).reshape(len(codes), -1)
    return values.mul_(spread[:, : codes.shape[1]]).add_(offset).view(-1)


@lru_cache
def _dynamic_numbers(device: torch.device) -> Tensor:
    """The 256 dynamic numbers in ascending order: seven decades, each with twice as many steps as the one below."""
    numbers = [0.0, 1.0]
    for doublings in range(7):
        edges = torch.linspace(0.1, 1, 2**doublings + 1)
        middles = 10 ** (doublings - 6) * ((edges[:-1] + edges[1:]) / 2)
        numbers += middles.tolist() + (-middles).tolist()
    return torch.tensor(sorted(numbers), device=device)


@lru_cache(maxsize=1)
def _nearest_code() -> Tensor:
    """For every step of the grid, which dynamic number is the nearest; uint8 [65536]."""
    numbers = _dynamic_numbers(torch.device("cpu"))
    steps = -1 + 2.0 * torch.arange(GRID + 1, dtype=torch.float32) / GRID
    return torch.bucketize(steps, (numbers[:-1] + numbers[1:]) * 0.5).to(torch.uint8)
