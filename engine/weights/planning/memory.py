"""What is free at this moment, on the GPU and in RAM, as the other programs leave it."""

import psutil

from engine.weights.planning.cgroup import granted_bytes
from engine.weights.planning.machine import GIB, Memory

# Left on a GPU for libraries' own workspaces, for pieces between allocations, and for the desktop's next window.
VRAM_RESERVE = 3 * GIB // 4
# Left in RAM: other programs grow, and a machine that swaps is slower than one that reads weights from SSD.
RAM_RESERVE = GIB
RAM_RESERVE_PART = 16  # or this part of all RAM, if that is more


def memory_now(device: str) -> Memory:
    """Free memory for a model that computes on `device`, `cpu` or `cuda`, and what of it is left to others.

    Memory that this process holds already counts as taken: unload a model first, then ask.
    """
    system = psutil.virtual_memory()
    granted = granted_bytes()
    free = system.available if granted is None else min(system.available, granted)
    reserve = max(RAM_RESERVE, system.total // RAM_RESERVE_PART)
    if device != "cuda":
        return Memory(ram_free=free, ram_reserve=reserve)
    return Memory(free, reserve, _vram_free(), VRAM_RESERVE, has_gpu=True)


def process_bytes() -> int:
    """What this process has of RAM already: a plan's bytes come on top, in its peak."""
    return int(psutil.Process().memory_info().rss)


def _vram_free() -> int:
    """Free for everybody, and what torch keeps for itself but does not use."""
    import torch  # noqa: PLC0415  # whoever asks about a GPU has it loaded; nobody else should pay for it

    free, _total = torch.cuda.mem_get_info()
    return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())
