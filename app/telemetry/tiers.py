"""Every layer as a cell in the memory that holds it. Pure arithmetic."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from engine.protocol.messages import Loaded

Kind = Literal["device", "ram", "ssd", "other", "free"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A stretch of a bar, from `start` to `end` of 1. `layers`: which ones; `nbytes` is 0 where nobody knows."""

    kind: Kind
    start: float
    end: float
    nbytes: int = 0
    layer: int | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """One kind of memory: a name, what is in it in numbers, its cells from left to right."""

    name: str
    layers: int
    taken: int
    room: int
    cells: tuple[Cell, ...]


def bars_of(pair: Loaded) -> tuple[Bar, ...]:
    """The memories that hold layers of the target, or could; the fastest first."""
    where = pair.residence
    sizes = where.layer_bytes if where and len(where.layer_bytes) == len(pair.tiers) else (0,) * len(pair.tiers)
    if where is None or where.shared:
        memory = where.ram if where else None
        bars = [
            _bar("RAM", pair, sizes, ("device", "ram"), memory.taken if memory else 0, memory.room if memory else 0)
        ]
    else:
        bars = [
            _bar("GPU", pair, sizes, ("device",), where.device.taken, where.device.room),
            _bar("RAM", pair, sizes, ("ram",), where.ram.taken, where.ram.room),
        ]
    if "ssd" in pair.tiers:
        bars.append(_bar("SSD", pair, sizes, ("ssd",), 0, 0))
    return tuple(bars)


def _bar(name: str, pair: Loaded, sizes: tuple[int, ...], tiers: tuple[Kind, ...], taken: int, room: int) -> Bar:
    """Layers, then what else is taken, then what is free; without sizes all layers are alike, and there is no more."""
    mine = [index for index, tier in enumerate(pair.tiers) if tier in tiers]
    held = sum(sizes[index] for index in mine)
    known = any(sizes)
    pieces: list[tuple[Kind, int, int | None]] = [
        (_kind(pair.tiers[index], tiers), sizes[index] if known else 1, index) for index in mine
    ]
    if known:
        pieces += [("other", max(0, taken - held), None), ("free", max(0, room - max(taken, held)), None)]
    return Bar(name, len(mine), max(taken, held), room, tuple(_cells(pieces, known)))


def _kind(tier: str, tiers: tuple[Kind, ...]) -> Kind:
    return next(kind for kind in tiers if kind == tier)


def _cells(pieces: list[tuple[Kind, int, int | None]], known: bool) -> Iterator[Cell]:
    total = sum(size for _, size, _ in pieces) or 1
    place = 0
    for kind, size, layer in pieces:
        if size:
            yield Cell(kind, place / total, (place + size) / total, size if known else 0, layer)
        place += size
