"""One engine process, from its start to its end, and the private socket it is reached by."""

import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import IO, Any, cast

from app.engine.program import EngineProgram
from app.i18n.translation import tr
from app.installation.runtime.environment import engine_variables
from app.system.background import repeat, start
from engine.protocol.messages import UNHEARD_EXIT

ADDRESS_VARIABLE = "COPPICE_ENGINE_ADDRESS"
KEY_VARIABLE = "COPPICE_ENGINE_KEY"

BROKEN = (EOFError, OSError, AuthenticationError)
"""What a connection raises when the other side is gone."""

_LONGEST_PATH = 103  # bytes of a socket's; Linux allows 107, macOS 103
_FIRST_FAULT = 0xC0000000  # of Windows (ntstatus.h), where a process ends with its fault: 0xC0000005 and so on
_LOG_BYTES = 1_000_000
_CHUNK_BYTES = 65_536
_SECONDS_TO_EXIT = 2.0
_SECONDS_FOR_LAST_WORDS = 1.0

_log = logging.getLogger("coppice.engine")


class EngineChild:
    """A running engine. Raises `OSError` when it cannot be started, `CoppiceError` when there is none to start.

    The key travels in the environment, never on the command line, and the socket lies in a folder
    that only this user can enter.
    """

    def __init__(self, program: EngineProgram) -> None:
        self._key = secrets.token_bytes(32)
        self._folder, self._listener = _open_door(self._key)
        self._address = str(self._listener.address)
        self._log = EngineLog(program.log)
        try:
            self._process = _start(program, self._address, self._key)
        except BaseException:
            self._close_door()
            self._log.close()
            raise
        self._copying = start("engine log", lambda: repeat(self._copy_output))
        start("engine watch", lambda: repeat(self._watch))

    @property
    def pid(self) -> int:
        """The process id of the engine."""
        return self._process.pid

    @property
    def has_printed(self) -> bool:
        """Whether it has printed anything."""
        return self._log.was_written

    def connect(self) -> "Connection[Any, Any]":
        """Wait for the engine to call; raises one of `BROKEN` when it ends before it does."""
        connection: Connection[Any, Any] = cast("Any", self._listener.accept())  # Windows: a pipe that does the same
        self._close_door()
        return connection

    def kill(self) -> None:
        """End the process now; safe from any thread, also when it has ended already."""
        self._process.kill()

    def end(self) -> int:
        """Wait a moment for the process to exit by itself, then kill it; returns its exit code.

        What it printed is in its log then, unless a process that it started still holds its output open.
        """
        self._close_door()
        try:
            code = self._process.wait(_SECONDS_TO_EXIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._copying.join(_SECONDS_FOR_LAST_WORDS)
        return code

    def _close_door(self) -> None:
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _copy_output(self) -> None:
        """Until the engine, and whatever it started, has closed its output: a full pipe would stop the engine."""
        output = self._process.stdout
        assert output
        while chunk := output.read(_CHUNK_BYTES):
            self._log.write(chunk)
        output.close()
        self._log.close()

    def _watch(self) -> None:
        """An engine that dies before it calls would leave `accept` waiting for ever: then we call in its place."""
        self._process.wait()
        try:
            Client(self._address, authkey=self._key).close()
        except BROKEN:
            return  # the window has stopped waiting


class EngineLog:
    """The file of what an engine prints, and one older file beside it; neither grows beyond a limit.

    A file that cannot be written costs lines of the log, never the engine.
    """

    def __init__(self, path: Path) -> None:
        """Make the file, or go on at its end."""
        self._path = path
        self._file: IO[bytes] | None = None
        self._has_failed = False
        self.was_written = False
        self.write(b"")

    def write(self, data: bytes) -> None:
        """Add to the file; a full one takes the place of the older one first."""
        try:
            file = self._file or self._open("ab")
            if file.tell() + len(data) > _LOG_BYTES:
                file = self._rotate()
            file.write(data)
            self.was_written = self.was_written or bool(data)
        except OSError as error:
            self.close()
            if not self._has_failed:
                _log.warning("The engine's log %s cannot be written: %s", self._path, error)
            self._has_failed = True

    def close(self) -> None:
        """Let go of the file; whatever is written later opens it again."""
        file, self._file = self._file, None
        if file:
            file.close()

    def _open(self, mode: str) -> IO[bytes]:
        self._file = self._path.open(mode, buffering=0)
        return self._file

    def _rotate(self) -> IO[bytes]:
        self.close()
        try:
            self._path.replace(self._path.with_suffix(".old.log"))
        except OSError as error:  # another program holds one of them open, which Windows respects
            _log.debug("The engine's log is begun anew, without an older one: %s", error)
        return self._open("wb")


def describe_exit(code: int) -> str:
    """What the exit code of an engine that ended by itself means, as a sentence."""
    if code == 0:
        return tr("The engine ended by itself.")
    if code == UNHEARD_EXIT:
        return tr("The engine could not read what the window told it, and ended.")
    if 0 < code < _FIRST_FAULT:
        return tr("The engine ended with exit code {code}.").format(code=code)
    if code == -signal.SIGTERM:
        return tr("The engine was ended from outside.")
    if sys.platform != "win32" and code == -signal.SIGKILL:
        return tr("The engine was killed, perhaps because memory ran out.")
    return tr("The engine crashed ({signal}).").format(signal=_fault(code))


def _fault(code: int) -> str:
    if code > 0:
        return f"0x{code:08X}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _open_door(key: bytes) -> tuple[str, Listener]:
    """A new folder that only this user can enter, and who listens in it. Leaves no folder where it raises."""
    folder = tempfile.mkdtemp(prefix="coppice-", dir=_short_place())
    try:
        return folder, _listen(folder, key)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _short_place() -> str | None:
    """The first place whose folders have paths short enough for a socket: TMPDIR may be deep. None for the usual."""
    for place in (tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp"):  # noqa: S108  # mkdtemp is private
        longest = Path(place, "coppice-12345678", "engine.sock")
        if place and len(os.fsencode(longest)) <= _LONGEST_PATH and os.access(place, os.W_OK):
            return place
    return None


def _listen(folder: str, key: bytes) -> Listener:
    if os.name == "nt":
        return Listener(family="AF_PIPE", authkey=key)
    return Listener(str(Path(folder, "engine.sock")), family="AF_UNIX", authkey=key)


def _start(program: EngineProgram, address: str, key: bytes) -> "subprocess.Popen[bytes]":
    arguments, environment = program.find()
    environment = engine_variables(environment)  # also where a program did not think of it
    environment |= {ADDRESS_VARIABLE: address, KEY_VARIABLE: key.hex(), "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"}
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,  # what is there is read at once, and a thread that waits for more holds no lock
        env=environment,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
