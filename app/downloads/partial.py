"""A file that is arriving: `<etag>.incomplete`, which a later session finds and goes on with."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from app.downloads.disk import Check, Disk, is_full, out_of_space
from app.hub.failures import Busy
from app.hub.plan import RemoteFile

_PIECE_BYTES = 4 << 20


class Partial:
    """What has arrived of one file, with its checksum so far; only one program at a time has it open.

    Its name says whose content it is, so what lies there can be trusted to be a beginning of it; the checksum tells.
    """

    def __init__(self, file: RemoteFile, raw: FileIO, folder: Path) -> None:
        self._file = file
        self._raw = raw
        self._folder = folder
        self._checksum = file.checksum()
        self.bytes = 0

    @property
    def is_complete(self) -> bool:
        """Whether every byte has arrived."""
        return self.bytes == self._file.bytes

    @property
    def is_genuine(self) -> bool:
        """Whether the bytes are the ones that the hub names."""
        return self._checksum.hexdigest() == self._file.etag

    def take_up(self, check: Check) -> None:
        """Read what an earlier session left, so that the checksum covers it; more than there can be is dropped."""
        self._raw.seek(0)
        if os.fstat(self._raw.fileno()).st_size > self._file.bytes:
            self._raw.truncate(0)
        while piece := self._raw.read(_PIECE_BYTES):
            check()
            self._checksum.update(piece)
            self.bytes += len(piece)

    def write(self, data: bytes) -> None:
        """Add bytes; raises `OutOfSpaceError` when the disk is full, having kept what went in."""
        view = memoryview(data)[: self._file.bytes - self.bytes]
        while view:
            try:
                count = self._raw.write(view) or 0
            except OSError as error:
                if is_full(error):
                    raise out_of_space(self._folder, self._file.bytes - self.bytes) from error
                raise
            self._checksum.update(view[:count])
            self.bytes += count
            view = view[count:]

    def restart(self) -> None:
        """Forget everything that has arrived."""
        self._raw.seek(0)
        self._raw.truncate(0)
        self._checksum = self._file.checksum()
        self.bytes = 0

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        os.fsync(self._raw.fileno())


@contextmanager
def opened(file: RemoteFile, path: Path, disk: Disk) -> Iterator[Partial]:
    """The partial file, locked; raises `Busy` while another program has it, and `OSError`."""
    from filelock import lock_descriptor  # noqa: PLC0415  # the window is opened without

    try:
        raw = disk.open(path)
    except OSError as error:
        if is_full(error):
            raise out_of_space(path.parent, file.bytes) from error
        raise
    is_empty = False
    try:
        with raw:
            if not lock_descriptor(raw.fileno(), blocking=False) or not _is_still(raw, path):
                raise Busy
            try:
                yield Partial(file, raw, path.parent)
            finally:
                is_empty = os.fstat(raw.fileno()).st_size == 0 < file.bytes
    finally:
        if is_empty:
            path.unlink(missing_ok=True)


def _is_still(raw: FileIO, path: Path) -> bool:
    """Whether the file goes by that name even now: another program may just have finished it."""
    try:
        return os.path.samestat(os.fstat(raw.fileno()), path.stat())
    except FileNotFoundError:
        return False
