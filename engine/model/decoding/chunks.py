"""How much of a packed weight is decoded at a time: temporaries stay small, and results never depend on it."""

from collections.abc import Callable

import torch

from engine.model.decoding.workers import work_through
from engine.own_thread import threads_allowed

CHUNK_WEIGHTS = 1 << 19  # per CPU thread: in the third-level cache still, and large beside the cost of calling torch
SMALL_PART = 32  # of a weight is decoded at once, as long as that is half a chunk
CHUNK_WEIGHTS_CUDA = 1 << 24  # few launches, and still no more than 128 MiB of temporaries
FEWEST = 1 << 16  # weights that are worth a thread of their own


def chunk_weights(device: torch.device, weights: int) -> int:
    """How many of `weights` numbers are decoded at once: on a CPU so few that all threads have something to do."""
    if device.type == "cuda":
        return CHUNK_WEIGHTS_CUDA
    most = min(CHUNK_WEIGHTS, max(CHUNK_WEIGHTS // 2, weights // SMALL_PART))
    return min(most, max(FEWEST, -(-weights // threads_allowed())))


def in_chunks(work: Callable[[slice], None], rows: int, columns: int, device: torch.device, multiple: int = 1) -> None:
    """Do `work` for slices of whole rows, about one chunk of numbers each; all but the last hold a `multiple` of rows.

    On a CPU they are worked on side by side (see `work_through`), in any order: they must not share temporaries.
    """
    step = max(1, chunk_weights(device, rows * columns) // max(1, columns * multiple)) * multiple
    work_through(work, [slice(begin, min(begin + step, rows)) for begin in range(0, rows, step)], device)
