"""What is started as the engine: which Python, with which words and variables. No Qt."""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from app.installation.runtime.environment import engine_variables
from app.installation.runtime.manager import RuntimeManager
from app.system.paths import ROOT

PYTHON_VARIABLE = "COPPICE_ENGINE_PYTHON"


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

    def beside(self, words: tuple[str, ...], log: Path) -> Self:
        """Another program in the same Python: what that is to run, and the file of what it prints."""
        return replace(self, arguments=(self.arguments[0], *words), log=log)


@dataclass(frozen=True, slots=True)
class RuntimeProgram(EngineProgram):
    """The engine in the runtime that is installed when it is started; raises `MissingRuntimeError` without one."""

    manager: RuntimeManager

    def find(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """The runtime's Python, and nothing in its environment that is the window's."""
        start = self.manager.start()
        return (str(start.python), *self.arguments), dict(start.environment)

    def beside(self, words: tuple[str, ...], log: Path) -> Self:
        """The Python is found when it is started."""
        return replace(self, arguments=words, log=log)


PROCESS = ("-m", "engine.process")


def engine_program(log: Path, manager: RuntimeManager | None = None, words: tuple[str, ...] = PROCESS) -> EngineProgram:
    """The engine in the Python that `COPPICE_ENGINE_PYTHON` names, or in the runtime, or else in this Python.

    `words`: what that Python is to run; the window's engine if nothing is said.
    """
    named = os.environ.get(PYTHON_VARIABLE)
    if manager is not None and not named:
        return RuntimeProgram(words, log, manager)
    return EngineProgram((named or sys.executable, *words), log)
