"""The disk that downloads are written to: free space, and files of which every byte that was written is kept."""

import errno
import os
import shutil
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from app.hub.failures import OutOfSpaceError
from app.i18n.units import size_text
from engine.protocol.sentences import say

RESERVE_BYTES = 256 << 20  # what is left to everything else on the disk
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


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
    """The failure, in words."""
    return OutOfSpaceError(
        say("{size} more are needed on the disk of {folder}.", size=size_text(missing), folder=folder),
        say("Free some space, then resume; what has arrived is kept."),
        missing,
    )


Check = Callable[[], None]
"""Called between pieces of long work; raises what is to end it."""
