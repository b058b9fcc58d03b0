"""One of several processes that compile: it takes one job after the other until none is left, or until it is ended.

Run as `python -m engine.loading.compiling.child FOLDER JOBS`: where compiled code is kept, and a folder with a file of
jobs, one a line. Whoever takes a job makes a file of its number beside it. It ends when its standard input does. It
imports no torch: that would take as long as three jobs, and as much memory as all of them.
"""

import logging
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from engine.model.products import jobs
from engine.model.products.compiling import has_compiler, keep_compiled_in

JOBS = "jobs"

_log = logging.getLogger(__name__)


def taken(folder: Path) -> Iterator[str]:
    """The jobs of a folder that nobody else has taken, one after the other. Raises `OSError` once it is gone."""
    for number, job in enumerate((folder / JOBS).read_text(encoding="utf-8").splitlines()):
        try:
            (folder / str(number)).open("x").close()
        except FileExistsError:
            continue
        yield job


def end_with_parent(left: Path | None = None) -> None:
    """Wait until who started this is gone, or wants it gone; a folder that it `left` is removed then."""
    try:
        os.read(sys.stdin.fileno(), 1)
        if left:
            shutil.rmtree(left, ignore_errors=True)
    finally:  # whatever became of it: there is nobody else who would end this
        os._exit(0)


def main() -> None:
    """Compile into the folder that is the first argument what stands in the second."""
    folder, left = Path(sys.argv[1]), Path(sys.argv[2])
    threading.Thread(target=end_with_parent, args=[left], name="parent", daemon=True).start()
    logging.basicConfig(level=logging.WARNING)
    keep_compiled_in(folder)
    if not has_compiler():
        return
    for job in taken(left):
        try:
            jobs.carry_out(job)
            jobs.mark_done(job)
        except Exception as error:  # noqa: BLE001  # whoever needs it compiles it, and says what is wrong
            _log.warning("'%s' was not compiled: %s", job, error)


if __name__ == "__main__":
    main()
