"""A disk that is full, or becomes full at any byte: the download pauses, says what is missing, and loses nothing."""

import errno
import os
import random
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from app.downloads.dependencies import Dependencies
from app.downloads.disk import Disk, OutOfSpaceError
from app.downloads.progress import State
from tests.app.downloads.conftest import Start
from tests.app.downloads.models import FILES, SHARDS, body_bytes, contents, put_up
from tests.campaigns.extent import choose
from tests.hub import Hub
from tests.links import needs_links

TOTAL = sum(map(len, FILES.values()))


class TinyDisk(Disk):
    """A disk that takes `room` more bytes, writes what still fits, and then refuses; it claims `claimed` to be free."""

    reserve_bytes = 0
    check_every_bytes = 50_000

    def __init__(self, room: int, claimed: int = 1 << 60) -> None:
        self.room = room
        self.claimed = claimed

    def free_bytes(self, folder: Path) -> int:
        return self.claimed

    def open(self, path: Path) -> FileIO:
        super().open(path).close()
        return _Measured(path, self)


class _Measured(FileIO):
    def __init__(self, path: Path, disk: TinyDisk) -> None:
        super().__init__(path, "r+")
        self._disk = disk

    def write(self, data: Any) -> int:
        fits = min(len(data), self._disk.room)
        if fits == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = super().write(memoryview(data)[:fits])
        self._disk.room -= count
        return count


def points() -> list[int]:
    """Where the disk becomes full: around the ends of files, and anywhere."""
    ends = [sum(len(FILES[name]) for name in list(FILES)[:number]) for number in range(1, len(FILES))]
    anywhere = random.Random(11).sample(range(TOTAL), choose(4, 12))
    ends = ends[choose(-1, -3) :]
    return sorted({0, 1, TOTAL - 1, *ends, *(end + 1 for end in ends), *anywhere})


@pytest.mark.parametrize("room", points())
@needs_links
def test_wherever_it_ends_it_goes_on_from_there(
    hub: Hub, start: Start, cache: Path, dependencies: Dependencies, room: int
) -> None:
    repo, disk = put_up(hub), TinyDisk(room)
    download = start(using=replace(dependencies, disk=disk))
    download.run()
    progress = download.progress
    assert progress.state is State.PAUSED
    assert isinstance(progress.error, OutOfSpaceError)
    assert 0 < progress.error.bytes_missing <= TOTAL
    disk_of = next(each for each in cache.parents if os.path.ismount(each))
    assert progress.message.endswith(f"are needed on the disk of {disk_of}."), "its folders would fill the line"
    assert sum(map(len, contents(cache / "blobs").values())) == room
    disk.room = TOTAL
    download.rest(State.QUEUED)
    download.run()
    assert download.progress.state is State.DONE
    assert contents(cache / "snapshots" / repo.commit) == FILES
    assert not [name for name in contents(cache) if name.endswith(".incomplete")]
    assert disk.room == room, "every byte was written once"


def test_free_space_is_checked_before_anything_is_fetched(
    hub: Hub, start: Start, cache: Path, dependencies: Dependencies
) -> None:
    put_up(hub)
    disk = TinyDisk(TOTAL, claimed=TOTAL - 1_000)
    download = start(using=replace(dependencies, disk=disk))
    download.run()
    assert download.progress.state is State.PAUSED
    assert download.progress.message.startswith("1.0 kB more are needed on the disk of")
    assert not hub.asked("config.json")
    assert not cache.exists()
    disk.claimed = TOTAL
    download.rest(State.QUEUED)
    download.run()
    assert download.progress.fraction == 1.0


def test_free_space_is_checked_meanwhile(hub: Hub, start: Start, dependencies: Dependencies) -> None:
    class Shrinking(TinyDisk):
        def free_bytes(self, folder: Path) -> int:
            self.claimed -= 400_000
            return self.claimed

    put_up(hub)
    download = start(using=replace(dependencies, disk=Shrinking(TOTAL, claimed=TOTAL + 500_000)))
    download.run()
    assert download.progress.state is State.PAUSED
    assert 0 < download.progress.bytes_done < TOTAL


def test_a_disk_that_is_full_when_the_file_gets_its_name(
    hub: Hub, start: Start, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    repo = put_up(hub)
    download = start()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "symlink_to", refuse)
        download.run()
    assert download.progress.state is State.PAUSED
    download.rest(State.QUEUED)
    download.run()
    assert contents(cache / "snapshots" / repo.commit) == FILES
    assert all(body_bytes(hub, name) == len(FILES[name]) for name in (*SHARDS, "config.json"))


def test_a_folder_that_may_not_be_written_is_an_error_with_its_name(hub: Hub, start: Start, tmp_path: Path) -> None:
    put_up(hub)
    (tmp_path / "file").write_text("not a folder")
    download = start(to=tmp_path / "file" / "model")
    download.run()
    assert download.progress.state is State.FAILED
    assert str(tmp_path / "file") in download.progress.message
