"""NF4 and FP4 numbers from their codes: by bitsandbytes' kernel on CUDA where it is there and right, else by table."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from engine.model.decoding.chunks import in_chunks
from engine.model.decoding.compiled import fused
from engine.model.decoding.lookup import sixteen_levels, unpack

KINDS = ("nf4", "fp4")
KERNEL_WEIGHTS = 1 << 30  # per call: the kernel counts in 32 bits
LEAST_CAPABILITY = (6, 0)  # of the cards that bitsandbytes' kernels are built for
TRIED_TYPES = (torch.float32, torch.bfloat16, torch.float16)
TRIED_BLOCK = 64

Unpack = Callable[[str, int, Tensor, Tensor, Tensor], None]
"""(kind, block, codes uint8 [weights / 2], absmax float32 [weights / block], out [weights]), flat, contiguous and on
one device: writes level times absmax, multiplied in float32 and rounded once to `out`'s number type."""


@lru_cache
def unpacking_for(kind: str, device: torch.device) -> Unpack:
    """The fastest way to unpack on a device; bitsandbytes is imported only for CUDA."""
    return unpack_by_kernel if has_kernel(device) and kernel_agrees(kind, device) else unpack_by_table


def has_kernel(device: torch.device) -> bool:
    """Whether bitsandbytes' kernels are surely built for a device: where they are not, a launch ends the process.

    On AMD's cards it depends on the build, so none is tried there.
    """
    if device.type != "cuda" or torch.version.hip:
        return False
    return torch.cuda.get_device_capability(device) >= LEAST_CAPABILITY


def unpack_by_table(kind: str, block: int, codes: Tensor, absmax: Tensor, out: Tensor) -> None:
    """`Unpack` with torch alone: on CUDA in one compiled kernel, where there is a compiler."""
    pairs, blocks = codes.view(-1, block // 2), out.view(-1, block)
    step = fused(scaled_levels, out.device) if out.is_cuda else _by_bytes

    def decode(rows: slice) -> None:
        blocks[rows].copy_(step(pairs[rows], absmax[rows], kind))

    in_chunks(decode, len(blocks), block, out.device)


def scaled_levels(pairs: Tensor, absmax: Tensor, kind: str) -> Tensor:
    """Levels of the codes uint8 [blocks, bytes], of which the high one is first, times absmax [blocks]: float32.

    For a compiler, which makes one kernel of it; the lookup of whole bytes writes all numbers twice more.
    """
    codes = torch.stack([pairs >> 4, pairs & 15], dim=2).flatten(1)
    return sixteen_levels(kind, pairs.device)[codes.int()] * absmax[:, None]


def _by_bytes(pairs: Tensor, absmax: Tensor, kind: str) -> Tensor:
    return unpack(pairs, kind, high_first=True).mul_(absmax[:, None])


def unpack_by_kernel(kind: str, block: int, codes: Tensor, absmax: Tensor, out: Tensor) -> None:
    """`Unpack` with bitsandbytes' CUDA kernel, on the current stream and straight into `out`."""
    for begin in range(0, len(out), KERNEL_WEIGHTS):
        end = min(begin + KERNEL_WEIGHTS, len(out))
        torch.ops.bitsandbytes.dequantize_4bit.out(
            codes[begin // 2 : end // 2],
            absmax[begin // block : end // block],
            block,
            kind,
            [end - begin],
            out.dtype,
            out=out[begin:end],
        )


def kernel_agrees(kind: str, device: torch.device) -> bool:
    """Whether bitsandbytes is there and gives, on this device, the table's bits for every pair of codes."""
    codes = torch.arange(256, dtype=torch.uint8, device=device)
    absmax = torch.linspace(0.01, 3, 512 // TRIED_BLOCK, device=device)
    for dtype in TRIED_TYPES:
        found, expected = (torch.zeros(512, dtype=dtype, device=device) for _ in range(2))
        try:
            import bitsandbytes  # noqa: F401, PLC0415  # seconds long, and only here: it registers the operators

            unpack_by_kernel(kind, TRIED_BLOCK, codes, absmax, found)
            # What went wrong in a kernel is raised by whatever is launched, or waits for the device, behind it.
            unpack_by_table(kind, TRIED_BLOCK, codes, absmax, expected)
            agrees = torch.equal(found.view(torch.uint8), expected.view(torch.uint8))
        except (ImportError, AttributeError, OSError, RuntimeError):
            return False
        if not agrees:
            return False
    return True
