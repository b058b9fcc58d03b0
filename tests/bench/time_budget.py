"""Steps of a long measurement that share a limited time, and commands that end when their share does."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.loading.out_of_memory import let_gpu_segments_grow

LAST_WORDS_SECONDS = 10.0
LEAST_SECONDS = 5.0  # a step with less does not begin: no command here is done sooner


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the measurement: `run` is told how many seconds it has, and returns its figures."""

    name: str
    weight: float
    run: Callable[[float], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step. `trouble` says in words why figures lack; empty if none do."""

    name: str
    seconds: float
    share_seconds: float
    figures: Any
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: `code` is None if its time was over."""

    code: int | None
    output: str
    seconds: float

    @property
    def trouble(self) -> str:
        """Why its figures lack, in words; empty if they do not."""
        if self.code is None:
            return f"did not fit: it was stopped after {self.seconds:.0f} s"
        lines = self.output.strip().splitlines() or ["without a word"]
        return f"ended with {self.code}: {lines[-1]}" if self.code else ""


def run_steps(
    steps: Sequence[Step],
    seconds: float,
    done: Callable[[Outcome], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run them in order; each gets its part, by weight, of the time that is left when it begins.

    So what one does not use is left to those behind it, and one that fails takes nothing from them.
    """
    end = clock() + seconds
    for number, step in enumerate(steps):
        begin = clock()
        share = (end - begin) * step.weight / sum(later.weight for later in steps[number:])
        if share < LEAST_SECONDS:
            done(Outcome(step.name, 0.0, share, None, "did not fit: no time was left for it"))
            continue
        figures, trouble = None, ""
        try:
            figures = step.run(share)
        except Exception as error:  # noqa: BLE001  # the page says it, and the other steps go on
            trouble = f"{type(error).__name__}: {error}"
        done(Outcome(step.name, clock() - begin, share, figures, trouble))


def run_limited(command: Sequence[str], seconds: float, output: Path) -> Ended:
    """Run a command, its words going to the file `output`; after so many seconds end it and all that it started.

    It is interrupted first, as by Ctrl+C, and may say what it knows: pytest tells which tests failed. Its memory on a
    GPU comes from the allocator that the engine's process has: torch reads the setting when it is imported.
    """
    begin = time.monotonic()
    environment = dict(os.environ)
    let_gpu_segments_grow(environment)
    with output.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, env=environment
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
            _end(process)
    return Ended(code, output.read_text(encoding="utf-8", errors="replace"), time.monotonic() - begin)


def _end(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LAST_WORDS_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its session is its own, and so is its group
    else:
        process.kill()
    process.wait()
