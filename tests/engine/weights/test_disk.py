"""Reading files that fail: refused halfway, gone and back again, changed while they are read."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from engine.errors import ModelError
from engine.weights.store import disk
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import PAGE, LayerLayout, Segment, round_up
from engine.weights.streaming.host_memory import HostArena

SIZE = 70 * PAGE + 77
OPEN_FILES = Path("/proc/self/fd")

pytestmark = pytest.mark.skipif(not hasattr(os, "preadv"), reason="reads are made to fail there")

Read = Callable[[int, list[memoryview], int], int]
preadv: Read = getattr(os, "preadv", None)  # type: ignore[assignment]


def some_bytes(seed: int) -> bytes:
    return bytes(torch.randint(256, (SIZE,), generator=torch.Generator().manual_seed(seed)).tolist())


class Layer:
    """A file in two segments, and a reader of it."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(some_bytes(1))
        self.path, first = path, 3 * PAGE
        segments = (Segment(path, 0, first, 0), Segment(path, first, SIZE - first, first))
        self.layout = LayerLayout(0, segments, (), round_up(SIZE))
        self.reader = DiskReader([self.layout])

    def read(self) -> bytes:
        buffer = HostArena(self.layout.nbytes).take(self.layout.nbytes)
        self.reader.read(self.layout, buffer)
        return bytes(buffer[:SIZE].tolist())


@pytest.fixture
def layer(tmp_path: Path) -> Iterator[Layer]:
    layer = Layer(tmp_path / "layer")
    yield layer
    layer.reader.close()


def is_direct(descriptor: int) -> bool:
    fcntl = pytest.importorskip("fcntl")
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & getattr(os, "O_DIRECT", 0))


@pytest.mark.parametrize("most", [512, 1000, 5 * PAGE + 1])
def test_direct_reads_that_end_anywhere_are_completed(most: int, layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    """File systems over a network may end a read within a page, and refuse to go on from there."""
    monkeypatch.setattr(os, "preadv", lambda file, views, offset: min(most, preadv(file, views, offset)))
    assert layer.read() == some_bytes(1)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_direct_reads_that_are_refused_halfway_are_made_plainly(
    number: int, layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []

    def refuse(file: int, views: list[memoryview], offset: int) -> int:
        if is_direct(file) and offset:
            refused.append(file)
            raise OSError(number, os.strerror(number))
        return min(2 * PAGE, preadv(file, views, offset))

    monkeypatch.setattr(os, "preadv", refuse)
    assert layer.read() == layer.read() == some_bytes(1)
    assert len(refused) <= 1, "it is asked for no second time"


@pytest.mark.parametrize("number", [errno.EIO, errno.ENODEV, errno.ESTALE, errno.ENOTCONN])
def test_a_disk_that_was_away_is_read_again_once_it_is_back(
    number: int, layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was open before stays dead; so does what is opened while the disk is away."""
    dead = {file._number for file in layer.reader._files.values()}  # type: ignore[attr-defined]

    def fail(file: int, views: list[memoryview], offset: int) -> int:
        if file in dead:
            raise OSError(number, os.strerror(number))
        return preadv(file, views, offset)

    monkeypatch.setattr(os, "preadv", fail)
    with monkeypatch.context() as patch:
        away = layer.path.with_name("away")
        layer.path.rename(away)
        with pytest.raises(ModelError, match="layer cannot be read: No such file or directory"):
            layer.read()
        away.rename(layer.path)
        patch.setattr(os, "preadv", lambda *_: fail(next(iter(dead)), [], 0))
        with pytest.raises(ModelError, match="layer cannot be read"):
            layer.read()
    assert layer.read() == layer.read() == some_bytes(1)


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="the system does not list open files")
def test_a_disk_that_keeps_failing_keeps_no_more_files_open(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(list(OPEN_FILES.iterdir()))

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    for _ in range(3):
        with pytest.raises(ModelError, match="layer cannot be read: Input/output error"):
            layer.read()
    assert len(list(OPEN_FILES.iterdir())) == before


def test_a_file_that_is_changed_in_place_is_refused(layer: Layer) -> None:
    assert layer.read() == some_bytes(1)
    layer.path.write_bytes(some_bytes(2))
    os.utime(layer.path, ns=(1, 1))  # later than before, however coarse the clock of the file system
    with pytest.raises(ModelError, match="layer was changed while its weights were in use"):
        layer.read()


def test_another_file_in_its_place_is_read_neither_before_nor_after_a_failure(
    layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = layer.path.with_name("other")
    other.write_bytes(some_bytes(2))
    os.utime(other, ns=(1, 1))
    other.replace(layer.path)
    assert layer.read() == some_bytes(1), "what is open is the file of before"
    old = {file._number for file in layer.reader._files.values()}  # type: ignore[attr-defined]

    def fail(file: int, views: list[memoryview], offset: int) -> int:
        if file in old:
            raise OSError(errno.EIO, "Input/output error")
        return preadv(file, views, offset)

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(ModelError, match="layer was changed"):
        layer.read()


def test_what_is_compared_otherwise_may_be_touched(layer: Layer) -> None:
    reader = disk.DiskReader([layer.layout], is_watched=False)
    os.utime(layer.path, ns=(1, 1))
    reader.read(layer.layout, HostArena(layer.layout.nbytes).take(layer.layout.nbytes))
    reader.close()
