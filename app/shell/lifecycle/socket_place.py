"""Where the socket of a data folder's window lies: in a folder that nobody else can enter; and who is behind it."""

import hashlib
import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LONGEST_PATH = 103  # bytes; Linux allows 107, macOS 103
_PEER_CREDENTIALS = struct.Struct("3i")  # Linux: process, user, group
_MAC_LOCAL, _MAC_PEER_CREDENTIALS, _MAC_BYTES = 0, 1, 76  # SOL_LOCAL, LOCAL_PEERCRED, sizeof(struct xucred)


def socket_names(data: Path) -> Iterator[str]:
    """The names to listen at, or to look for a listener at, best first; every start comes to the same ones.

    On Windows a pipe's name; elsewhere paths within private folders only. Folders are made as they are asked for.
    """
    name = "coppice-" + hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:20]
    if os.name != "posix":
        yield name
        return
    for folder in (_runtime_folder(), data, _temporary_folder()):
        path = folder / name
        if len(os.fsencode(path)) <= _LONGEST_PATH and is_private(folder):
            yield str(path)


def is_private(folder: Path) -> bool:
    """Whether it is a folder of this user that nobody else can enter; a link to one is none."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077


def is_own_peer(descriptor: int) -> bool:
    """Whether the other end of a local socket belongs to this user. Where no system call tells, its folder has to."""
    if os.name != "posix":
        return True
    uid = _peer_uid(descriptor)
    return uid is None or uid == os.getuid()


def _peer_uid(descriptor: int) -> int | None:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as other:
            platform: str = sys.platform  # as a text: a type checker knows one system alone
            if platform == "linux":
                found = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
                return int(_PEER_CREDENTIALS.unpack(found)[1])
            if platform == "darwin":
                found = other.getsockopt(_MAC_LOCAL, _MAC_PEER_CREDENTIALS, _MAC_BYTES)
                return int(struct.unpack_from("II", found)[1])
    except OSError:
        return -1  # nobody's
    return None


def _runtime_folder() -> Path:
    return Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")


def _temporary_folder() -> Path:
    """A short path, for data folders with long ones. It is checked before it is used: anybody can make it first."""
    folder = Path(tempfile.gettempdir()) / f"coppice-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700)
    except OSError:
        return folder
    return folder
