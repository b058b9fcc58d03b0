"""Reads layers from disk past the page cache, at the disk's own speed."""

import errno
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from torch import Tensor

from engine.errors import UnreadableError
from engine.files import FileState, file_state
from engine.protocol.sentences import reason_of, say
from engine.weights.store.layout import PAGE, LayerLayout, Segment, round_up
from engine.weights.store.overlapped import open_overlapped

PIECE_BYTES = 64 << 20  # large enough for the full rate of a disk with a deep queue, small enough to stop soon
NO_DIRECT_READS = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP}  # what files that were opened for them may still say


class DiskReader:
    """Open files of a model: direct reads where the file system allows them, else buffered ones that leave no cache.

    Several threads may read at once. A file that cannot be read is opened anew once: what was open while its disk was
    away stays dead when that is there again.
    """

    def __init__(self, layouts: Iterable[LayerLayout], direct: bool = True, is_watched: bool = True) -> None:
        """Open every file of the layouts; raises `UnreadableError` if one cannot be.

        `is_watched`: a file that is changed from now on is refused, instead of giving weights of two models.
        """
        self._files: dict[Path, OpenFile] = {}
        self._states: dict[Path, FileState | None] = {}  # of the files that are watched, when they were opened
        self._replaced: list[OpenFile] = []  # by files that were opened anew; another thread may be reading one
        self._turn = threading.Lock()
        self.bytes_read = 0
        try:
            for path in sorted({segment.path for layout in layouts for segment in layout.segments}):
                self._files[path] = self._open(path, direct)
                if is_watched:
                    self._states[path] = self._files[path].state()
        except BaseException:
            self.close()
            raise

    def read(self, layout: LayerLayout, buffer: Tensor) -> None:
        """Fill `buffer` (uint8, page-aligned, at least `layout.nbytes`).

        Raises `UnreadableError` if a file cannot be read, if bytes are missing, or if it was changed.
        """
        view = memoryview(buffer.numpy())  # type: ignore[arg-type]  # numpy arrays are buffers
        for segment in layout.segments:
            self._read_segment(segment, view)

    def close(self) -> None:
        """Close all files."""
        for file in [*self._replaced, *self._files.values()]:
            file.close()
        self._replaced.clear()
        self._files.clear()

    def _open(self, path: Path, direct: bool) -> "OpenFile":
        try:
            return (open_direct(path) if direct else None) or _Descriptor(path)
        except OSError as error:
            raise _unreadable(path, error) from error

    def _read_segment(self, segment: Segment, view: memoryview) -> None:
        file = self._files[segment.path]
        try:
            _fill(file, segment, view)
        except OSError as error:
            file = self._read_anew(segment, view, file.is_direct and error.errno not in NO_DIRECT_READS)
        self._require_unchanged(segment.path, file)
        self.bytes_read += segment.nbytes
        file.drop_from_cache(segment.offset, segment.nbytes)

    def _read_anew(self, segment: Segment, view: memoryview, direct: bool) -> "OpenFile":
        """Open the file once more, and read from that; returns it, which takes the old one's place if that works."""
        file = self._open(segment.path, direct)
        try:
            self._require_unchanged(segment.path, file)
            _fill(file, segment, view)
        except OSError as error:
            file.close()
            raise _unreadable(segment.path, error) from error
        except BaseException:
            file.close()
            raise
        with self._turn:
            self._replaced.append(self._files[segment.path])
            self._files[segment.path] = file
        return file

    def _require_unchanged(self, path: Path, file: "OpenFile") -> None:
        state = self._states.get(path) and file.state()
        if state and state != self._states[path]:
            raise UnreadableError(
                say("{file} was changed while its weights were in use.", file=path), say("Load the model again.")
            )


def _fill(file: "OpenFile", segment: Segment, view: memoryview) -> None:
    """Read a segment to its place. Raises `OSError`, and `UnreadableError` where the file ends before."""
    done = 0
    while done < segment.nbytes:
        want = min(segment.nbytes - done, PIECE_BYTES)
        if file.is_direct:
            want = round_up(want, PAGE)  # reads end early at the end of the file, whatever was asked for
        at = segment.at + done
        got = file.read(view[at : at + want], segment.offset + done)
        if got <= 0:
            raise UnreadableError(
                say(
                    "{file} ended {count} bytes early while its weights were read.",
                    file=segment.path,
                    count=segment.nbytes - done,
                ),
                say("Was it changed or moved? Download or prepare the model again."),
            )
        done += min(got, segment.nbytes - done)


class OpenFile(Protocol):
    """A file that several threads may read at once."""

    is_direct: bool
    """Reads pass by the page cache, and want offsets, lengths and memory in whole pages."""

    def read(self, target: memoryview, offset: int) -> int:
        """Read to `target`, or less of it; returns how much, 0 at the end. Raises `OSError`."""

    def state(self) -> FileState | None:
        """Of the file as it is now; None where the system does not tell."""

    def drop_from_cache(self, offset: int, nbytes: int) -> None:
        """What was read is not read again soon."""

    def close(self) -> None:
        """Nobody reads it any more."""


class _Descriptor:
    """As the system opens it, with `flags` besides; raises `OSError`."""

    def __init__(self, path: Path, flags: int = 0) -> None:
        self.is_direct = flags != 0
        self._number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | flags)
        self._turn = threading.Lock()

    def read(self, target: memoryview, offset: int) -> int:
        """See `OpenFile.read`."""
        if sys.platform != "win32":
            return os.preadv(self._number, [target], offset)
        else:  # noqa: RET505  # a type checker knows one system alone
            with self._turn:  # a file has one position for all threads
                os.lseek(self._number, offset, os.SEEK_SET)
                data = os.read(self._number, len(target))
            target[: len(data)] = data
            return len(data)

    def state(self) -> FileState | None:
        """See `OpenFile.state`."""
        return file_state(self._number)

    def drop_from_cache(self, offset: int, nbytes: int) -> None:
        """See `OpenFile.drop_from_cache`; direct reads leave nothing there."""
        if not self.is_direct:
            drop_from_cache(self._number, offset, nbytes)

    def close(self) -> None:
        """See `OpenFile.close`."""
        os.close(self._number)


def open_direct(path: Path) -> OpenFile | None:
    """The file for reads past the page cache; None where the system, or the file system, has none."""
    with suppress(OSError):  # a file system without them says EINVAL; if there is no file, whoever asks next says so
        if flag := getattr(os, "O_DIRECT", 0):
            return _Descriptor(path, flag)
        return open_overlapped(path)
    return None


def drop_from_cache(descriptor: int, offset: int = 0, nbytes: int = 0) -> None:
    """Free the page cache of bytes of a file (`nbytes` 0: to its end) that are not read again soon.

    What is not yet on the disk stays.
    """
    if sys.platform == "linux":
        os.posix_fadvise(descriptor, offset, nbytes, os.POSIX_FADV_DONTNEED)


def _unreadable(path: Path, error: OSError) -> UnreadableError:
    return UnreadableError(
        say("{file} cannot be read: {reason}.", file=path, reason=reason_of(error)),
        say("Check the disk, or download it again."),
    )
