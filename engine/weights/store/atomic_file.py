"""Files that are there whole or not at all, also after a crash, and a temporary name that tells who is writing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import psutil

SUFFIX = ".part"


@contextmanager
def replaced_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` once everything is on the disk; if that fails, nothing is left."""
    part = path.with_name(f"{path.name}.{os.getpid()}{SUFFIX}")
    part.unlink(missing_ok=True)
    try:
        with part.open("xb") as file:  # exclusive: what lies there in the meantime, a link say, is not followed
            yield file
            file.flush()
            os.fsync(file.fileno())
            drop_from_cache(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that no longer run have left half written."""
    for part in folder.glob(f"*{SUFFIX}"):
        writer = part.name.removesuffix(SUFFIX).rpartition(".")[2]
        if not (writer.isdecimal() and psutil.pid_exists(int(writer))):
            part.unlink(missing_ok=True)


def drop_from_cache(descriptor: int) -> None:
    """Leave the page cache to what will be read again soon; what is not yet on the disk stays."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _sync_folder(folder: Path) -> None:
    """Make a new name in the folder survive a power cut, where folders can be synchronised at all."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
