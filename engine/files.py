"""Files that are never seen half written: written beside the old one, made durable, and put in its place.

A full disk, a crash or a power cut leaves the old file or the new one. Who writes holds a lock of the temporary file,
so that what a killed process left can be told from what a running one writes, also in another container. Its name tells
the computer: not every file system shows locks of others.
"""

import errno
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl
    import resource

SUFFIX = ".part"
MOST_OPEN = 4096  # files at once: a prepared model has one for each layer, and a server one for each client
ABANDONED_SECONDS = 86_400.0  # without a write, of what another computer writes, or of what cannot be locked
_NAME_LENGTH = 40  # of the old name in the temporary one: file systems limit the length of a name
# Virus scanners and indexers of Windows hold new files open for a moment, and some of thousands for seconds.
_TRIES, _PATIENT_TRIES = (10, 200) if os.name == "nt" else (1, 1)
_PAUSE_SECONDS = 0.05
# What stands before `SUFFIX`: of which computer, and a random number; earlier versions had the number of the process.
_OURS = re.compile(r"(?P<computer>[0-9a-f]{6})-[0-9a-f]{8}|[0-9]{1,10}")

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
    if os.name == "nt" and path.is_dir():  # else it were said that access is denied
        raise _is_folder(path)
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _is_folder(path) if stat.S_ISDIR(mode) else OSError(errno.EINVAL, NOT_ORDINARY, str(path))
    return os.fdopen(descriptor, "rb")


def _is_folder(path: Path) -> OSError:
    return OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


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
        _sweep(path)
        self._beside, self.file = _made_beside(path, mode)

    def write(self, content: bytes) -> None:
        """Add to it."""
        self.file.write(content)

    def commit(self) -> None:
        """Put it in the old one's place; the old one is left if that fails."""
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
            if os.name == "nt":
                self.file.close()  # nothing that is open is renamed there
            retried(lambda: self._beside.replace(self._path))
        except BaseException:
            self.discard()
            raise
        self.file.close()  # and no lock before: nobody may take it for abandoned
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
    """Remove the half-written files in a folder of our own, except those that somebody may still write."""
    for left in folder.glob(f"*{SUFFIX}"):
        if _mark_of(left) is None:
            left.unlink(missing_ok=True)
    _remove_abandoned(folder, "*")


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
    _remove_abandoned(path.parent, f"{escape(path.name[:_NAME_LENGTH])}.*")


def _remove_abandoned(folder: Path, pattern: str) -> None:
    for left in folder.glob(pattern + SUFFIX):
        mark = _mark_of(left)
        if mark is not None:
            with suppress(OSError):
                _remove_unwritten(left, mark)


def _made_beside(path: Path, mode: int) -> tuple[Path, BinaryIO]:
    """A new file in the folder of `path`, locked, and not removed before it was."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)  # a link is never followed
    while True:
        beside = path.with_name(f"{path.name[:_NAME_LENGTH]}.{_mark()}{SUFFIX}")
        file = os.fdopen(os.open(beside, flags, mode), "wb")
        _lock(file.fileno())
        if beside.exists():
            return beside, file
        file.close()


def _mark() -> str:
    """What tells a temporary file from all others."""
    return f"{_computer()}-{os.urandom(4).hex()}"


def _computer() -> str:
    """Six digits for this computer, or this container of it."""
    name = ""
    if sys.platform != "win32":  # there what is open cannot be removed, whoever has it open
        name = os.uname().nodename
    return f"{zlib.crc32(name.encode()):08x}"[:6]


def _mark_of(left: Path) -> re.Match[str] | None:
    """What marks a file as half written by us; None where nothing does, and it may be somebody else's."""
    return _OURS.fullmatch(left.name.removesuffix(SUFFIX).rpartition(".")[2])


def _remove_unwritten(left: Path, mark: re.Match[str]) -> None:
    """Remove a half-written file that nobody writes any more. Raises `OSError`, on Windows if it is open after all."""
    is_old = time.time() - left.lstat().st_mtime > ABANDONED_SECONDS
    if not is_old and mark["computer"] != _computer():
        return
    if sys.platform != "win32":
        descriptor = os.open(left, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)  # NFS locks what may be written
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()  # with the lock: who has just made it finds it gone, and makes another one
        except OSError as error:
            if is_old and not isinstance(error, BlockingIOError):  # no locks here
                left.unlink()
        finally:
            os.close(descriptor)
    else:
        left.unlink()


def _lock(descriptor: int) -> None:
    """Have others see that this file is being written, until it is closed."""
    if sys.platform != "win32":  # there what is open cannot be removed
        with suppress(OSError):  # some file systems have no locks: what is written there is told by its age alone
            fcntl.flock(descriptor, fcntl.LOCK_EX)


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
