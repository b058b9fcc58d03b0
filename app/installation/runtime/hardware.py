"""What this computer computes with, as its drivers and its system tell; torch is not asked, it may not be there."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.installation.runtime.environment import clean_environment
from app.system.paths import program_on_path

Run = Callable[[Sequence[str]], str]
"""Runs a program and returns what it printed; empty where it is not there or fails."""

_FIELDS = ("name,compute_cap,memory.total,driver_version", "name,memory.total,driver_version")
_SECONDS = 10.0
_VERSION = re.compile(r"\b(\d{3,4}(?:\.\d+)+)\b")
_MODEL = re.compile(r"^Model:\s*(.+)$", re.MULTILINE)
_AMD_VENDOR = "0x1002"
_AMD_TARGET = re.compile(r"^gfx_target_version ([1-9]\d*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NvidiaCard:
    """`capability` is (major, minor), or () where the driver does not tell; `memory_bytes` 0 likewise."""

    name: str
    capability: tuple[int, ...] = ()
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Hardware:
    """`system` is linux, windows or macos; `machine` x86_64 or arm64. `driver` is NVIDIA's version, () without one.

    `amd`: what AMD's cards are to compilers, such as gfx1100.
    """

    system: str
    machine: str
    nvidia: tuple[NvidiaCard, ...] = ()
    driver: tuple[int, ...] = ()
    amd: tuple[str, ...] = ()

    @property
    def is_apple(self) -> bool:
        """Whether it is a Mac with a processor of Apple's own."""
        return self.system == "macos" and self.machine == "arm64"


def known_without_asking() -> Hardware:
    """System and processor; for where asking for cards has failed."""
    system = {"win32": "windows", "darwin": "macos"}.get(sys.platform, "linux")
    machine = platform.machine().lower()
    return Hardware(system, {"amd64": "x86_64", "aarch64": "arm64"}.get(machine, machine))


def look(run: Run | None = None, root: Path = Path("/")) -> Hardware:
    """Ask the system; takes up to seconds, for a driver that wakes up a card."""
    known = known_without_asking()
    system, machine = known.system, known.machine
    ask = run or _run
    cards: tuple[NvidiaCard, ...] = ()
    driver: tuple[int, ...] = ()
    if system != "macos":
        for fields in _FIELDS:
            cards, driver = parse_smi(ask(("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits")))
            if cards:
                break
    if system == "linux" and not cards:
        cards, driver = _from_proc(root / "proc" / "driver" / "nvidia")
    return Hardware(system, machine, cards, driver, _amd_targets(root / "sys") if system == "linux" else ())


def parse_smi(text: str) -> tuple[tuple[NvidiaCard, ...], tuple[int, ...]]:
    """The cards and the driver in the comma-separated answer of `nvidia-smi`; nothing for anything else."""
    cards: list[NvidiaCard] = []
    driver: tuple[int, ...] = ()
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) not in (3, 4) or not _VERSION.fullmatch(parts[-1]):
            continue
        driver = numbers(parts[-1])
        capability = numbers(parts[1]) if len(parts) == 4 else ()
        megabytes = parts[-2].split(".")[0]
        cards.append(NvidiaCard(parts[0], capability, (int(megabytes) << 20) if megabytes.isdecimal() else 0))
    return tuple(cards), driver


def parse_proc_version(text: str) -> tuple[int, ...]:
    """The driver in `/proc/driver/nvidia/version`."""
    match = _VERSION.search(text.splitlines()[0]) if text else None
    return numbers(match[1]) if match else ()


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that compare: `580.65.06` is (580, 65, 6); () for what is none."""
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()


def _from_proc(folder: Path) -> tuple[tuple[NvidiaCard, ...], tuple[int, ...]]:
    """What the kernel module tells where `nvidia-smi` is not installed."""
    driver = parse_proc_version(_read(folder / "version"))
    found = [_MODEL.search(_read(path)) for path in sorted(folder.glob("gpus/*/information"))]
    return tuple(NvidiaCard(match[1].strip()) for match in found if match), driver


def _amd_targets(sys_folder: Path) -> tuple[str, ...]:
    """The cards that ROCm could compute with: the kernel lists them among its nodes, where a processor has target 0."""
    if not any(_read(path).strip() == _AMD_VENDOR for path in sys_folder.glob("class/drm/card*/device/vendor")):
        return ()
    nodes = sorted(sys_folder.glob("class/kfd/kfd/topology/nodes/*/properties"))
    found = (_AMD_TARGET.search(_read(path)) for path in nodes)
    return tuple(dict.fromkeys(_target(int(match[1])) for match in found if match))


def _target(version: int) -> str:
    """110001 is gfx1101, 90010 is gfx90a."""
    major, minor, stepping = version // 10_000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _run(arguments: Sequence[str]) -> str:
    flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
    program = program_on_path(arguments[0])
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *arguments[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=True,
            env=clean_environment(os.environ),
            stdin=subprocess.DEVNULL,
            creationflags=flags,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
