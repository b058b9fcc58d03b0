"""Host memory for weights: whole pages, huge ones where the system has them, given back with the last tensor."""

import mmap
import sys
from contextlib import suppress

import psutil
import pytest
import torch

from engine.weights.streaming.host_memory import HostArena, arena_bytes
from tests.engine.weights.reading import huge_page_bytes, huge_page_bytes_at

MIB = 1 << 20


def kept_apart(mapping: mmap.mmap) -> mmap.mmap:
    """One that the kernel tells of by itself, whatever earlier tests have left beside it."""
    mapping.madvise(mmap.MADV_DONTFORK)
    return mapping


def gives_huge_pages() -> bool:
    """Whether a program that asks for huge pages gets them here and now: memory may be in pieces."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return False
    plain = kept_apart(mmap.mmap(-1, 32 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    with suppress(OSError):  # a kernel without them
        plain.madvise(mmap.MADV_HUGEPAGE)
    memory = torch.frombuffer(plain, dtype=torch.uint8).fill_(1)
    return huge_page_bytes_at(memory.data_ptr(), memory.nbytes) >= 24 * MIB


def test_weights_lie_in_huge_pages() -> None:
    if not gives_huge_pages():
        pytest.skip("this system gives no huge pages")
    arena = HostArena(32 * MIB)
    kept_apart(arena._mapping)
    assert huge_page_bytes(arena) == 0, "nothing is touched yet"
    arena.take(32 * MIB)
    assert huge_page_bytes(arena) >= 24 * MIB, "all but what lies before and behind whole huge pages"


@pytest.mark.skipif(not hasattr(mmap, "MAP_PRIVATE"), reason="POSIX")
def test_the_memory_is_private_as_the_kernel_sees_it() -> None:
    before = psutil.Process().memory_info()
    arena = HostArena(16 * MIB)
    arena.take(16 * MIB)
    after = psutil.Process().memory_info()
    assert after.rss - before.rss >= 15 * MIB, "it counts as memory of this process"
    if hasattr(after, "shared"):
        assert after.shared - before.shared < MIB


def test_pages_are_given_back_with_the_last_tensor() -> None:
    process = psutil.Process()
    arena = HostArena(64 * MIB)
    piece = arena.take(64 * MIB)
    full = process.memory_info().rss
    arena.close()
    del arena
    assert process.memory_info().rss > full - 8 * MIB, "the piece still holds it"
    del piece
    assert process.memory_info().rss < full - 56 * MIB


def test_pieces_begin_on_pages_and_are_zeros() -> None:
    sizes = (1, 4096, 5000)
    arena = HostArena(arena_bytes(sizes))
    pieces = [arena.take(size) for size in sizes]
    assert [piece.numel() for piece in pieces] == list(sizes)
    assert all(piece.data_ptr() % mmap.PAGESIZE == 0 for piece in pieces)
    assert not any(torch.count_nonzero(piece) for piece in pieces)


def test_memory_of_windows_begins_on_pages_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    arena = HostArena(arena_bytes((5000, 1 << 20)))
    pieces = [arena.take(5000), arena.take(1 << 20)]
    assert all(piece.data_ptr() % mmap.PAGESIZE == 0 for piece in pieces)
    pieces[1].fill_(7)
    assert not pieces[0].any()
    assert arena.nbytes == 8192 + (1 << 20)
    with pytest.raises(MemoryError):
        HostArena(1 << 62)


def test_a_kernel_without_huge_pages_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(mmap.mmap):
        def madvise(self, *_: int) -> None:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Refusing)
    arena = HostArena(MIB)
    assert arena.take(MIB).numel() == MIB


def test_a_size_that_no_system_has_is_a_memory_error() -> None:
    with pytest.raises((MemoryError, OSError, OverflowError)):
        HostArena(1 << 60)
