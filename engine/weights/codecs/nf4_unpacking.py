"""NF4 codes back to weights: by table on any device, by bitsandbytes' kernel on CUDA, the same bits either way."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from engine.weights.codecs.compressible import chunk_weights

BLOCK = 64  # weights that share an absmax
KERNEL_WEIGHTS = 1 << 30  # per call: the kernel counts in 32 bits
LEVELS = torch.tensor(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ]
)

Unpack = Callable[[Tensor, Tensor, Tensor], None]
"""(codes int16 [weights / 4], absmax float32 [weights / 64], out [weights]), flat and on one device: writes level times
absmax, multiplied in float32 and rounded once to `out`'s number type."""


@lru_cache
def unpacking_for(device: torch.device) -> Unpack:
    """The fastest way to unpack on a device; bitsandbytes is imported only for CUDA."""
    if device.type == "cuda" and kernel_agrees(device):
        return unpack_by_kernel
    return unpack_by_table


def unpack_by_table(codes: Tensor, absmax: Tensor, out: Tensor) -> None:
    """`Unpack` with plain torch: two bytes, which are four weights, are looked up at a time.

    `gather` is the fastest of torch's lookups on a CPU, and the only one that shares rows among threads.
    """
    blocks = min(chunk_weights(out.device) // BLOCK, len(absmax))
    table = _four_levels(out.device).expand(blocks, -1)
    index = torch.empty(blocks, BLOCK // 4, dtype=torch.int64, device=out.device)
    fours = torch.empty(blocks, BLOCK // 4, dtype=torch.complex128, device=out.device)
    whole = codes.view(torch.uint16).view(-1, BLOCK // 4), absmax, out.view(-1, BLOCK)
    chunks = (torch.split(tensor, blocks) for tensor in whole)
    for pairs, scales, weights in zip(*chunks, strict=True):
        count = len(scales)
        index[:count].copy_(pairs)
        torch.gather(table[:count], 1, index[:count], out=fours[:count])
        weights.copy_(fours[:count].view(torch.float32).mul_(scales[:, None]))


def unpack_by_kernel(codes: Tensor, absmax: Tensor, out: Tensor) -> None:
    """`Unpack` with bitsandbytes' CUDA kernel, on the current stream and straight into `out`."""
    for begin in range(0, len(out), KERNEL_WEIGHTS):
        end = min(begin + KERNEL_WEIGHTS, len(out))
        torch.ops.bitsandbytes.dequantize_4bit.out(
            codes[begin // 4 : end // 4].view(torch.uint8),
            absmax[begin // BLOCK : end // BLOCK],
            BLOCK,
            "nf4",
            [end - begin],
            out.dtype,
            out=out[begin:end],
        )


@lru_cache
def _four_levels(device: torch.device) -> Tensor:
    """The four weights that two bytes, read as one number, stand for: complex128 [65536], a 16-byte item that holds
    four float32.
    """
    two_bytes = torch.arange(1 << 16).to(torch.uint16).view(torch.uint8).view(-1, 2).int()
    nibbles = torch.stack([two_bytes >> 4, two_bytes & 15], dim=2)
    return LEVELS[nibbles.view(-1)].view(torch.complex128).to(device)


def kernel_agrees(device: torch.device) -> bool:
    """Tell whether bitsandbytes is there and gives, on this device, the table's numbers for every pair of codes."""
    codes = torch.arange(256, dtype=torch.uint8, device=device).view(torch.int16)
    absmax = torch.linspace(0.01, 3, 512 // BLOCK, device=device)
    found, expected = (torch.zeros(512, dtype=torch.bfloat16, device=device) for _ in range(2))
    try:
        import bitsandbytes  # noqa: F401, PLC0415  # seconds long, and only here: it registers the operators

        unpack_by_kernel(codes, absmax, found)
    except (ImportError, AttributeError, OSError, RuntimeError):
        return False
    unpack_by_table(codes, absmax, expected)
    return torch.equal(found, expected)
