"""Processes that compile, from their start to their end."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from engine.loading.compiling.child import JOBS
from engine.loading.compiling.child import __name__ as CHILD  # noqa: N812  # a constant

ROOT = Path(__file__).parents[3]
MOST = 6  # processes: the longest job takes as long as a sixth of all of them
CHILD_BYTES = 400 << 20  # of memory that each takes: less where there are others
FOREMOST_BYTES = 1 << 30  # of memory that is left to others

_log = logging.getLogger(__name__)


def how_many(cores: int, bytes_free: int) -> int:
    """How many processes may compile at once, 0 where there is no memory for one."""
    return max(0, min(MOST, cores, (bytes_free - FOREMOST_BYTES) // CHILD_BYTES))


def start_module(module: str, *words: str) -> subprocess.Popen[bytes]:
    """Run a module of ours in a process of its own, which ends when its standard input does. Raises `OSError`.

    A person may stand in the folder of a model: no file there may stand in for a module that is imported (-P).
    """
    environment = {**os.environ}
    if (ROOT / "pyproject.toml").is_file():  # run from a checkout: the engine need not be installed
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=environment,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


class Compilers:
    """Processes that share jobs out among themselves. A job whose process dies is left undone."""

    def __init__(self, jobs: Sequence[str], folder: Path, count: int) -> None:
        """Start up to `count` of them, which compile into the folder; none where the system gives none."""
        self._children: list[subprocess.Popen[bytes]] = []
        self._jobs = Path()
        with suppress(OSError):
            self._jobs = Path(tempfile.mkdtemp(prefix="coppice-jobs-"))
            (self._jobs / JOBS).write_text("\n".join(jobs), encoding="utf-8")
            for _ in range(min(count, len(jobs))):
                self._children.append(start_module(CHILD, str(folder), str(self._jobs)))

    @property
    def are_at_work(self) -> bool:
        """Whether one of them still compiles."""
        return any(child.poll() is None for child in self._children)

    def end(self) -> None:
        """End those that are still at work; nothing is left of them."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.communicate()
        if self._jobs.name:
            shutil.rmtree(self._jobs, ignore_errors=True)
