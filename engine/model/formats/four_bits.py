"""NF4 and FP4 numbers from their codes: by bitsandbytes' kernel on CUDA where it is there and right, else by table."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from engine.model.formats.chunks import in_chunks
from engine.model.formats.lookup import unpack

LEVELS = {
    "nf4": (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
    "fp4": (
        0.0, 0.0052083334885537624, 0.6666666865348816, 1.0, 0.3333333432674408, 0.5, 0.1666666716337204, 0.25,
        -0.0, -0.0052083334885537624, -0.6666666865348816, -1.0, -0.3333333432674408, -0.5, -0.1666666716337204, -0.25,
    ),
}  # fmt: skip
KERNEL_WEIGHTS = 1 << 30  # per call: the kernel counts in 32 bits
TRIED_TYPES = (torch.float32, torch.bfloat16, torch.float16)
TRIED_BLOCK = 64

Unpack = Callable[[str, int, Tensor, Tensor, Tensor], None]
"""(kind, block, codes uint8 [weights / 2], absmax float32 [weights / block], out [weights]), flat, contiguous and on one
device: writes level times absmax, multiplied in float32 and rounded once to `out`'s number type."""


@lru_cache
def unpacking_for(kind: str, device: torch.device) -> Unpack:
    """The fastest way to unpack on a device; bitsandbytes is imported only for CUDA."""
    return unpack_by_kernel if device.type == "cuda" and kernel_agrees(kind, device) else unpack_by_table


def unpack_by_table(kind: str, block: int, codes: Tensor, absmax: Tensor, out: Tensor) -> None:
    """`Unpack` with plain torch."""
    pairs, blocks = codes.view(-1, block // 2), out.view(-1, block)

    def decode(rows: slice) -> None:
        blocks[rows].copy_(unpack(pairs[rows], LEVELS[kind], high_first=True).mul_(absmax[rows, None]))

    in_chunks(decode, len(blocks), block, out.device)


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
        except (ImportError, AttributeError, OSError, RuntimeError):
            return False
        unpack_by_table(kind, TRIED_BLOCK, codes, absmax, expected)
        if not torch.equal(found.view(torch.uint8), expected.view(torch.uint8)):
            return False
    return True
