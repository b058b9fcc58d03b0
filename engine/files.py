"""Files that are never seen half written: written beside the old one, made durable, and put in its place.

A full disk, a crash or a power cut leaves the old file or the new one. The temporary name holds the writer's process
id, so that what a killed process left can be told from what a running one writes.
"""

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import resource

SUFFIX = ".part"
MOST_OPEN = 4096  # files at once: a prepared model has one for each layer, and a server one for each client
MOST_PROCESSES = 1 << 31  # no system has larger numbers for them, nor takes any
_NAME_LENGTH = 40  # of the old name in the temporary one: file systems limit the length of a name
# Virus scanners and indexers of Windows hold new files open for a moment, and some of thousands for seconds.
_TRIES, _PATIENT_TRIES = (10, 200) if os.name == "nt" else (1, 1)
_PAUSE_SECONDS = 0.05

NOT_ORDINARY = "Not an ordinary file"  # as the system would say it
FileState = tuple[int, int]
"""The size of a file in bytes, and the time of its last change in nanoseconds."""


def file_state(file: Path | int) -> FileState | None:
    """Of a path or an open descriptor; None where the system does not tell."""
    try:
        found = os.fstat(file) if isinstance(file, int) else file.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def open_ordinary(path: Path) -> BinaryIO:
    """A file of strangers to read: a pipe or a device, which may keep one waiting for ever, raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        is_folder = stat.S_ISDIR(mode)
        words = os.strerror(errno.EISDIR) if is_folder else NOT_ORDINARY
        raise OSError(errno.EISDIR if is_folder else errno.EINVAL, words, str(path))
    return os.fdopen(descriptor, "rb")


def is_own(state: os.stat_result) -> bool:
    """Whether a file or folder is of the user that this process runs as."""
    return sys.platform == "win32" or state.st_uid == os.geteuid()


class Replacement:
    """A file that is written beside `path` and takes its place with `commit`; `discard` leaves the old one.

    All of it can raise `OSError`, `discard` cannot.
    """

    def __init__(self, path: Path, mode: int = 0o666) -> None:
        """`mode`: the permissions of the new file, of which the umask takes its part."""
        self._path = path
        self._beside = path.with_name(f"{path.name[:_NAME_LENGTH]}.{os.getpid()}{SUFFIX}")
        _sweep(path)
        self._beside.unlink(missing_ok=True)  # left by a process of the same number; a link is never followed
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
        self.file: BinaryIO = os.fdopen(os.open(self._beside, flags, mode), "wb")

    def write(self, content: bytes) -> None:
        """Add to it."""
        self.file.write(content)

    def commit(self) -> None:
        """Put it in the old one's place; the old one is left if that fails."""
        try:
            with self.file:
                self.file.flush()
                os.fsync(self.file.fileno())
            retried(lambda: self._beside.replace(self._path))
        except BaseException:
            self.discard()
            raise
        with suppress(OSError):  # the file is there; some file systems cannot synchronise a folder
            sync_folder(self._path.parent)

    def discard(self) -> None:
        """Leave the old one, and nothing beside it."""
        with suppress(OSError):  # a full disk fails here once more
            self.file.close()
        with suppress(OSError):
            self._beside.unlink(missing_ok=True)


@contextmanager
def replaced_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file to write that replaces `path` at the end of the block; if the block or that fails, nothing is left."""
    replacement = Replacement(path, 0o666)
    try:
        yield replacement.file
    except BaseException:
        replacement.discard()
        raise
    replacement.commit()


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace a file. Raises `OSError`; then the old one is as it was."""
    fill(Replacement(path, mode), content)


def fill(replacement: Replacement, content: bytes) -> None:
    """Write all of a replacement and commit it; if that raises, the old file is as it was."""
    try:
        replacement.write(content)
    except BaseException:
        replacement.discard()
        raise
    replacement.commit()


def remove(path: Path) -> None:
    """Remove a file, if it is there, so that a power cut does not bring it back."""
    _sweep(path)
    try:
        retried(path.unlink)
    except FileNotFoundError:
        return
    with suppress(OSError):
        sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove the half-written files in a folder of our own, except those whose writers still run."""
    for left in folder.glob(f"*{SUFFIX}"):
        if _writer_of(left) is None:
            left.unlink(missing_ok=True)
    _remove_dead(folder, "*")


def let_many_files_open() -> None:
    """Raise this process's own limit, as far as it may: macOS allows 256 files unless it is asked for more."""
    if sys.platform != "win32":
        own, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST_OPEN if most == resource.RLIM_INFINITY else min(MOST_OPEN, most)
        if own != resource.RLIM_INFINITY and own < wanted:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def sync_folder(folder: Path) -> None:
    """Make a new name in the folder survive a power cut, where folders can be synchronised at all."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(path: Path) -> None:
    """Remove what processes that were killed while they wrote this file have left beside it."""
    _remove_dead(path.parent, f"{escape(path.name[:_NAME_LENGTH])}.*")


def _remove_dead(folder: Path, pattern: str) -> None:
    for left in folder.glob(pattern + SUFFIX):
        writer = _writer_of(left)
        if writer is not None and not _is_running(writer):
            with suppress(OSError):  # on Windows, if it is open after all
                left.unlink()


def _writer_of(left: Path) -> int | None:
    """The process that a temporary name tells; None if it tells none, and the file may be somebody else's."""
    writer = left.name.removesuffix(SUFFIX).rpartition(".")[2]
    return int(writer) if writer.isdecimal() and int(writer) < MOST_PROCESSES else None


def _is_running(process: int) -> bool:
    if os.name == "nt":
        return False  # asking for a process there can end it; removing the file that it writes fails instead
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    return True


def retried(act: Callable[[], object], patiently: bool = False) -> None:
    """Do what Windows refuses while another program has the file open: replacing, renaming, removing.

    `patiently`: for ten seconds, as scanners take for a large file, or for one of thousands in a folder. Raises
    `OSError`.
    """
    for remaining in reversed(range(_PATIENT_TRIES if patiently else _TRIES)):
        try:
            act()
        except PermissionError:
            if not remaining:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
