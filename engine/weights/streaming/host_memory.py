"""Page-aligned host memory: what direct reads need, and what a GPU can copy from at full speed once it is pinned."""

import mmap
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.weights.store.layout import round_up
from engine.weights.streaming.pinning import Pinning


class HostArena:
    """One large block, handed out in page-aligned pieces. Few large blocks: pinning many small ones wastes memory,
    as torch's own pinned allocator rounds every block up to a power of two.
    """

    def __init__(self, nbytes: int, pinning: Pinning | None = None) -> None:
        """`nbytes` in all, pinned if there is a `pinning` that can; raises `MemoryError` if there is no room for them.

        Memory that is not pinned can be copied from as well, but not by the device alone.
        """
        self._mapping = _map(max(round_up(nbytes), mmap.PAGESIZE))
        self._memory = torch.frombuffer(self._mapping, dtype=torch.uint8)
        self._used = 0
        self._pinning = pinning if pinning and pinning.pin(self._memory) else None

    def take(self, nbytes: int) -> Tensor:
        """uint8 [nbytes], zeros, beginning on a page.

        Every page is touched: the system finds memory for them now, not in the middle of the first pass.
        """
        begin = self._used
        self._used += round_up(nbytes)
        assert self._used <= self._memory.nbytes, "the arena was made too small"
        self._memory[begin : begin + nbytes : mmap.PAGESIZE] = 0
        return self._memory[begin : begin + nbytes]

    @property
    def nbytes(self) -> int:
        """All of it, in whole pages."""
        return self._memory.nbytes

    @property
    def is_pinned(self) -> bool:
        """Whether a device copies from it by itself."""
        return self._pinning is not None

    def close(self) -> None:
        """Unpin. The memory itself goes when the last tensor in it does."""
        if self._pinning:
            self._pinning.unpin(self._memory)
            self._pinning = None


def arena_bytes(sizes: Sequence[int]) -> int:
    """What an arena must hold for pieces of these sizes."""
    return sum(round_up(size) for size in sizes)


def _map(nbytes: int) -> Any:
    """Zeros in huge pages, where the system has them for a program that asks: computing walks far fewer pages then.

    The mapping is private: shared memory, which is Python's default, is memory of files to the kernel, and its huge
    pages are another setting, switched off nearly everywhere. On Windows it would be a section of the page file, while
    drivers expect to pin what `VirtualAlloc` gives, as numpy's zeros are where they are many.
    """
    if sys.platform == "win32":
        memory = np.zeros(nbytes + mmap.PAGESIZE, np.uint8)
        return memory[-memory.ctypes.data % mmap.PAGESIZE :][:nbytes]
    mapping = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if sys.platform == "linux":
        with suppress(OSError):  # a kernel without huge pages
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping
