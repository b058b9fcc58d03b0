"""Compiles the loops that most models need, in a process of its own, before somebody waits for them.

The first model whose weights are multiplied as they are stored would take half a minute and more to load: on a machine
that has compiled nothing yet, and after an update of the loops. What is compiled is kept. So the engine of the window
starts this when nobody asks anything, and ends it as soon as somebody does: the next time it goes on from there.

Run as `python -m engine.loading.measurements.ahead FOLDER`, it measures products and passes as a load does, at the
lowest priority, and forgets the figures. It ends when its standard input does.
"""

import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import torch

from engine.gguf_header import TYPES
from engine.loading.measurements.arithmetic import measure_arithmetic
from engine.loading.measurements.measuring import DeviceTimer, nothing, stored_product_time
from engine.loading.measurements.overheads import Narrow, pass_overhead
from engine.loading.measurements.samples import PACKED_SIZES, packed_samples
from engine.model.formats.packed import PackedWeight
from engine.model.gguf.packed_blocks import Gguf
from engine.model.products.compiling import has_compiler, keep_compiled_in, kept_folder
from engine.model.safetensors_header import TensorInfo
from engine.number_types import computed_types

USUAL = ("Q4_K", "Q6_K", "Q8_0", "Q5_K", "Q4_0", "MXFP4")  # of GGUF files; the first two are in most of them
COLUMNS = 4096
FEW_ROWS = 16
DONE = "ahead"  # a file in the folder of compiled code
MEMORY_BYTES = 3 << 30  # that must be free: it takes half of that
LOWEST = 19  # of the priorities

_log = logging.getLogger(__name__)


class Ahead:
    """The process, while it is at work. Of one thread."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path) -> None:
        """Have what is missing compiled into the folder; nothing if all is there, or if it has ended by itself once."""
        if self._child is not None or psutil.virtual_memory().available < MEMORY_BYTES:
            return
        keep_compiled_in(folder)
        kept = kept_folder()
        if kept is None or (kept / DONE).exists():
            return
        _log.info("The loops for usual models are compiled while nobody asks.")
        with suppress(OSError):
            self._child = subprocess.Popen(
                [sys.executable, "-m", __name__, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )

    def stop(self) -> None:
        """End it, if it is still at work."""
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.communicate()
            self._child = None


def compile_usual() -> None:
    """Compile what most models need. Raises `OSError` where it cannot be noted that all is there."""
    device = torch.device("cpu")
    if has_compiler():
        dtype = computed_types()[measure_arithmetic(device, nothing).type_name]
        for narrow in (Narrow(device, dtype, few_rows=FEW_ROWS), Narrow(device, dtype, 8, 2, few_rows=FEW_ROWS)):
            pass_overhead(narrow, nothing)
        for name in USUAL:
            stored_product_time(packed_samples([(1.0, _weights(name))]), DeviceTimer(device, dtype, nothing))
    if kept := kept_folder():
        (kept / DONE).touch()


def _weights(name: str) -> dict[int, PackedWeight]:
    """Matrices of a type of GGUF, by how many numbers they have; nothing lies where they say."""
    kind = next(kind for kind in TYPES if kind.name == name)
    found = {}
    for size in PACKED_SIZES:
        rows, line = size // COLUMNS, COLUMNS // kind.elements * kind.nbytes
        blocks = TensorInfo("U8", (rows, line), Path(), 0, rows * line)
        found[size] = PackedWeight(name, (rows, COLUMNS), {"0": blocks}, Gguf((kind,)))
    return found


def _end_with_parent() -> None:
    """Wait until who started this is gone, or wants it gone."""
    try:
        os.read(sys.stdin.fileno(), 1)
    finally:  # whatever became of it: there is nobody else who would end this
        os._exit(0)


def main() -> None:
    """Compile into the folder that is the argument."""
    with suppress(psutil.Error, OSError):
        psutil.Process().nice(psutil.IDLE_PRIORITY_CLASS if sys.platform == "win32" else LOWEST)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    keep_compiled_in(Path(sys.argv[1]))
    with torch.inference_mode():
        compile_usual()


if __name__ == "__main__":
    main()
