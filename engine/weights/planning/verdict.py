"""A plan in a word and in a sentence."""

from typing import Literal

from engine.weights.planning.arrangement import Arrangement, Footprint
from engine.weights.planning.machine import GIB, Room

Verdict = Literal["device", "offload", "ssd", "no"]

PARTS_TOLD = 3
MIB = 1 << 20


def verdict_of(arrangement: Arrangement) -> Verdict:
    """The slowest place that a pass depends on."""
    if arrangement.count("ssd"):
        return "ssd"
    return "offload" if arrangement.count("ram") else "device"


def explain(arrangement: Arrangement, taken: Footprint, room: Room) -> str:
    """Where the layers go; or, where that does not fit, what it would take and what there is."""
    if room.holds(taken.device, taken.ram):
        return _where(arrangement, room)
    device_parts = {
        "layers": taken.layers,
        "embeddings and head": taken.rest,
        "the context": taken.kv,
        "the working space of a pass": taken.buffers,
        "the draft": taken.draft,
        "layers in transit": taken.ring,
        "unpacking": taken.scratch,
    }
    ram_parts = {"layers in RAM": taken.ram_layers, "layers in transit through RAM": taken.transit}
    if taken.device > room.device and not (room.shared and room.device == room.ram):
        return _short("GPU memory" if not room.shared else "memory", device_parts, room.device)
    return _short(
        "memory" if room.shared else "RAM", {**device_parts, **ram_parts} if room.shared else ram_parts, room.ram
    )


def gib(nbytes: int) -> str:
    """Bytes as people say them."""
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= GIB else f"{nbytes / MIB:.1f} MiB"


def _where(arrangement: Arrangement, room: Room) -> str:
    count, on_ssd = len(arrangement.tiers), arrangement.count("ssd")
    if room.shared:
        if not on_ssd:
            return f"All {count} layers fit in memory."
        return f"{count - on_ssd} of {count} layers stay in memory; {on_ssd} stream from SSD."
    on_device, in_ram = arrangement.count("device"), arrangement.count("ram")
    if on_device == count:
        return f"All {count} layers fit on the GPU."
    streams = [f"{number} stream from {place}" for number, place in ((in_ram, "RAM"), (on_ssd, "SSD")) if number]
    return f"{on_device} of {count} layers stay on the GPU; {', '.join(streams)}."


def _short(memory: str, parts: dict[str, int], free: int) -> str:
    largest = sorted(parts.items(), key=lambda part: -part[1])[:PARTS_TOLD]
    told = ", ".join(f"{gib(nbytes)} for {purpose}" for purpose, nbytes in largest if nbytes)
    return f"{gib(sum(parts.values()))} of {memory} would be needed ({told}), but {gib(free)} may be used."
