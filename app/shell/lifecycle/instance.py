"""One window per data folder: a second start hands over what it was asked for, and ends."""

import logging
import sys
from pathlib import Path

from PySide6.QtCore import QByteArray, QDeadlineTimer, QLockFile, QObject, QTimer, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app.i18n.translation import tr
from app.shell.lifecycle.socket_place import is_own_peer, socket_names
from app.system import json_text as json
from engine.errors import InputError

_log = logging.getLogger(__name__)

_CONNECT_MS = 3000
_ANSWER_MS = 5000
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
        """Take the folder; False if a living program has it. A folder that no lock can be made in is nobody's."""
        if not self._lock.tryLock(0) and self._lock.error() is QLockFile.LockError.LockFailedError:
            return False
        if not any(self._listens(name) for name in socket_names(self._data)):
            _log.warning("Later starts cannot reach this window: %s", self._server.errorString() or "no private folder")
        return True

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
                tr("Coppice is running with {folder} already, and does not answer.").format(folder=self._data),
                tr("Close it, or end its process; or give another folder with --data-dir."),
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
            QTimer.singleShot(_ANSWER_MS, socket, socket.abort)
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
    deadline, answer, is_open = QDeadlineTimer(_ANSWER_MS), b"", True
    while is_open and len(answer) < len(_DONE) and not deadline.hasExpired():
        is_open = socket.waitForReadyRead(int(deadline.remainingTime()))
        answer += socket.read(len(_DONE)).data()  # also what came before the other side hung up
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
