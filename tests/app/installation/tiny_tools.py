"""Tools that make a tiny runtime in no time: a script that runs this Python, and wheels unpacked beside it."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.downloads.disk import Check
from app.installation.runtime.tools import Tools

LOCK = [] if os.name == "nt" else ["lock"]  # what a lock leaves of its file
_SCRIPT = '#!/bin/sh\nPYTHONPATH="$(dirname "$0")/../site" exec "{python}" -S "$@"\n'
_BATCH = '@set "PYTHONPATH=%~dp0..\\site"\n@"{python}" -S %*\n'
_UNPACK = "import sys, zipfile; [zipfile.ZipFile(each).extractall('python/site') for each in sys.argv[1:]]"


@dataclass(frozen=True, slots=True)
class TinyTools(Tools):
    """The real ones take seconds; `test_tools.py` is about those."""

    def make_python(self, folder: Path, check: Check) -> Path:
        check()
        name, script = ("python3.cmd", _BATCH) if os.name == "nt" else ("python3", _SCRIPT)
        program = folder / "bin" / name
        program.parent.mkdir(parents=True)
        program.write_text(script.format(python=sys.executable))
        program.chmod(0o755)
        return program

    def install_command(self, python: Path, wheels: Sequence[str]) -> list[str | Path]:
        return [sys.executable, "-I", "-S", "-c", _UNPACK, *wheels]
