"""What a pair has been held to since memory ran out with it, remembered as JSON in the cache folder."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from engine.loading import cache_root
from engine.model.checkpoint import Checkpoint
from engine.options import LoadOptions
from engine.pair import Pair
from engine.preparation import source_fingerprint
from engine.weights.atomic_file import replaced_atomically
from engine.weights.machine import Memory
from engine.weights.verdict import gib

NAME = "memory.json"
VERSION = 1
MOST_KEPT = 64  # pairs; the oldest go first
FAR_MORE = 1.25  # times the memory that was free then: what went wrong then may go well now


@dataclass(frozen=True, slots=True)
class Setting:
    """The most bytes planned with, 0: as many as are free; and the most nodes of a tree, None: as many as pay."""

    vram_bytes: int = 0
    ram_bytes: int = 0
    tree_nodes: int | None = None

    @property
    def words(self) -> str:
        """What it holds a pair to; empty if nothing."""
        parts = [f"{gib(self.vram_bytes)} of GPU memory" if self.vram_bytes else ""]
        parts += [f"{gib(self.ram_bytes)} of RAM" if self.ram_bytes else ""]
        return " and ".join(part for part in parts if part)

    def limit(self, options: LoadOptions) -> LoadOptions:
        """The same options, with no more memory to plan with than this."""
        return replace(
            options,
            vram_limit_bytes=_smaller(options.vram_limit_bytes, self.vram_bytes),
            ram_limit_bytes=_smaller(options.ram_limit_bytes, self.ram_bytes),
        )


class GoodSettings:
    """The entry of one pair, with its options, on one device. A file that is damaged or foreign counts as empty.

    `setting` is what the pair is held to now.
    """

    def __init__(self, pair: Pair, device: torch.device, memory: Memory) -> None:
        """`memory`: what is free before the pair is loaded."""
        self._path = cache_root(pair.options) / NAME
        self._pair = pair
        self._device = device
        self._memory = memory
        self.setting = self._recall()

    def remember(self, setting: Setting) -> None:
        """Keep what works; a folder that cannot be written means finding out again next time."""
        if setting == self.setting:
            return
        self.setting = setting
        then = {"vram_free": self._memory.vram_free, "ram_free": self._memory.ram_free}
        self._write(self._key(), {**asdict(setting), **then})

    def _recall(self) -> Setting:
        """What worked last; nothing if memory never ran out, or if far more of it is free now than then."""
        if not self._path.is_file():
            return Setting()
        key = self._key()
        try:
            setting, then = _parsed(self._read()[key])
        except (KeyError, TypeError, ValueError):
            return Setting()
        has_more_vram = self._memory.has_gpu and self._memory.vram_free > FAR_MORE * then.vram_free
        has_more_ram = self._memory.ram_free > FAR_MORE * then.ram_free
        if has_more_vram or (has_more_ram and (setting.ram_bytes or not self._memory.has_gpu)):
            self._write(key, None)
            return Setting()
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


def _parsed(entry: dict[str, Any]) -> tuple[Setting, Memory]:
    """What anybody may have written, checked; raises `KeyError`, `TypeError` or `ValueError`."""
    nodes = entry["tree_nodes"]
    numbers = [entry[name] for name in ("vram_bytes", "ram_bytes", "ram_free", "vram_free")]
    if any(type(number) is not int or number < 0 for number in [*numbers, 0 if nodes is None else nodes]):
        raise ValueError("bytes and nodes are whole numbers")
    vram_bytes, ram_bytes, ram_free, vram_free = numbers
    return Setting(vram_bytes, ram_bytes, nodes), Memory(ram_free, vram_free=vram_free)
