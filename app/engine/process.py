"""One engine process, from its start to its end, and the private socket it is reached by."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from app.i18n.translation import tr
from app.installation.runtime.engine_variables import engine_variables
from app.installation.runtime.manager import RuntimeManager
from app.system.background import repeat, start
from app.system.paths import ROOT
from engine.protocol.messages import UNHEARD_EXIT

ADDRESS_VARIABLE = "COPPICE_ENGINE_ADDRESS"
KEY_VARIABLE = "COPPICE_ENGINE_KEY"
PYTHON_VARIABLE = "COPPICE_ENGINE_PYTHON"

BROKEN = (EOFError, OSError, AuthenticationError)
"""What a connection raises when the other side is gone."""

_LOG_BYTES = 1_000_000
_SECONDS_TO_EXIT = 2.0


@dataclass(frozen=True, slots=True)
class EngineProgram:
    """What to start as the engine, and the file that takes what it prints."""

    arguments: tuple[str, ...]
    log: Path

    def find(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """The command line and the environment of the next engine."""
        environment = engine_variables(os.environ)
        environment["PYTHONSAFEPATH"] = "1"  # a folder named `engine` where the person happens to be is not ours
        if (ROOT / "pyproject.toml").is_file():  # run from a checkout: the engine need not be installed
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        return self.arguments, environment


@dataclass(frozen=True, slots=True)
class RuntimeProgram(EngineProgram):
    """The engine in the runtime that is installed when it is started; raises `MissingRuntimeError` without one."""

    manager: RuntimeManager

    def find(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """The runtime's Python, and nothing in its environment that is the window's."""
        start = self.manager.start()
        return (str(start.python), *self.arguments), dict(start.environment)


_MODULE = ("-m", "engine.process")


def engine_program(log: Path, manager: RuntimeManager | None = None) -> EngineProgram:
    """The engine in the Python that `COPPICE_ENGINE_PYTHON` names, or in the runtime, or else in this Python."""
    named = os.environ.get(PYTHON_VARIABLE)
    if manager is not None and not named:
        return RuntimeProgram(_MODULE, log, manager)
    return EngineProgram((named or sys.executable, *_MODULE), log)


class EngineChild:
    """A running engine. Raises `OSError` when it cannot be started, `CoppiceError` when there is none to start.

    The key travels in the environment, never on the command line, and the socket lies in a folder
    that only this user can enter.
    """

    def __init__(self, program: EngineProgram) -> None:
        self._key = secrets.token_bytes(32)
        self._folder = tempfile.mkdtemp(prefix="coppice-")
        self._listener = _listen(self._folder, self._key)
        self._address = str(self._listener.address)
        try:
            self._process = _start(program, self._address, self._key)
        except BaseException:
            self._close_door()
            raise
        start("engine watch", lambda: repeat(self._watch))

    @property
    def pid(self) -> int:
        """The process id of the engine."""
        return self._process.pid

    def connect(self) -> "Connection[Any, Any]":
        """Wait for the engine to call; raises one of `BROKEN` when it ends before it does."""
        connection = self._listener.accept()
        self._close_door()
        return connection

    def kill(self) -> None:
        """End the process now; safe from any thread, also when it has ended already."""
        self._process.kill()

    def end(self) -> int:
        """Wait a moment for the process to exit by itself, then kill it; returns its exit code."""
        self._close_door()
        try:
            return self._process.wait(_SECONDS_TO_EXIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _close_door(self) -> None:
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _watch(self) -> None:
        """An engine that dies before it calls would leave `accept` waiting for ever: then we call in its place."""
        self._process.wait()
        try:
            Client(self._address, authkey=self._key).close()
        except BROKEN:
            return  # nobody was waiting any more


def describe_exit(code: int) -> str:
    """What the exit code of an engine that nobody asked to end means, as a sentence."""
    if code == 0:
        return tr("The engine ended by itself.")
    if code == UNHEARD_EXIT:
        return tr("The engine could not read what the window told it, and ended.")
    if code > 0:
        return tr("The engine ended with exit code {code}.").format(code=code)
    if code == -signal.SIGTERM:
        return tr("The engine was ended from outside.")
    if os.name == "posix" and code == -signal.SIGKILL:
        return tr("The engine was killed, perhaps because memory ran out.")
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return tr("The engine crashed ({signal}).").format(signal=name)


def _listen(folder: str, key: bytes) -> Listener:
    if os.name == "nt":
        return Listener(family="AF_PIPE", authkey=key)
    return Listener(str(Path(folder, "engine.sock")), family="AF_UNIX", authkey=key)


def _start(program: EngineProgram, address: str, key: bytes) -> "subprocess.Popen[bytes]":
    _rotate(program.log)
    arguments, environment = program.find()
    environment = engine_variables(environment)  # also where a program did not think of it
    environment |= {ADDRESS_VARIABLE: address, KEY_VARIABLE: key.hex(), "PYTHONUNBUFFERED": "1"}
    with program.log.open("ab") as log:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )


def _rotate(log: Path) -> None:
    """Keep one old log beside a new one, so that neither grows without end."""
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(log.with_suffix(".old.log"))
