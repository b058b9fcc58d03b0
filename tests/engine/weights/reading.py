"""Reads files as the stream does, and measures what the engine itself has no use for."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.binding import stored_views
from engine.weights.streaming.host_memory import HostArena
from engine.weights.streaming.layer_stream import LayerStream

SMAPS = Path("/proc/self/smaps")
_BOUNDS = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")


def read(layout: LayerLayout, direct: bool = True) -> dict[str, Tensor]:
    """The layer as the stream reads it: page by page into an aligned buffer, tensors viewed in place."""
    buffer = HostArena(layout.nbytes).take(layout.nbytes)
    reader = DiskReader([layout], direct)
    reader.read(layout, buffer)
    reader.close()
    return stored_views(layout, buffer)


def assert_equal(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        assert found[name].shape == tensor.shape, name
        assert found[name].contiguous().view(-1).view(torch.uint8).equal(tensor.contiguous().view(-1).view(torch.uint8))


def cache_use(stream: LayerStream) -> tuple[int, int]:
    """How often a pass found an expert in the stream's caches, and how often not."""
    caches = [slots.cache for slots in stream._experts._slots] if stream._experts else []
    return sum(cache.hits for cache in caches), sum(cache.misses for cache in caches)


def huge_page_bytes(arena: HostArena) -> int:
    """How much of an arena the system holds in huge pages by now; 0 where it does not tell."""
    return huge_page_bytes_at(arena._memory.data_ptr(), arena.nbytes)


def huge_page_bytes_at(start: int, nbytes: int) -> int:
    """The same of so many bytes of memory, and of what lies beside them where the kernel keeps both as one."""
    found, is_ours = 0, False
    try:
        with SMAPS.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if bounds := _BOUNDS.match(line):
                    begin, end = (int(each, 16) for each in bounds.groups())
                    is_ours = begin < start + nbytes and end > start
                elif is_ours and line.startswith("AnonHugePages:"):
                    found += int(line.split()[1]) << 10
    except OSError:
        return 0
    return min(nbytes, found)
