"""The disk that downloads are written to: free space, and partial files, of which every byte written is kept."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from app.i18n.units import size_text
from engine.errors import CoppiceError
from engine.protocol.sentences import say

if TYPE_CHECKING:
    from app.hub.files import RemoteFile

Check = Callable[[], None]
"""Called between pieces of long work; raises what is to end it."""

RESERVE_BYTES = 256 << 20  # what is left to everything else on the disk
_PIECE_BYTES = 4 << 20
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


class OutOfSpaceError(CoppiceError):
    """The disk is full, or would be; what has arrived is kept. `bytes_missing` is what must be freed at least."""

    def __init__(self, message: str, hint: str, bytes_missing: int) -> None:
        super().__init__(message, hint)
        self.bytes_missing = bytes_missing


class FileInUse(Exception):  # noqa: N818  # not an error: the other one may well finish it for us
    """Another program has the same file open."""


class Disk:
    """What a download needs of the operating system; tests fill it up."""

    reserve_bytes = RESERVE_BYTES
    check_every_bytes = 64 << 20

    def free_bytes(self, folder: Path) -> int:
        """What may still be written where the folder is, or will be."""
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        return shutil.disk_usage(folder).free

    def open(self, path: Path) -> FileIO:
        """A file to read and write without a buffer, made if it is missing; a link is not followed."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        return FileIO(os.open(path, flags, 0o666), "r+")

    def require(self, folder: Path, count: int) -> None:
        """Raise `OutOfSpaceError` if so many more bytes would leave too little on the disk."""
        missing = count + self.reserve_bytes - self.free_bytes(folder)
        if missing > 0:
            raise out_of_space(folder, missing)


def is_full(error: OSError) -> bool:
    """Whether the disk, or the part of it that this person may use, is full."""
    return error.errno in _FULL


def out_of_space(folder: Path, missing: int) -> OutOfSpaceError:
    """The failure, in words: the disk is named by where it begins, as its deepest folders tell nobody anything."""
    disk = folder.absolute()
    while not os.path.ismount(disk) and disk != disk.parent:
        disk = disk.parent
    words = say("{size} more are needed on the disk of {folder}.", size=size_text(missing), folder=disk)
    return OutOfSpaceError(words, say("Free some space, then resume; what has arrived is kept."), missing)


def pieces(file: BinaryIO | FileIO, check: Check) -> Iterator[bytes]:
    """The rest of a file, some megabytes at a time, with a check between them."""
    while piece := file.read(_PIECE_BYTES):
        check()
        yield piece


class Partial:
    """What has arrived of one file, with its checksum so far; only one program at a time has it open.

    Its name says whose content it is, so what lies there can be trusted to be a beginning of it; the checksum tells.
    """

    def __init__(self, file: "RemoteFile", raw: FileIO, folder: Path) -> None:
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
        for piece in pieces(self._raw, check):
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
def opened(file: "RemoteFile", path: Path, disk: Disk) -> Iterator[Partial]:
    """The partial file, locked; raises `FileInUse` while another program has it, and `OSError`."""
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
                raise FileInUse
            try:
                yield Partial(file, raw, path.parent)
            finally:
                is_empty = os.fstat(raw.fileno()).st_size == 0 < file.bytes
    finally:
        if is_empty:
            path.unlink(missing_ok=True)


def remove_partial(file: "RemoteFile", path: Path) -> None:
    """Remove the partial file, unless another program has it open: that one is downloading it."""
    if path.is_symlink() or not path.exists():
        path.unlink(missing_ok=True)
        return
    with suppress(FileInUse), opened(file, path, Disk()) as partial:
        if os.name == "posix":
            path.unlink()  # while nobody else can have it open
        else:
            partial.restart()  # an empty one is removed as soon as it is closed


def _is_still(raw: FileIO, path: Path) -> bool:
    """Whether the file goes by that name even now: another program may just have finished it."""
    try:
        return os.path.samestat(os.fstat(raw.fileno()), path.stat())
    except FileNotFoundError:
        return False
