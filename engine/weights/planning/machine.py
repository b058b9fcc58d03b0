"""What a machine offers: the memory that is free now, and how fast it moves and computes."""

import ctypes
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from engine import accelerator
from engine.protocol.sentences import Amount

if TYPE_CHECKING:  # numpy comes with it: the process that answers commands asks for free memory before it needs that
    from engine.speculation.tuning.pass_time import PassTime

if sys.platform != "win32":
    import resource

MIB, GIB = 1 << 20, 1 << 30

# Left on a GPU for the workspaces of libraries, for fragmentation, and for the desktop's next window.
VRAM_RESERVE = 3 * GIB // 4
# Left in RAM: other programs grow, and swapping is slower than reading weights from SSD.
RAM_RESERVE = GIB
RAM_RESERVE_PART = 16  # or this part of all RAM, if that is more; this part alone of what a container is granted
# Besides, of a process that computes on a GPU: its libraries, which are read at the first product. Measured on an H100.
LIBRARIES_RAM = 7 * GIB // 8

MOUNT, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")

# The files of each version of control groups: limit, use, and the name of the page cache that is reclaimed first.
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that may be taken. `shared`: there is no GPU, and the device takes its bytes from RAM."""

    device: int
    ram: int
    shared: bool

    def holds(self, device: int, ram: int) -> bool:
        """Whether `device` bytes on the device and `ram` bytes more in RAM fit."""
        return device <= self.device and self.ram_taken(device, ram) <= self.ram

    def ram_taken(self, device: int, ram: int) -> int:
        """Bytes of RAM that are used when `device` and `ram` bytes are taken."""
        return ram + device if self.shared else ram


@dataclass(frozen=True, slots=True)
class Memory:
    """Free bytes as they are now, and the part of them that is left to other programs.

    Without a GPU the device is the RAM, and the two figures for VRAM mean nothing.
    """

    ram_free: int
    ram_reserve: int = 0
    vram_free: int = 0
    vram_reserve: int = 0
    has_gpu: bool = False

    def room(self, vram_limit: int | None = None, ram_limit: int | None = None) -> Room:
        """What may be taken under a person's own limits, in bytes."""
        ram = _least(self.ram_free - self.ram_reserve, ram_limit)
        device = _least(self.vram_free - self.vram_reserve if self.has_gpu else ram, vram_limit)
        return Room(device, ram, shared=not self.has_gpu)


FEW_ROWS = 16  # are multiplied with weights as they are stored, where nothing was measured


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast the machine is, best measured on it.

    `link`: pinned RAM to device; `ssd`: direct reads; `memory`: the device's own memory, all in 1e9 bytes a second.
    `tflops`: matrix products in the weights' type; `decode`: 1e9 packed weights a second that become numbers again.
    `call_seconds`: what one layer costs before it computes anything, `calls` with more and more rows if that was
    measured: each further expert is a call. `products` and `attention`: what 1e9 weights and cache slots take with more
    and more rows, if that was measured; otherwise `memory` and `tflops` tell. `stored`: the same of weights as they
    are stored, the faster way for each number of rows: not decoded up to `few_rows`. `pass_seconds`: what a pass costs
    besides its layers, and `round_seconds` a round besides its passes; `levels`: what growing one level of a tree costs
    besides the draft's pass, against the level's nodes. `host`: what the processor beside a GPU takes for 1e9 weights
    in RAM as they are stored, against rows, if that was measured; else `host_memory` and `host_tflops` of it tell.
    `unpack`: 1e9 numbers of keys and values in 8 bits a second that attention unpacks; 0 where it was not measured.
    """

    link: float
    ssd: float
    memory: float
    tflops: float
    decode: float
    call_seconds: float = 5e-4
    products: "PassTime | None" = None
    attention: "PassTime | None" = None
    stored: "PassTime | None" = None
    few_rows: int = FEW_ROWS
    calls: "PassTime | None" = None
    pass_seconds: float = 0.0
    round_seconds: float = 0.0
    levels: "PassTime | None" = None
    host: "PassTime | None" = None
    host_memory: float = 30.0
    host_tflops: float = 0.5
    unpack: float = 0.0

    def layer_seconds(self, rows: float) -> float:
        """What one layer costs before it computes anything, with so many rows."""
        return self.calls(rows) if self.calls else self.call_seconds


@dataclass(frozen=True, slots=True)
class Rings:
    """Slots, each of one layer, of the ring that reads from SSD into RAM and of the one on a GPU."""

    disk: int = 3
    device: int = 2


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory as it is now, rates, and how far ahead weights are read.

    `rates` are those of the target's weights; `drafting`: of a draft's, None where these were not measured.
    """

    memory: Memory
    rates: Rates
    rings: Rings = field(default_factory=Rings)
    drafting: Rates | None = None


def memory_now(device: str) -> Memory:
    """Free memory for a model that computes on a `device` of this type, and what of it is left to other programs.

    Memory that this process holds already counts as taken: unload a model first, then ask.
    """
    system = psutil.virtual_memory()
    granted, available = granted_bytes(), system.available
    if sys.platform == "win32":
        available = min(available, committable_bytes(ctypes.WinDLL("kernel32")))
    free = available if granted is None else min(available, granted)
    room = available - max(RAM_RESERVE, system.total // RAM_RESERVE_PART)
    if granted is not None:  # nobody else's: it need not hold a gigabyte for others
        room = min(room, granted - granted // RAM_RESERVE_PART)
    reserve = free - room
    if device not in accelerator.TYPES:
        return Memory(ram_free=free, ram_reserve=reserve)
    return Memory(free, reserve + LIBRARIES_RAM, accelerator.free_bytes(device), VRAM_RESERVE, has_gpu=True)


def all_memory(device: str) -> Memory:
    """The same if no other program took any; what a container's limit leaves free is all there is."""
    now, system = memory_now(device), psutil.virtual_memory()
    ram = now.ram_free if granted_bytes() is not None else system.total
    return replace(now, ram_free=ram, vram_free=accelerator.total_bytes(device) if now.has_gpu else 0)


class MemoryStatus(ctypes.Structure):
    """`MEMORYSTATUSEX` of sysinfoapi.h."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("dwLength", "dwMemoryLoad")),
        *((name, ctypes.c_uint64) for name in ("ullTotalPhys", "ullAvailPhys", "ullTotalPageFile", "ullAvailPageFile")),
        *((name, ctypes.c_uint64) for name in ("ullTotalVirtual", "ullAvailVirtual", "ullAvailExtendedVirtual")),
    )


def committable_bytes(kernel: Any) -> int:
    """What Windows promises to any program: where all of RAM and page file is promised, free RAM is of no use.

    See "GlobalMemoryStatusEx" in Microsoft's documentation; a page file that may grow gives more than this.
    `kernel`: kernel32.dll.
    """
    status = MemoryStatus(dwLength=ctypes.sizeof(MemoryStatus))
    return int(status.ullAvailPageFile) if kernel.GlobalMemoryStatusEx(ctypes.byref(status)) else sys.maxsize


def process_bytes() -> int:
    """The RAM that this process has already; at the peak, a plan's bytes are added to it."""
    return int(psutil.Process().memory_info().rss)


def granted_bytes(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int | None:
    """Bytes that this process's control groups still grant, the least of all levels; None without a limit.

    Containers set such limits.
    """
    rooms = [_room(group, *files) for group, files in _groups(mount, membership)]
    return min((room for room in rooms if room is not None), default=None)


def gib(nbytes: int) -> Amount:
    """Bytes as people say them."""
    return Amount(f"{nbytes / GIB:.1f} GiB" if nbytes >= GIB else f"{nbytes / MIB:.1f} MiB")


def _least(free: int, limit: int | None) -> int:
    return max(0, free if limit is None else min(free, limit))


def _groups(mount: Path, membership: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """The folders of this process's groups and of their parents; a container may see only the lower part of a path."""
    for line in _lines(membership):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            root, files = mount / "memory", V1
        elif number == "0":
            root, files = mount, V2
        else:
            continue
        group = root / path.strip("/")
        yield root, files
        while group != root and root in group.parents:
            yield group, files
            group = group.parent


def _room(group: Path, limit_file: str, used_file: str, reclaimable: str) -> int | None:
    limit, used = _number(group / limit_file), _number(group / used_file)
    if limit is None or used is None:
        return None
    statistics = dict(line.split()[:2] for line in _lines(group / "memory.stat") if len(line.split()) == 2)
    return max(0, limit - used + int(statistics.get(reclaimable, "0")))


def _number(path: Path) -> int | None:
    """The number that the file holds; None if it holds none, such as `max`."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdecimal() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def peak_rss_bytes() -> int:
    """The most memory this process has held so far, in bytes."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    elif sys.platform == "linux":  # noqa: RET505  # getrusage would tell the parent's peak if that was higher
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024  # type: ignore[index]
    else:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS, in bytes there
