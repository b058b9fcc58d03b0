"""Recognises errors that mean that memory ran out, and words them; returns unused memory to the system.

Imports no torch: the process that answers commands needs it before torch is there.
"""

import ctypes
import errno
import gc
import os
import re
import sys
from collections.abc import MutableMapping
from contextlib import suppress

from engine import accelerator
from engine.errors import OutOfMemory
from engine.protocol.libraries import PAGE_FILE
from engine.protocol.sentences import joined, say
from engine.weights.planning.machine import gib, memory_now

# What torch's allocators, the CUDA libraries, oneDNN (which finds no memory for its code) and bitsandbytes say. They
# raise RuntimeError or a kind of it.
WORDS = re.compile(
    r"out of memory|can't allocate memory|not enough memory|cannot allocate memory"
    r"|(cublas|cudnn|cusolver|cusparse)\w*_status_alloc_failed|\berror_?memory_?allocation"
    r"|^could not create a primitive$",
    re.IGNORECASE,
)
GPU_WORDS = re.compile(r"cuda|cublas|cudnn|cusolver|cusparse|\bgpu\b", re.IGNORECASE)
ASKED = re.compile(r"tried to allocate ([\d.]+) ?(bytes|[KMGT]iB)", re.IGNORECASE)
UNITS = {"bytes": 0, "kib": 10, "mib": 20, "gib": 30, "tib": 40}
WINDOWS_ERRORS = (8, 14, 1455)  # not enough memory, out of memory, the paging file is too small
HINT = say("Close other programs, or choose a smaller model, smaller weights, a shorter context or a smaller tree.")

# Where torch's allocator finds its settings; the first holds for every kind of device.
ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")

LARGE_BYTES = 8 << 20  # weights are larger, most of what a pass writes down is smaller and better reused
_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h


def out_of_memory_of(error: BaseException, doing: str, hint: str = HINT) -> OutOfMemory | None:
    """An `OutOfMemory` if the error means that memory ran out, else None; an `OutOfMemory` is returned as it is.

    `doing` completes "Memory ran out during". The error's traceback holds the memory of whatever failed: leave the
    `except` block, and raise the result only behind it, before anything is tried again.
    """
    if isinstance(error, OutOfMemory):
        return error
    if not _says_so(error):
        return None
    words = str(error)
    of_gpu = not isinstance(error, MemoryError | OSError) and GPU_WORDS.search(f"{type(error).__name__} {words}")
    asked = _asked_bytes(words)
    kind = say("GPU memory") if of_gpu else "RAM"
    wanted = (
        say("{gib} of {kind} were asked for", gib=gib(asked), kind=kind)
        if asked
        else say("more {kind} was asked for", kind=kind)
    )
    found = OutOfMemory(
        say("Memory ran out during {work}: {wanted}; {free}.", work=doing, wanted=wanted, free=_free()),
        hint if of_gpu or sys.platform != "win32" else joined([hint, PAGE_FILE]),
        of_gpu=bool(of_gpu),
        asked_bytes=asked,
    )
    if words:
        found.add_note(words[:1000])
    return found


def give_back_memory() -> None:
    """Collect reference cycles, and return GPU memory that torch's allocator caches."""
    gc.collect()
    accelerator.give_back_cache()


def _says_so(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM or getattr(error, "winerror", None) in WINDOWS_ERRORS
    torch = sys.modules.get("torch")  # whoever raises its errors has imported it
    if torch is not None and isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and WORDS.search(str(error)) is not None


def _asked_bytes(words: str) -> int:
    found = ASKED.search(words)
    return int(float(found[1]) * (1 << UNITS[found[2].lower()])) if found else 0


def _free() -> str:
    ram = gib(memory_now("cpu").ram_free)
    for device in accelerator.types_in_use():
        with suppress(RuntimeError):  # a driver that has run out of memory may refuse even this
            gpu = gib(memory_now(device).vram_free)
            return say("{gpu} of GPU memory and {ram} of RAM were free", gpu=gpu, ram=ram)
    return say("{ram} of RAM were free", ram=ram)


def give_back_large_blocks() -> bool:
    """Have blocks of `LARGE_BYTES` on returned as soon as they are freed; False where the allocator is another one.

    glibc raises its own limit to the largest block that was ever freed, up to 32 MiB, and keeps smaller ones: after a
    model was loaded weight by weight the process held half as much again as the model takes.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))


def give_back_freed() -> None:
    """Return what glibc's allocator keeps of what was freed: behind a text of a million tokens this was 1.6 GB.

    Takes 8 ms where there is nothing, and 0.4 s for so much.
    """
    if sys.platform.startswith("linux") and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def let_gpu_segments_grow(
    environment: MutableMapping[str, str] = os.environ, kernel_release: str | None = None
) -> None:
    """Have torch's allocator on a GPU map more memory behind what it has, instead of a new block for every new size.

    Every tree is of another size, and so are the logits of its pass: blocks of all of these sizes are memory that is
    free and too small. Only before torch is imported, and only on Linux: elsewhere torch warns that it cannot
    (c10/cuda/CUDAAllocatorConfig.h). Not within Windows (WSL), where with some drivers the first allocation fails then.
    Whoever has set anything of this allocator has decided. `kernel_release`: of `uname -r`, this machine's by default.
    """
    if sys.platform != "linux" or any(name in environment for name in ALLOCATOR_VARIABLES):
        return
    release = os.uname().release if kernel_release is None else kernel_release
    if "microsoft" not in release.lower():
        environment[ALLOCATOR_VARIABLES[0]] = "expandable_segments:True"
