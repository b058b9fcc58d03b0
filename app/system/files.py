"""Files that are never seen half written: written beside the old one, made durable, and put in its place.

A full disk, a crash or a power cut leaves the old file or the new one.
"""

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from glob import escape
from pathlib import Path

from app.system.private_files import shared_mode

PRIVATE = 0o600
# Virus scanners and indexers of Windows hold new files open for a moment.
_TRIES, _PAUSE_SECONDS = 10 if os.name == "nt" else 1, 0.05


class Replacement:
    """A file that is written beside `path` and takes its place with `commit`; `discard` leaves the old one.

    All of it can raise `OSError`, `discard` cannot.
    """

    def __init__(self, path: Path, mode: int = PRIVATE) -> None:
        self._path = path
        # File systems limit the length of a name.
        self._beside = path.with_name(f"{path.name[:40]}.{os.getpid()}.tmp")
        _sweep(path)
        self._beside.unlink(missing_ok=True)  # left by a process of the same number; a link is never followed
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.fdopen(os.open(self._beside, flags, mode), "wb")

    @classmethod
    def chosen(cls, path: Path) -> "Replacement":
        """For a place that a person chose.

        A link stays one: what it points to is replaced. A new file is open to those whom the person's umask lets in;
        one that was there keeps its mode.
        """
        target = Path(os.path.realpath(path))
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else shared_mode(0o666)
        made = cls(target)
        if os.name != "nt":
            os.fchmod(made._file.fileno(), mode)
        return made

    def write(self, content: bytes) -> None:
        """Add to it."""
        self._file.write(content)

    def commit(self) -> None:
        """Put it in the old one's place; the old one is left if that fails."""
        try:
            with self._file:
                self._file.flush()
                os.fsync(self._file.fileno())
            _patiently(lambda: self._beside.replace(self._path))
        except BaseException:
            self.discard()
            raise
        with suppress(OSError):  # the file is there; some file systems cannot synchronise a folder
            sync_folder(self._path.parent)

    def discard(self) -> None:
        """Leave the old one, and nothing beside it."""
        with suppress(OSError):  # a full disk fails here once more
            self._file.close()
        with suppress(OSError):
            self._beside.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Replace a file. Raises `OSError`; then the old one is as it was."""
    _fill(Replacement(path, mode), content)


def write_chosen(path: Path, content: bytes) -> None:
    """The same for a place that a person chose: see `Replacement.chosen`."""
    _fill(Replacement.chosen(path), content)


def _fill(file: Replacement, content: bytes) -> None:
    try:
        file.write(content)
    except BaseException:
        file.discard()
        raise
    file.commit()


def remove(path: Path) -> None:
    """Remove a file, if it is there, so that a power cut does not bring it back."""
    _sweep(path)
    try:
        _patiently(path.unlink)
    except FileNotFoundError:
        return
    with suppress(OSError):
        sync_folder(path.parent)


def _sweep(path: Path) -> None:
    """Remove what processes that were killed while they wrote this file have left beside it."""
    for left in path.parent.glob(f"{escape(path.name[:40])}.*.tmp"):
        writer = left.name.rsplit(".", 2)[1]
        if writer.isdecimal() and not _is_alive(int(writer)):
            with suppress(OSError):
                left.unlink()


def _is_alive(process: int) -> bool:
    if os.name == "nt":
        return True  # asking for a process there can end it; an old file does no harm
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        pass
    return True


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
    for remaining in reversed(range(_TRIES)):
        try:
            act()
        except PermissionError:
            if not remaining:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
