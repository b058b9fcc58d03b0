"""What a pair is held to since memory ran out with it, remembered as JSON in the cache folder.

A shortage may have been another program's: an entry holds for a day. The load after that tries without it; if memory
runs out again soon, the new entry holds twice as long, 64 days at the most. It is void at once where far more memory
is free than then.
"""

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from engine.loading.loading import cache_root
from engine.loading.pair import Pair
from engine.loading.preparation import source_fingerprint
from engine.model.checkpoint import Checkpoint
from engine.protocol.options import LoadOptions
from engine.protocol.sentences import say
from engine.speculation.tuning.tree_limit import MOST_PATIENCE, PATIENCE
from engine.weights.planning.machine import Memory
from engine.weights.planning.verdict import gib
from engine.weights.store.atomic_file import replaced_atomically

NAME = "memory.json"
VERSION = 1
MOST_KEPT = 64  # pairs; the oldest go first
DAY = 86_400.0
MOST_DAYS = 64
MOST_TIMES = 1000
FAR_MORE = 1.25  # times the memory that was free then: what went wrong then may go well now


@dataclass(frozen=True, slots=True)
class Setting:
    """The most bytes planned with, 0: as many as are free; and the most nodes of a tree, None: as many as pay.

    `tree_patience`: rounds without a shortage before bigger trees are tried.
    """

    vram_bytes: int = 0
    ram_bytes: int = 0
    tree_nodes: int | None = None
    tree_patience: int = PATIENCE

    @property
    def words(self) -> str:
        """What it holds a pair to; empty if nothing."""
        gpu = say("{gib} of GPU memory", gib=gib(self.vram_bytes)) if self.vram_bytes else ""
        ram = say("{gib} of RAM", gib=gib(self.ram_bytes)) if self.ram_bytes else ""
        return say("{gpu} and {ram}", gpu=gpu, ram=ram) if gpu and ram else gpu or ram

    def is_tighter_than(self, other: "Setting") -> bool:
        """Whether it holds a pair to less in any way."""
        limits = ((self.vram_bytes, other.vram_bytes), (self.ram_bytes, other.ram_bytes))
        if any(own and (not others or own < others) for own, others in limits):
            return True
        return self.tree_nodes is not None and (other.tree_nodes is None or self.tree_nodes < other.tree_nodes)

    def limit(self, options: LoadOptions) -> LoadOptions:
        """The same options, with no more memory to plan with than this."""
        return replace(
            options,
            vram_limit_bytes=_smaller(options.vram_limit_bytes, self.vram_bytes),
            ram_limit_bytes=_smaller(options.ram_limit_bytes, self.ram_bytes),
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    """What was kept: the setting, the memory that was free then, when that was, and how often it was needed."""

    setting: Setting
    memory: Memory
    at: float = 0.0
    times: int = 1

    @property
    def hold_seconds(self) -> float:
        """How long it holds."""
        return DAY * min(MOST_DAYS, 1 << min(self.times - 1, MOST_DAYS))

    def age(self, now: float) -> float:
        """In seconds; one from the future is as old as can be: somebody has set the clock."""
        return now - self.at if now >= self.at else float("inf")


class GoodSettings:
    """The entry of one pair, with its options, on one device. A file that is damaged or foreign counts as empty.

    `setting` is what the pair is held to now.
    """

    def __init__(
        self, pair: Pair, device: torch.device, memory: Memory, clock: Callable[[], float] = time.time
    ) -> None:
        """`memory`: what is free before the pair is loaded; `clock`: seconds since 1970."""
        self._path = cache_root(pair.options) / NAME
        self._pair = pair
        self._device = device
        self._memory = memory
        self._clock = clock
        self._at, self._times = 0.0, 0  # of the shortage that is remembered, and how many there were in a row
        self.setting = self._recall()

    def remember(self, setting: Setting) -> None:
        """Keep what works; a folder that cannot be written means finding out again next time."""
        if setting == self.setting:
            return
        if setting.is_tighter_than(self.setting):
            self._at, self._times = self._clock(), min(self._times + 1, MOST_TIMES)
        self.setting = setting
        if setting.words == "" and setting.tree_nodes is None:
            self._write(self._key(), None)  # everything has gone well again
            return
        then = {"vram_free": self._memory.vram_free, "ram_free": self._memory.ram_free}
        self._write(self._key(), {**asdict(setting), **then, "at": self._at, "times": self._times})

    def _recall(self) -> Setting:
        """What worked last; nothing if memory never ran out, if that is long ago, or if far more of it is free now."""
        if not self._path.is_file():
            return Setting()
        key = self._key()
        try:
            entry = _parsed(self._read()[key])
        except (KeyError, TypeError, ValueError):
            return Setting()
        setting, then, age = entry.setting, entry.memory, entry.age(self._clock())
        if age > entry.hold_seconds:
            self._times = entry.times if age <= 3 * entry.hold_seconds else 0
            return Setting()
        has_more_vram = self._memory.has_gpu and self._memory.vram_free > FAR_MORE * then.vram_free
        has_more_ram = self._memory.ram_free > FAR_MORE * then.ram_free
        if has_more_vram or (has_more_ram and (setting.ram_bytes or not self._memory.has_gpu)):
            self._write(key, None)
            return Setting()
        self._at, self._times = entry.at, entry.times
        return setting

    def _key(self) -> str:
        """All that memory depends on: both models' files, the options, the device."""
        device = torch.cuda.get_device_name(self._device) if self._device.type == "cuda" else self._device.type
        options = replace(self._pair.options, target="", draft="", cache_dir="")
        parts = (_state(self._pair.target), _state(self._pair.draft), device, repr(options))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _read(self) -> dict[str, Any]:
        try:
            document = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        known = isinstance(document, dict) and document.get("version") == VERSION
        found = document.get("pairs") if known else None
        return found if isinstance(found, dict) else {}

    def _write(self, key: str, entry: dict[str, Any] | None) -> None:
        kept = {name: value for name, value in self._read().items() if name != key}
        if entry is not None:
            kept = dict([*kept.items(), (key, entry)][-MOST_KEPT:])
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with replaced_atomically(self._path) as file:
                file.write(json.dumps({"version": VERSION, "pairs": kept}, indent=1).encode())


def _state(checkpoint: Checkpoint | None) -> str:
    return source_fingerprint(checkpoint) if checkpoint else ""


def _smaller(one: int, other: int) -> int:
    """Of two limits the one that holds; 0 is none."""
    return min(one, other) if one and other else one or other


def _parsed(entry: dict[str, Any]) -> _Entry:
    """What anybody may have written, checked; raises `KeyError`, `TypeError` or `ValueError`.

    What earlier versions wrote has no time: it is taken for old.
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
    setting = Setting(vram_bytes, ram_bytes, nodes, min(patience, MOST_PATIENCE))
    return _Entry(setting, Memory(ram_free, vram_free=vram_free), at, times)
