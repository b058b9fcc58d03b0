"""Files that are never seen half written: written beside the old one, made durable, and put in its place.

A full disk, a crash or a power cut leaves the old file or the new one.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from app.private_files import shared_mode

PRIVATE = 0o600
_TRIES, _PAUSE_SECONDS = 10, 0.05  # on Windows, where virus scanners and indexers hold new files open for a moment


def write_atomically(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Replace a file. Raises `OSError`; then the old one is as it was."""
    with replacing(path, mode) as file:
        file.write(content)


def write_chosen(path: Path, content: bytes) -> None:
    """The same for a place that a person chose: see `replacing_chosen`."""
    with replacing_chosen(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, mode: int = PRIVATE) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` when the block ends; an exception leaves the old one."""
    beside = path.with_name(f"{path.name[:40]}.{os.getpid()}.tmp")  # file systems limit the length of a name
    beside.unlink(missing_ok=True)  # of a process that died; never a link that somebody put there
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        with os.fdopen(os.open(beside, flags, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _patiently(lambda: beside.replace(path))
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # the file is there; some file systems cannot synchronise a folder
        sync_folder(path.parent)


@contextmanager
def replacing_chosen(path: Path) -> Iterator[IO[bytes]]:
    """The same where a person chose the place.

    A link stays one: what it points to is replaced. A new file is open to those whom the person's umask lets in; one
    that was there keeps its mode.
    """
    target = Path(os.path.realpath(path))
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else shared_mode(0o666)
    with replacing(target) as file:
        if os.name != "nt":
            os.fchmod(file.fileno(), mode)
        yield file


def remove(path: Path) -> None:
    """Remove a file, if it is there, so that a power cut does not bring it back."""
    try:
        _patiently(path.unlink)
    except FileNotFoundError:
        return
    with suppress(OSError):
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a new name in the folder survive a power cut, where folders can be synchronised at all."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _patiently(act: Callable[[], object]) -> None:
    for remaining in reversed(range(_TRIES if os.name == "nt" else 1)):
        try:
            act()
        except PermissionError:
            if not remaining:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
