"""The memory limits and the tree size that a pair is held to since memory ran out with it, kept in the cache folder.

A shortage may have been another program's: an entry holds for a day. The load after that tries without it; if memory
runs out again soon, the new entry holds twice as long, 64 days at the most. It is void at once where far more memory
is free than then.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from engine import accelerator
from engine.files import file_state
from engine.loading.pair import Pair
from engine.loading.store import CacheFile, cache_root
from engine.protocol.options import LoadOptions
from engine.protocol.sentences import say
from engine.speculation.tuning.tree_limit import MOST_PATIENCE, PATIENCE
from engine.weights.planning.machine import Memory, gib

NAME = "memory.json"
VERSION = 1
DAY = 86_400.0
MOST_DAYS = 64
MOST_TIMES = 1000
FAR_MORE = 1.25  # times the memory that was free then: the limits are void


@dataclass(frozen=True, slots=True)
class Limits:
    """The most bytes to plan with (0: all that are free), and the most nodes of a tree (None: no limit).

    `tree_patience`: rounds without a shortage before bigger trees are tried.
    """

    vram_bytes: int = 0
    ram_bytes: int = 0
    tree_nodes: int | None = None
    tree_patience: int = PATIENCE

    @property
    def words(self) -> str:
        """The limits of memory as text; empty if there are none."""
        gpu = say("{gib} of GPU memory", gib=gib(self.vram_bytes)) if self.vram_bytes else ""
        ram = say("{gib} of RAM", gib=gib(self.ram_bytes)) if self.ram_bytes else ""
        return say("{gpu} and {ram}", gpu=gpu, ram=ram) if gpu and ram else gpu or ram

    def is_tighter_than(self, other: "Limits") -> bool:
        """Whether any of its limits is lower than the other's."""
        limits = ((self.vram_bytes, other.vram_bytes), (self.ram_bytes, other.ram_bytes))
        if any(own and (not others or own < others) for own, others in limits):
            return True
        return self.tree_nodes is not None and (other.tree_nodes is None or self.tree_nodes < other.tree_nodes)

    def applied_to(self, options: LoadOptions) -> LoadOptions:
        """The options with their memory limits lowered to these."""
        return replace(
            options,
            vram_limit_bytes=_smaller(options.vram_limit_bytes, self.vram_bytes),
            ram_limit_bytes=_smaller(options.ram_limit_bytes, self.ram_bytes),
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is stored: the limits, the memory that was free then, the time, and how many times in a row it happened."""

    limits: Limits
    memory: Memory
    at: float = 0.0
    times: int = 1

    @property
    def hold_seconds(self) -> float:
        """How long it holds."""
        return DAY * min(MOST_DAYS, 1 << min(self.times - 1, MOST_DAYS))

    def age(self, now: float) -> float:
        """Seconds since it was written; infinite for a time in the future: the clock was changed."""
        return now - self.at if now >= self.at else float("inf")


class MemoryLimits:
    """The entry of one pair, with its options, on one device.

    `limits` is what the pair is held to now.
    """

    def __init__(
        self, pair: Pair, device: torch.device, memory: Memory, clock: Callable[[], float] = time.time
    ) -> None:
        """`memory`: what is free before the pair is loaded; `clock`: seconds since 1970."""
        self._file = CacheFile(cache_root(pair.options) / NAME, VERSION)
        self._pair = pair
        self._device = device
        self._memory = memory
        self._clock = clock
        self._at, self._times = 0.0, 0  # of the shortage that is remembered, and how many there were in a row
        self.limits = self._recall()

    def remember(self, limits: Limits) -> None:
        """Store limits that work."""
        if limits == self.limits:
            return
        if limits.is_tighter_than(self.limits):
            self._at, self._times = self._clock(), min(self._times + 1, MOST_TIMES)
        self.limits = limits
        if limits.words == "" and limits.tree_nodes is None:
            self._file.put("pairs", self._key(), None)  # everything has gone well again
            return
        then = {"vram_free": self._memory.vram_free, "ram_free": self._memory.ram_free}
        entry = {**asdict(limits), **then, "at": self._at, "times": self._times}
        self._file.put("pairs", self._key(), entry)

    def _recall(self) -> Limits:
        """The stored limits; none if memory never ran out, if that is too long ago, or if far more is free now."""
        if file_state(self._file.path) is None:  # also where the folder cannot be looked at
            return Limits()
        key = self._key()
        entry = self._file.entry("pairs", key, _parsed)
        if entry is None:
            return Limits()
        limits, then, age = entry.limits, entry.memory, entry.age(self._clock())
        if age > entry.hold_seconds:
            self._times = entry.times if age <= 3 * entry.hold_seconds else 0
            return Limits()
        has_more_vram = self._memory.has_gpu and self._memory.vram_free > FAR_MORE * then.vram_free
        has_more_ram = self._memory.ram_free > FAR_MORE * then.ram_free
        if has_more_vram or (has_more_ram and (limits.ram_bytes or not self._memory.has_gpu)):
            self._file.put("pairs", key, None)
            return Limits()
        self._at, self._times = entry.at, entry.times
        return limits

    def _key(self) -> str:
        """What memory use depends on: both models' files, the options, the device."""
        device = accelerator.name(self._device)
        options = replace(self._pair.options, target="", draft="", cache_dir="")
        files = self._pair.identity.by_files()
        parts = (files["target"], files["draft"] if self._pair.draft else "", device, repr(options))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _smaller(one: int, other: int) -> int:
    """The lower of two limits; 0 is none."""
    return min(one, other) if one and other else one or other


def _parsed(entry: Mapping[str, Any]) -> _Entry:
    """A stored entry, checked; raises `KeyError`, `TypeError` or `ValueError`.

    Entries of earlier versions have no time: they count as old.
    """
    nodes = entry["tree_nodes"]
    numbers = [entry[name] for name in ("vram_bytes", "ram_bytes", "ram_free", "vram_free")]
    if any(type(number) is not int or number < 0 for number in [*numbers, 0 if nodes is None else nodes]):
        raise ValueError("bytes and nodes are whole numbers")
    vram_bytes, ram_bytes, ram_free, vram_free = numbers
    patience, times, at = entry.get("tree_patience", PATIENCE), entry.get("times", 1), entry.get("at", 0.0)
    if type(patience) is not int or type(times) is not int or not 1 <= times <= MOST_TIMES or patience < 1:
        raise ValueError("rounds and times are whole numbers")
    if type(at) not in (int, float):
        raise ValueError("a time is a number")
    limits = Limits(vram_bytes, ram_bytes, nodes, min(patience, MOST_PATIENCE))
    return _Entry(limits, Memory(ram_free, vram_free=vram_free), at, times)
