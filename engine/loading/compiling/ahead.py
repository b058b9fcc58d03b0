"""Compiles the loops that most models need, in processes of their own, before somebody waits for them.

The first model whose weights are multiplied as they are stored would take long to load: on a machine that has compiled
nothing yet, and after an update of the loops. What is compiled is kept. So the engine of the window starts this when
nobody asks anything, and ends it as soon as somebody does: the next time it goes on from there.

Run as `python -m engine.loading.compiling.ahead FOLDER narrow` (or `wide`, where networks compute in float32), it
compiles with half of the processors, at the lowest priority. It ends when its standard input does.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

from engine.loading.compiling.child import end_with_parent
from engine.loading.compiling.processes import Compilers, how_many, start_module
from engine.model.products import jobs
from engine.model.products.compiling import has_compiler, keep_compiled_in, kept_folder

USUAL = {
    "Q4_K": "Q4K uint8:2",
    "Q6_K": "Q6K uint8:2",
    "Q8_0": "Q80 uint8:2",
    "Q5_K": "Q5K uint8:2",
    "Q4_0": "Q40 uint8:2",
    "MXFP4": "Mxfp4 uint8:2 levels:e2m1_doubled float32:1",
}
"""Of GGUF files, as `jobs.layout_text` has them; the first two are in most of them."""
DONE = "ahead"  # a file in the folder of compiled code, with what all is there for behind it
MEMORY_BYTES = 2 << 30  # that must be free
LOOK_SECONDS = 0.5
LOWEST = 19  # of the priorities

_log = logging.getLogger(__name__)


class Ahead:
    """The process, while it is at work. Of one thread."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path, is_narrow: bool) -> None:
        """Have what is missing compiled into the folder; nothing if all is there, or if it has ended by itself once.

        `is_narrow`: for networks that compute in bfloat16, otherwise in float32.
        """
        if self._child is not None or psutil.virtual_memory().available < MEMORY_BYTES:
            return
        keep_compiled_in(folder)
        kind, kept = _KINDS[is_narrow], kept_folder()
        if kept is None or _done(kept, kind).exists():
            return
        _log.info("The loops for usual models are compiled while nobody asks.")
        with suppress(OSError):
            self._child = start_module(__name__, str(folder), kind)

    def stop(self) -> None:
        """End it, if it is still at work; its own processes end with it."""
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.communicate()
            self._child = None


_KINDS = {True: "narrow", False: "wide"}


def _done(kept: Path, kind: str) -> Path:
    return kept / f"{DONE}-{kind}"


def usual_jobs(is_narrow: bool) -> list[str]:
    """What most models need, mixtures too, the longest first."""
    layouts = map(jobs.layout_of, USUAL.values())
    of_layouts = [job for parts in layouts for job in jobs.of_layout(parts, is_narrow)]
    of_networks = jobs.of_networks(is_narrow, is_mixture=True)
    return jobs.in_order([*jobs.of_measuring(is_narrow), *of_networks, *of_layouts])


def compile_usual(folder: Path, kind: str) -> None:
    """Compile what most models need. Raises `OSError` where it cannot be noted that all is there."""
    kept = kept_folder()
    if kept is None or not has_compiler():
        return
    wanted = jobs.missing(usual_jobs(kind == _KINDS[True]))
    count = how_many(max(1, (os.cpu_count() or 1) // 2), psutil.virtual_memory().available)
    compilers = Compilers(wanted, folder, count)
    while compilers.are_at_work:
        time.sleep(LOOK_SECONDS)
    compilers.end()
    if not jobs.missing(wanted):
        _done(kept, kind).touch()


def main() -> None:
    """Compile into the folder that is the argument."""
    with suppress(psutil.Error, OSError):
        psutil.Process().nice(psutil.IDLE_PRIORITY_CLASS if sys.platform == "win32" else LOWEST)
    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
    folder = Path(sys.argv[1])
    keep_compiled_in(folder)
    compile_usual(folder, sys.argv[2])


if __name__ == "__main__":
    main()
