"""One program per data folder: a second start hands over what it was asked for, and ends."""

import hashlib
import logging
import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import QByteArray, QDeadlineTimer, QLockFile, QObject, QThread, QTimer, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app.system import json_text as json
from engine.errors import InputError
from engine.protocol.sentences import say

_LONGEST_PATH = 103  # bytes; Linux allows 107, macOS 103
_PEER_CREDENTIALS = struct.Struct("3i")  # Linux: process, user, group
_MAC_LOCAL, _MAC_PEER_CREDENTIALS, _MAC_BYTES = 0, 1, 76  # SOL_LOCAL, LOCAL_PEERCRED, sizeof(struct xucred)


def socket_names(data: Path) -> Iterator[str]:
    """The names to listen at, or to look for a listener at, best first; every start comes to the same ones.

    On Windows a pipe's name; elsewhere paths within private folders only. Folders are made as they are asked for.
    """
    name = "coppice-" + hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:20]
    if sys.platform == "win32":
        yield name
    else:
        for place in (_runtime_folder, lambda: data, _temporary_folder):
            folder = place()
            path = folder / name
            if len(os.fsencode(path)) <= _LONGEST_PATH and is_private(folder):
                yield str(path)


if sys.platform == "win32":

    def is_own_peer(descriptor: int) -> bool:  # noqa: ARG001  # as elsewhere
        """Whether the other end of a local socket belongs to this user: a pipe of theirs lets nobody else in."""
        return True

else:

    def is_private(folder: Path) -> bool:
        """Whether it is a folder of this user that no other user can enter; a link to one is none."""
        try:
            about = folder.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077

    def is_own_peer(descriptor: int) -> bool:
        """Whether the other end of a local socket belongs to this user; where no system call tells, its folder does."""
        uid = _peer_uid(descriptor)
        return uid is None or uid == os.getuid()

    def _peer_uid(descriptor: int) -> int | None:
        try:
            with socket.socket(fileno=os.dup(descriptor)) as other:
                if sys.platform == "linux":
                    found = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
                    return int(_PEER_CREDENTIALS.unpack(found)[1])
                elif sys.platform == "darwin":  # noqa: RET505  # a type checker knows one system alone
                    found = other.getsockopt(_MAC_LOCAL, _MAC_PEER_CREDENTIALS, _MAC_BYTES)
                    return int(struct.unpack_from("II", found)[1])
                else:
                    return None
        except OSError:
            return -1  # of no user

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


_log = logging.getLogger(__name__)

_CONNECT_MS = 3000
_WORDS_MS = 5000  # within which a later start says what it wants
_HEARD_MS = 25_000  # and how long it waits until it is heard: from a cold disk the first window takes its time
_END_MS, _AGAIN_MS = 5000, 100  # what a program takes to end, and between two looks whether it has
_MOST_BYTES = 65_536
_MOST_WAITING = 8
_DONE = b"done\n"


class Instance(QObject):
    """This program's claim to a data folder. `asked` comes for every later start, with the file it was given, or ""."""

    asked = Signal(str)

    def __init__(self, data: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._data = data
        self._lock = QLockFile(str(data / "window.lock"))
        self._lock.setStaleLockTime(0)  # only a dead process's lock is stale, however long a window is open
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.setMaxPendingConnections(_MOST_WAITING)
        self._server.newConnection.connect(self._on_connection)

    def claim(self) -> bool:
        """Take the folder; False if a living program has it. A folder that no lock can be made in counts as free."""
        if not self._lock.tryLock(0) and self._lock.error() is QLockFile.LockError.LockFailedError:
            return False
        if not any(self._listens(name) for name in socket_names(self._data)):
            _log.warning("Later starts cannot reach this window: %s", self._server.errorString() or "no private folder")
        return True

    def claim_or_hand_over(self, file: str) -> bool:
        """Whether the folder was taken; else the program that has it was asked to open `file`.

        One that ends answers nobody any more and holds the folder until it has written everything: that is waited for.
        Raises `InputError` where it neither answers nor ends.
        """
        if self.claim():
            return True
        try:
            self.hand_over(file)
        except InputError:
            deadline = QDeadlineTimer(_END_MS)
            while not self.claim():
                if deadline.hasExpired():
                    raise
                QThread.msleep(_AGAIN_MS)
            return True
        return False

    @property
    def name(self) -> str:
        """Where later starts reach it; empty if nowhere."""
        return self._server.fullServerName()

    def hand_over(self, file: str) -> None:
        """Ask the program that has the folder to come to the front, and to open `file` unless it is empty.

        Raises `InputError` where it does not answer.
        """
        _let_come_forward()
        words = json.dumps({"open": file}).encode() + b"\n"
        if not any(_was_heard(name, words) for name in socket_names(self._data)):
            raise InputError(
                say("Coppice is running with {folder} already, and does not answer.", folder=self._data),
                say("Close it, or end its process; or give another folder with --data-dir."),
            )

    def release(self) -> None:
        """Let the folder go."""
        self._server.close()
        self._lock.unlock()

    def _listens(self, name: str) -> bool:
        """The folder is private: what lies there is what a killed program left."""
        QLocalServer.removeServer(name)
        return self._server.listen(name)

    def _on_connection(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.disconnected.connect(socket.deleteLater)
            if not is_own_peer(socket.socketDescriptor()):
                _log.warning("Another user's program wanted something of this window, and was refused")
                socket.abort()
                continue
            socket.setReadBufferSize(_MOST_BYTES)
            QTimer.singleShot(_WORDS_MS, socket, socket.abort)
            socket.readyRead.connect(lambda socket=socket: self._on_words(socket))
            self._on_words(socket)

    def _on_words(self, socket: QLocalSocket) -> None:
        if not socket.canReadLine():
            if socket.bytesAvailable() >= _MOST_BYTES:
                socket.abort()
            return
        file = _file_of(bytes(socket.readLine().data()))
        if file is None:
            socket.abort()
            return
        socket.write(QByteArray(_DONE))
        socket.disconnectFromServer()
        self.asked.emit(file)


def _was_heard(name: str, words: bytes) -> bool:
    """Whether a window of this user listens there and has understood."""
    socket = QLocalSocket()
    socket.setReadBufferSize(_MOST_BYTES)
    socket.connectToServer(name)
    if not socket.waitForConnected(_CONNECT_MS) or not is_own_peer(socket.socketDescriptor()):
        return False
    socket.write(QByteArray(words))
    deadline, answer, is_open = QDeadlineTimer(_HEARD_MS), b"", True
    while is_open and len(answer) < len(_DONE) and not deadline.hasExpired():
        is_open = socket.waitForReadyRead(int(deadline.remainingTime()))
        answer += socket.read(len(_DONE) - len(answer)).data()  # also what came before the other side hung up
    socket.abort()
    return answer == _DONE


def _let_come_forward() -> None:
    """Windows lets a program raise its window only with leave of the one that the person has just started."""
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415

        ctypes.windll.user32.AllowSetForegroundWindow(-1)


def _file_of(line: bytes) -> str | None:
    """What a later start was given; None if the line is not of one."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    file = said.get("open") if isinstance(said, dict) else None
    return file if isinstance(file, str) else None
