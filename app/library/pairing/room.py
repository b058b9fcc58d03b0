"""What this computer has room for: memory and disk, for models that the engine was not asked about yet."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import psutil

from app.downloads.disk import Disk
from app.hub.place import hub_place
from app.installation.runtime.hardware import Hardware, look
from app.library.pairing.suggestions import Suggestion

_LEFT_TO_OTHERS = 1 / 16  # of the RAM, as the engine leaves it
_QUICK_ON_A_PROCESSOR = 15 * 10**9  # parameters that a token is computed with


@dataclass(frozen=True, slots=True)
class Room:
    """`memory_bytes`: of RAM and graphics card together; `disk_bytes`: free for downloads. None: not known.

    `has_card`: whether there may be a graphics card to compute with.
    """

    memory_bytes: int | None = None
    disk_bytes: int | None = None
    has_card: bool = True

    def fits_memory(self, suggestion: Suggestion) -> bool:
        """Whether nothing of the pair would have to be streamed from SSD, as far as that is known."""
        return self.memory_bytes is None or _bytes(suggestion) <= self.memory_bytes

    def fits_disk(self, suggestion: Suggestion, is_here: bool) -> bool:
        """Whether the target could be downloaded, or `is_here` already."""
        return is_here or self.disk_bytes is None or suggestion.target.bytes <= self.disk_bytes

    def rank(self, suggestion: Suggestion, is_here: bool) -> tuple[bool, bool, int]:
        """A key to sort by: what fits stays in its order, what does not comes below it, the smallest first.

        Without a graphics card what a processor takes long for comes below the rest that fits.
        """
        fits = self.fits_memory(suggestion) and self.fits_disk(suggestion, is_here)
        is_slow = not self.has_card and suggestion.target.computed > _QUICK_ON_A_PROCESSOR
        return not fits, fits and is_slow, 0 if fits else _bytes(suggestion)


def room_here(ram_limit: int = 0, vram_limit: int = 0, hardware: Callable[[], Hardware] | None = None) -> Room:
    """Look; takes up to seconds the first time. Limits in bytes, 0 for none."""
    found = (hardware or _hardware)()
    ram = psutil.virtual_memory().total
    memory: int | None = _least(int(ram * (1 - _LEFT_TO_OTHERS)), ram_limit)
    cards = [each.memory_bytes for each in found.nvidia]
    if not all(cards) or found.amd:  # there is a card, and how much it holds is not told
        memory = None
    elif cards:
        memory = (memory or 0) + _least(max(cards), vram_limit)
    try:
        free = Disk().free_bytes(hub_place().cache)
    except OSError:
        free = None
    return Room(memory, free, has_card=bool(found.nvidia or found.amd or found.is_apple))


@cache
def _hardware() -> Hardware:
    return look()


def _bytes(suggestion: Suggestion) -> int:
    return suggestion.target.bytes + (suggestion.draft.bytes if suggestion.draft else 0)


def _least(count: int, limit: int) -> int:
    return min(count, limit) if limit else count
