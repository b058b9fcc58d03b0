"""Reads as Windows does them, against a kernel that completes them late and in any order."""

import ctypes
import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import ModelError
from engine.weights.store import disk, overlapped
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout, Segment
from engine.weights.store.overlapped import (
    ERROR_HANDLE_EOF,
    ERROR_INVALID_PARAMETER,
    ERROR_IO_PENDING,
    FLAG_NO_BUFFERING,
    FLAG_OVERLAPPED,
    INVALID_HANDLE,
    OverlappedFile,
    parts_of,
)
from engine.weights.streaming.host_memory import HostArena

SECTOR = 4096
ERROR_OPERATION_ABORTED, ERROR_CRC = 995, 23


class FakeKernel:
    """Of one file. `fails_at`: the offset that cannot be read; `error`: what every read says at once."""

    def __init__(self, content: bytes, seed: int = 0, fails_at: int = -1, error: int = 0) -> None:
        self.content, self.fails_at, self.error = content, fails_at, error
        self.chance = random.Random(seed)
        self.last = 0
        self.under_way: dict[int, tuple[int, int, int]] = {}  # by event: address, bytes, offset
        self.results: dict[int, tuple[int, int]] = {}  # by event: bytes and error
        self.open: set[int] = set()
        self.most = 0

    def last_error(self) -> int:
        return self.last

    def CreateFileW(self, path: str, *arguments: Any) -> int | None:
        assert arguments[4] == FLAG_OVERLAPPED | FLAG_NO_BUFFERING
        if not Path(path).exists():
            self.last = 2
            return INVALID_HANDLE
        return self._opened()

    def CreateEventW(self, *_: Any) -> int:
        return self._opened()

    def ReadFile(self, _handle: int, address: int, nbytes: int, _got: None, state: Any) -> int:
        offset = state._obj.Offset + (state._obj.OffsetHigh << 32)
        assert address % SECTOR == nbytes % SECTOR == offset % SECTOR == 0, "ERROR_INVALID_PARAMETER"
        if self.error or offset >= len(self.content):
            self.last = self.error or ERROR_HANDLE_EOF
            return 0
        event = state._obj.hEvent
        self.under_way[event] = address, nbytes, offset
        self.most = max(self.most, len(self.under_way))
        if self.chance.random() < 0.2:
            self._complete(event)
            return 1
        self.last = ERROR_IO_PENDING
        return 0

    def GetOverlappedResult(self, _handle: int, state: Any, got: Any, wait: bool) -> int:
        assert wait
        event = state._obj.hEvent
        others = [each for each in self.under_way if each != event]
        for each in self.chance.sample(others, len(others) // 2):
            self._complete(each)
        self._complete(event)
        got._obj.value, self.last = self.results.pop(event)
        return int(self.last == 0)

    def CancelIoEx(self, _handle: int, state: Any) -> int:
        event = state._obj.hEvent
        if self.under_way.pop(event, None):
            self.results[event] = 0, ERROR_OPERATION_ABORTED
        return 1

    def CloseHandle(self, handle: int) -> int:
        assert handle not in self.under_way, "its event is closed while it is read"
        self.open.remove(handle)
        return 1

    def _opened(self) -> int:
        handle = max(self.open, default=4) + 4
        self.open.add(handle)
        return handle

    def _complete(self, event: int) -> None:
        if event in self.under_way:
            address, nbytes, offset = self.under_way.pop(event)
            data = self.content[offset : offset + nbytes]
            ctypes.memmove(address, data, len(data))
            is_bad = offset <= self.fails_at < offset + nbytes
            self.results[event] = (0, ERROR_CRC) if is_bad else (len(data), 0)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlapped, "PART_BYTES", 2 * SECTOR)


def some_bytes(count: int) -> bytes:
    return random.Random(count).randbytes(count)


def opened(tmp_path: Path, kernel: FakeKernel) -> OverlappedFile:
    path = tmp_path / "weights"
    path.write_bytes(kernel.content)
    return OverlappedFile(path, kernel, kernel.last_error)


def memory(nbytes: int) -> memoryview:
    return memoryview(HostArena(nbytes).take(nbytes).numpy())  # type: ignore[arg-type]


def test_parts_cover_all_bytes_once(small_parts: None) -> None:
    for nbytes in (SECTOR, 2 * SECTOR, 7 * SECTOR):
        covered = [at for part in parts_of(nbytes) for at in range(part.start, part.stop)]
        assert covered == list(range(nbytes))
    assert list(parts_of(0)) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [40 * SECTOR, 40 * SECTOR - 5, 3 * SECTOR + 1, 0])
def test_reads_end_with_the_file_and_several_are_under_way(
    size: int, seed: int, small_parts: None, tmp_path: Path
) -> None:
    kernel = FakeKernel(some_bytes(size), seed)
    file = opened(tmp_path, kernel)
    target = memory(50 * SECTOR)
    got = file.read(target[: 48 * SECTOR], SECTOR)
    assert got == max(0, size - SECTOR)
    assert bytes(target[:got]) == kernel.content[SECTOR:]
    assert kernel.most <= overlapped.REQUESTS
    assert kernel.most > 2 or size < 10 * SECTOR
    file.close()
    assert not kernel.open, "every event and the file are closed"


def test_a_read_that_fails_leaves_none_behind_that_still_writes(small_parts: None, tmp_path: Path) -> None:
    kernel = FakeKernel(some_bytes(40 * SECTOR), 3, fails_at=9 * SECTOR)
    file = opened(tmp_path, kernel)
    with pytest.raises(OSError, match=r"Windows error|WinError"):
        file.read(memory(40 * SECTOR), 0)
    assert not kernel.under_way
    file.close()
    assert not kernel.open


def test_an_offset_beyond_four_gigabytes_is_told_in_two_numbers(tmp_path: Path) -> None:
    kernel = FakeKernel(b"")
    seen: list[tuple[int, int]] = []

    def read(_handle: int, _address: int, _nbytes: int, _got: None, state: Any) -> int:
        seen.append((state._obj.Offset, state._obj.OffsetHigh))
        kernel.last = ERROR_HANDLE_EOF
        return 0

    file = opened(tmp_path, kernel)
    kernel.ReadFile = read  # type: ignore[method-assign, assignment]
    assert file.read(memory(SECTOR), (5 << 32) + SECTOR) == 0
    assert seen == [(SECTOR, 5)]


def test_a_file_that_is_not_there_cannot_be_opened(tmp_path: Path) -> None:
    kernel = FakeKernel(b"")
    with pytest.raises(OSError, match=r"Windows error|WinError"):
        OverlappedFile(tmp_path / "none", kernel, kernel.last_error)


# ---- through the reader of layers -----------------------------------------------------------------------------------


def read_layer(path: Path, nbytes: int) -> torch.Tensor:
    layout = LayerLayout(0, (Segment(path, SECTOR, nbytes, SECTOR),), (), 60 * SECTOR)
    buffer = HostArena(layout.nbytes).take(layout.nbytes)
    reader = DiskReader([layout])
    try:
        reader.read(layout, buffer)
    finally:
        reader.close()
    return buffer[SECTOR : SECTOR + nbytes]


@pytest.mark.parametrize("error", [0, ERROR_INVALID_PARAMETER])
def test_layers_are_read_so_or_plainly_where_that_is_refused(
    error: int, small_parts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "layer"
    path.write_bytes(some_bytes(30 * SECTOR + 77))
    kernel = FakeKernel(path.read_bytes(), error=error)
    monkeypatch.setattr(disk, "open_direct", lambda path: OverlappedFile(path, kernel, kernel.last_error))
    found = read_layer(path, 29 * SECTOR + 77)
    assert bytes(found.tolist()) == kernel.content[SECTOR:]
    assert (kernel.most > 0) == (error == 0)
    assert not kernel.open


def test_a_system_that_opens_no_file_so_reads_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "layer"
    path.write_bytes(some_bytes(3 * SECTOR))

    def refuse(_path: Path) -> None:
        raise OSError(errno.EACCES, "refused")

    monkeypatch.delattr(os, "O_DIRECT", raising=False)
    monkeypatch.setattr(disk, "open_overlapped", refuse)
    assert bytes(read_layer(path, 2 * SECTOR).tolist()) == path.read_bytes()[SECTOR:]
    path.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        read_layer(path, SECTOR)
