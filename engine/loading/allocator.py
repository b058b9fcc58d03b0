"""How the C library's allocator treats large blocks: given back to the system when freed, not kept for later."""

import ctypes
import sys

LARGE_BYTES = 8 << 20  # weights are larger, most of what a pass writes down is smaller and better reused
_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h


def give_back_large_blocks() -> bool:
    """Have blocks of `LARGE_BYTES` on returned as soon as they are freed; False where the allocator is another one.

    glibc raises its own limit to the largest block that was ever freed, up to 32 MiB, and keeps smaller ones: after a
    model was loaded weight by weight the process held half as much again as the model takes.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
