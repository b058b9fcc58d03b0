"""Empties a processor's caches before what is to be timed: in a pass every weight comes from memory."""

from collections.abc import Callable
from pathlib import Path

import psutil
import torch

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNKNOWN_BYTES = 32 << 20  # of a desktop's last level
MOST_BYTES = 256 << 20  # it takes time to read; server processors tell of more than a virtual machine ever gets
PART_OF_FREE = 8  # of the memory that is free, this part may be taken meanwhile
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cold_cache(device: torch.device, weights_bytes: int) -> Callable[[], object]:
    """What is called before a measurement of a model with so many bytes of weights.

    It reads other memory, as much as the caches hold. It does nothing where the weights stay in the caches from one
    pass to the next, nor on a device that is no processor.
    """
    caches = last_level_bytes()
    if device.type != "cpu" or weights_bytes < min(caches, MOST_BYTES) // 2:
        return lambda: None
    nbytes = min(MOST_BYTES, 2 * caches, psutil.virtual_memory().available // PART_OF_FREE)
    return torch.ones(nbytes // 4).sum


def last_level_bytes(folder: Path = CACHES) -> int:
    """The largest cache of the first processor, as Linux tells it; elsewhere a usual size."""
    sizes = []
    for file in folder.glob("index*/size"):
        try:
            text = file.read_text(encoding="ascii").strip()
            sizes.append(int(text.rstrip("KMG")) * UNITS.get(text[-1:], 1))
        except (OSError, ValueError):
            continue
    return max(sizes, default=UNKNOWN_BYTES)
