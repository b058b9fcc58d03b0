"""How much of a packed weight is decoded at a time: temporaries stay small, and results never depend on it."""

from collections.abc import Iterator

import torch

CHUNK_WEIGHTS = 1 << 18  # per CPU thread: small beside the caches, and large beside the cost of calling torch
CHUNK_WEIGHTS_CUDA = 1 << 24  # few launches, and still no more than 128 MiB of temporaries


def row_slices(rows: int, columns: int, device: torch.device, multiple: int = 1) -> Iterator[slice]:
    """Slices of whole rows, about one chunk of numbers each; all but the last hold a `multiple` of rows."""
    chunk = CHUNK_WEIGHTS_CUDA if device.type == "cuda" else CHUNK_WEIGHTS * torch.get_num_threads()
    step = max(1, chunk // max(1, columns * multiple)) * multiple
    return (slice(begin, min(begin + step, rows)) for begin in range(0, rows, step))
