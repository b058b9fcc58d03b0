"""Files: whom they are open to, and how they are replaced without ever being half written.

What the application writes for itself is readable by its owner alone; files for a person keep that one's umask. On
Windows permissions come from the folder: the profile's own folders are private there, and nothing is done here.

A file is written beside the old one, made durable, and put in its place: a full disk, a crash or a power cut leaves the
old file or the new one.
"""

import logging
import os
import shutil
import stat
import sys
from pathlib import Path, PurePath, PureWindowsPath

from engine.files import Replacement, fill, write_atomically

_log = logging.getLogger(__name__)

_PRIVATE_UMASK = 0o077
_USUAL_UMASK = 0o022
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class _Umask:
    """The umask that the process was started with, once it has been replaced; the process has only one, too."""

    own: int | None = None


def become_private() -> None:
    """Let files and folders that this process and its children make be private, 0600 and 0700, from now on."""
    if os.name == "posix":
        before = os.umask(_PRIVATE_UMASK)
        if _Umask.own is None:
            _Umask.own = before


def shared_mode(mode: int) -> int:
    """What the person's own umask leaves of a mode, whatever the umask of the process is by now."""
    return mode & ~(_USUAL_UMASK if _Umask.own is None else _Umask.own)


def share(path: Path) -> None:
    """Give a file or folder that is not the application's own the permissions that the person's umask means for it.

    For exports and for the hub's cache, which other tools and other users read. A file system that has no permissions,
    or a file of another user, stays as it is.
    """
    if _Umask.own is None:
        return
    try:
        path.chmod(shared_mode(0o777 if path.is_dir() else 0o666))
    except OSError as error:
        _log.debug("The permissions of %s could not be set: %s", path, error)


def make_shared(folder: Path) -> None:
    """Make a folder that is not the application's own, and those above it that are missing."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        share(each)


def tighten(folder: Path) -> None:
    """Take permissions of group and others from a folder of the application and everything below it.

    The folder itself comes first: from then on no other user can reach what lies below. A folder below that is private
    already has been seen to by an earlier start. Links are left alone: what they lead to may not be the application's.
    """
    if os.name != "posix" or not _keep_from_others(folder):
        return  # a file system without permissions: to look at every file would be for nothing
    _tighten_content(folder)


def tighten_alone(folder: Path) -> None:
    """The same for a folder, but not for what is in it."""
    if os.name == "posix":
        _keep_from_others(folder)


def _tighten_content(folder: Path) -> None:
    try:
        with os.scandir(folder) as entries:
            found = [each for each in entries if not each.is_symlink()]
    except OSError as error:
        _log.warning("The permissions of files in %s could not be looked at: %s", folder, error)
        return
    for entry in found:
        path = Path(entry.path)
        if not _is_open(path):
            continue
        if entry.is_dir(follow_symlinks=False):
            _tighten_content(path)  # first, so that a start that is interrupted here is made up for by the next
        _keep_from_others(path)


def _is_open(path: Path) -> bool:
    try:
        return bool(path.lstat().st_mode & _OTHERS)
    except OSError:
        return False  # gone meanwhile


def _keep_from_others(path: Path) -> bool:
    """Whether only the owner can reach it now."""
    try:
        mode = path.stat().st_mode
        if mode & _OTHERS:
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
        return not path.stat().st_mode & _OTHERS
    except FileNotFoundError:
        return True
    except OSError as error:
        _log.warning("Other users may read %s: its permissions could not be changed: %s", path, error)
        return False


def remove_folder(folder: Path) -> None:
    """Remove a folder and all below it, as far as that goes."""
    shutil.rmtree(extended(folder.absolute()), ignore_errors=True)


def extended(path: PurePath) -> str:
    """The name of a full path; on Windows the one without a limit of 260 characters, which torch's licences exceed.

    See "Naming Files, Paths, and Namespaces" in Microsoft's documentation of Win32.
    """
    name = str(path)
    if not isinstance(path, PureWindowsPath) or name.startswith("\\\\?\\"):
        return name
    return f"\\\\?\\UNC{name[1:]}" if name.startswith("\\\\") else f"\\\\?\\{name}"


PRIVATE = 0o600


def write_private(path: Path, content: bytes) -> None:
    """Replace a file of the application. Raises `OSError`; then the old one is as it was."""
    write_atomically(path, content, PRIVATE)


def write_chosen(path: Path, content: bytes) -> None:
    """The same for a place that a person chose: see `chosen_replacement`."""
    fill(chosen_replacement(path), content)


def chosen_replacement(path: Path) -> Replacement:
    """What replaces a file at a place that a person chose.

    A link stays one: what it points to is replaced. A new file is open to those whom the person's umask lets in; one
    that was there keeps its mode. On a file system that sets no permissions, as of some shares, it has those of there.
    """
    target = Path(os.path.realpath(path))
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else shared_mode(0o666)
    made = Replacement(target, PRIVATE)
    if sys.platform != "win32":
        try:
            os.fchmod(made.file.fileno(), mode)
        except OSError as error:
            _log.debug("The permissions of %s could not be set: %s", target, error)
    return made
