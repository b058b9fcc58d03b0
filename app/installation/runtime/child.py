"""Runs a program to its end while somebody may stop it; what it printed is kept for when it fails."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.downloads.control import Control

_LOOK_SECONDS = 0.1
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Ending:
    """`code` 0 is success; `printed` the end of what it said, `output` the same of its standard output alone."""

    code: int
    printed: str
    output: str


def run_child(
    arguments: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str],
    control: Control,
    look: Callable[[], None] = lambda: None,
    seconds: float = 3600.0,
) -> Ending:
    """Start it in `folder` and wait; `look` is called now and then, and what it raises ends the program.

    Raises `Stopped` when somebody wants that, `TimeoutError` after so many seconds, and `OSError` when it cannot start.
    """
    output, errors = folder / "child.out", folder / "child.err"
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(
            [str(each) for each in arguments],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        deadline = time.monotonic() + seconds
        try:
            while process.poll() is None:
                control.wait(_LOOK_SECONDS)
                look()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{arguments[0]} did not end within {seconds:.0f} s")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    printed = _tail(errors)
    said = _tail(output)
    output.unlink(missing_ok=True)
    errors.unlink(missing_ok=True)
    return Ending(process.returncode, printed, said)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace").strip()
