"""Reads layers from disk past the page cache, at the disk's own speed."""

import os
import threading
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from engine.errors import ModelError
from engine.protocol.sentences import reason_of, say
from engine.weights.store.layout import PAGE, LayerLayout, Segment, round_up

PIECE_BYTES = 64 << 20  # large enough for the full rate of a disk with a deep queue, small enough to stop soon


class DiskReader:
    """Open files of a model: direct reads where the file system allows them, else buffered ones that leave no cache.

    Several threads may read at once.
    """

    def __init__(self, layouts: Iterable[LayerLayout], direct: bool = True) -> None:
        """Open every file of the layouts; raises `ModelError` if one cannot be."""
        self._files: dict[Path, tuple[int, bool]] = {}
        self._refused: list[int] = []  # descriptors that refused direct reads; another thread may be reading one
        self._turn = threading.Lock()
        self.bytes_read = 0
        for path in sorted({segment.path for layout in layouts for segment in layout.segments}):
            self._files[path] = self._open(path, direct)

    def read(self, layout: LayerLayout, buffer: Tensor) -> None:
        """Fill `buffer` (uint8, page-aligned, at least `layout.nbytes`); raises `ModelError` if bytes are missing."""
        view = memoryview(buffer.numpy())  # type: ignore[arg-type]  # numpy arrays are buffers
        for segment in layout.segments:
            self._read_segment(segment, view)

    def close(self) -> None:
        """Close all files."""
        for descriptor in [*self._refused, *(descriptor for descriptor, _ in self._files.values())]:
            os.close(descriptor)
        self._refused.clear()
        self._files.clear()

    def _open(self, path: Path, direct: bool) -> tuple[int, bool]:
        flag = getattr(os, "O_DIRECT", 0) if direct else 0
        binary = getattr(os, "O_BINARY", 0)
        try:
            if flag:
                try:
                    return os.open(path, os.O_RDONLY | flag), True
                except OSError:  # a file system without direct reads says EINVAL
                    pass
            return os.open(path, os.O_RDONLY | binary), False
        except OSError as error:
            raise _unreadable(path, error) from error

    def _read_segment(self, segment: Segment, view: memoryview) -> None:
        descriptor, direct = self._files[segment.path]
        done = 0
        while done < segment.nbytes:
            want = min(segment.nbytes - done, PIECE_BYTES)
            if direct:
                want = round_up(want, PAGE)  # reads end early at the end of the file, whatever was asked for
            at = segment.at + done
            try:
                got = self._read_at(descriptor, view[at : at + want], segment.offset + done)
            except OSError as error:
                if direct and done == 0 and error.errno == 22:  # opened, but refuses direct reads after all
                    descriptor, direct = self._reopen_buffered(segment.path)
                    continue
                raise _unreadable(segment.path, error) from error
            if got <= 0:
                raise ModelError(
                    say(
                        "{file} ended {count} bytes early while its weights were read.",
                        file=segment.path,
                        count=segment.nbytes - done,
                    ),
                    say("Was it changed or moved? Download or prepare the model again."),
                )
            done += min(got, segment.nbytes - done)
        self.bytes_read += done
        if not direct:
            drop_from_cache(descriptor, segment.offset, segment.nbytes)

    def _reopen_buffered(self, path: Path) -> tuple[int, bool]:
        with self._turn:
            if self._files[path][1]:
                self._refused.append(self._files[path][0])
                self._files[path] = self._open(path, direct=False)
            return self._files[path]

    def _read_at(self, descriptor: int, target: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(descriptor, [target], offset)
        with self._turn:  # Windows: a file has one position for all threads
            os.lseek(descriptor, offset, os.SEEK_SET)
            data = os.read(descriptor, len(target))
        target[: len(data)] = data
        return len(data)


def drop_from_cache(descriptor: int, offset: int = 0, nbytes: int = 0) -> None:
    """Free the page cache of bytes of a file (`nbytes` 0: to its end) that are not read again soon.

    What is not yet on the disk stays.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, offset, nbytes, os.POSIX_FADV_DONTNEED)


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(
        say("{file} cannot be read: {reason}.", file=path, reason=reason_of(error)),
        say("Check the disk, or download it again."),
    )
