"""What makes a runtime: a Python to copy or to make an environment from, and uv, or pip where that is not there."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.downloads.disk import Check
from app.installation.runtime.environment import clean_environment
from app.system.bundle import RuntimeParts, python_of
from engine.errors import InputError
from engine.protocol.sentences import say

INDEX_VARIABLE = "COPPICE_INDEX"
"""The address of the package index to use instead of the one that uv is set to."""

_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Tools:
    """`uv` may be None. `home` is a Python that can be copied; without one, `base` makes a virtual environment."""

    uv: Path | None = None
    home: Path | None = None
    base: Path | None = None

    def make_python(self, folder: Path, check: Check) -> Path:
        """Put a Python into `folder`, which is not there yet, and return its program; raises `OSError`."""
        if self.home is not None:
            _copy(self.home, folder, check)
            return python_of(folder)
        base = self.base or Path(sys.executable)
        command: list[str | Path] = [base, "-I", "-m", "venv", "--without-pip", folder]
        subprocess.run(command, check=True, capture_output=True, env=clean_environment(os.environ), timeout=120)
        return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python3"

    def install_command(self, python: Path, wheels: Sequence[str]) -> list[str | Path]:
        """Unpacks wheels, given as paths below the working folder, into that Python; asks nobody about anything."""
        if self.uv is not None:
            options = ["--offline", "--no-index", "--no-deps", "--no-config", "--break-system-packages"]
            return [self.uv, "pip", "install", "--python", python, *options, "--cache-dir", "uv-cache", *wheels]
        base = self.base or Path(sys.executable)
        options = ["--isolated", "--no-index", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"]
        return [base, "-m", "pip", "--python", python, "install", *options, "--no-compile", "--no-input", *wheels]

    def install_environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """What that command should see: the wheels are chosen already, and no settings of pip's or uv's may object."""
        clean = {name: value for name, value in clean_environment(variables).items() if not name.startswith("UV_")}
        return clean | {"PIP_CONFIG_FILE": os.devnull}

    def default_index(self) -> str:
        """The index that uv would ask, as its own settings and the person's mirrors have it."""
        named = os.environ.get(INDEX_VARIABLE)
        if named:
            return named
        if self.uv is None:
            raise InputError(
                say("Nobody says which package index to ask."),
                say("Set {name}, or use a wheel folder.", name=INDEX_VARIABLE),
            )
        command: list[str | Path] = [self.uv, "pip", "compile", "--quiet", "--no-deps", "--emit-index-url", os.devnull]
        told = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=clean_environment(os.environ),
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        lines = [line.split() for line in told.stdout.splitlines()]
        index = next((words[1] for words in lines if len(words) == 2 and words[0] == "--index-url"), "")
        if not index:
            raise InputError(
                say("uv does not say which package index to ask."), say("Set {name}, or check uv.", name=INDEX_VARIABLE)
            )
        return index


def tools_of(parts: RuntimeParts) -> Tools:
    """What a bundle carries; where it carries no Python, as in a folder made by hand, that of this process serves."""
    found = shutil.which("uv")
    uv = parts.uv if parts.uv.is_file() else Path(found) if found else None
    return Tools(uv, parts.python_home if parts.python.is_file() else None)


def _copy(home: Path, folder: Path, check: Check) -> None:
    def copy(source: str, target: str) -> str:
        check()
        return str(shutil.copy2(source, target))

    shutil.copytree(home, folder, symlinks=True, copy_function=copy)
    for externally in folder.rglob("EXTERNALLY-MANAGED"):
        externally.unlink()
