"""Host memory for weights: whole pages, huge ones where the system has them, given back with the last tensor."""

import mmap
from pathlib import Path

import psutil
import pytest
import torch

from engine.weights.streaming.host_memory import HostArena, arena_bytes
from tests.engine.weights.reading import huge_page_bytes

MIB = 1 << 20
ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def has_huge_pages() -> bool:
    """Whether a program that asks for huge pages gets them here."""
    try:
        return "[never]" not in ENABLED.read_text()
    except OSError:
        return False


@pytest.mark.skipif(not has_huge_pages(), reason="this system gives no huge pages")
def test_weights_lie_in_huge_pages() -> None:
    arena = HostArena(32 * MIB)
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
