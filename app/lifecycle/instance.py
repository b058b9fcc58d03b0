"""One window per data folder: a second start hands over what it was asked for, and ends."""

import hashlib
from pathlib import Path

from PySide6.QtCore import QByteArray, QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app import json_text as json
from app.translation import tr
from engine.errors import InputError

_CONNECT_MS = 3000
_ANSWER_MS = 5000
_MOST_BYTES = 65_536
_DONE = b"done\n"


class Instance(QObject):
    """This program's claim to a data folder. `asked` comes for every later start, with the file it was given, or ""."""

    asked = Signal(str)

    def __init__(self, data: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name = "coppice-" + hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:20]
        self._data = data
        self._lock = QLockFile(str(data / "window.lock"))
        self._lock.setStaleLockTime(0)  # only a dead process's lock is stale, however long a window is open
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)

    def claim(self) -> bool:
        """Take the folder; False if a living program has it. A folder that no lock can be made in is nobody's."""
        if not self._lock.tryLock(0) and self._lock.error() is QLockFile.LockError.LockFailedError:
            return False
        QLocalServer.removeServer(self._name)  # what a killed program left
        self._server.listen(self._name)
        return True

    def hand_over(self, file: str) -> None:
        """Ask the program that has the folder to come to the front, and to open `file` unless it is empty.

        Raises `InputError` where it does not answer.
        """
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        answer = b""
        if socket.waitForConnected(_CONNECT_MS):
            socket.write(QByteArray(json.dumps({"open": file}).encode() + b"\n"))
            is_open = True
            while is_open and not answer.endswith(b"\n"):
                is_open = socket.waitForReadyRead(_ANSWER_MS)
                answer += socket.readAll().data()  # also what came before the other side hung up
        if answer != _DONE:
            raise InputError(
                tr("Coppice is running with {folder} already, and does not answer.").format(folder=self._data),
                tr("Close it, or end its process; or give another folder with --data-dir."),
            )

    def release(self) -> None:
        """Let the folder go."""
        self._server.close()
        self._lock.unlock()

    def _on_connection(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.setReadBufferSize(_MOST_BYTES)
            socket.disconnected.connect(socket.deleteLater)
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


def _file_of(line: bytes) -> str | None:
    """What a later start was given; None if the line is not of one."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    file = said.get("open") if isinstance(said, dict) else None
    return file if isinstance(file, str) else None
